//! rusqlite on a file.

use posthaste_sql::{BlockingTx, Dialect};
use rusqlite::Connection;

use crate::script::{SCRIPTS, Table, play_blocking};

fn open(folder: &tempfile::TempDir) -> (Connection, Table) {
    let connection = Connection::open(folder.path().join("test.db")).unwrap();
    let table = Table { name: "plain".into(), dialect: Dialect::Sqlite };
    connection.execute_batch(&table.create()).unwrap();
    (connection, table)
}

#[test]
fn every_script_holds_in_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let (mut connection, table) = open(&folder);
    for script in SCRIPTS {
        let mut tx = connection.transaction().unwrap();
        assert_eq!(BlockingTx::dialect(&tx), Dialect::Sqlite);
        play_blocking(&mut tx, script(&table));
        tx.rollback().unwrap();
        play_blocking(&mut connection.transaction().unwrap(), table.holds(0));
    }
}

#[test]
fn every_script_holds_in_a_savepoint() {
    let folder = tempfile::tempdir().unwrap();
    let (mut connection, table) = open(&folder);
    for script in SCRIPTS {
        let mut tx = connection.transaction().unwrap();
        let mut savepoint = tx.savepoint().unwrap();
        play_blocking(&mut savepoint, script(&table));
        drop(savepoint);
        play_blocking(&mut tx, table.holds(0));
    }
}

#[test]
fn a_commit_keeps_what_the_savepoint_released() {
    let folder = tempfile::tempdir().unwrap();
    let (mut connection, table) = open(&folder);
    let mut tx = connection.transaction().unwrap();
    let mut kept = tx.savepoint().unwrap();
    BlockingTx::execute(&mut kept, table.insert(1, None, None)).unwrap();
    kept.commit().unwrap();
    let mut undone = tx.savepoint().unwrap();
    BlockingTx::execute(&mut undone, table.insert(2, None, None)).unwrap();
    drop(undone);
    tx.commit().unwrap();
    play_blocking(&mut connection.transaction().unwrap(), table.holds(1));
}
