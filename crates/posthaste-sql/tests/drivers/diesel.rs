//! diesel, which blocks: SQLite on a file, and Postgres through diesel-async's blocking wrapper, which needs no C library.

use diesel::connection::{Connection, SimpleConnection as _, TransactionManager};
use diesel::sqlite::SqliteConnection;
use diesel_async::AsyncPgConnection;
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use posthaste_sql::{BlockingTx, Dialect, DieselBackend, DieselTx};

use crate::postgres;
use crate::script::{SCRIPTS, Table, play_blocking};

/// Plays every script in a transaction of its own and undoes it, then keeps one row and undoes another.
fn transactions_hold<C>(connection: &mut C, table: &Table)
where
    C: Connection,
    C::Backend: DieselBackend,
{
    for script in SCRIPTS {
        C::TransactionManager::begin_transaction(connection).unwrap();
        let mut tx = DieselTx(connection);
        assert_eq!(tx.dialect(), table.dialect);
        play_blocking(&mut tx, script(table));
        C::TransactionManager::rollback_transaction(connection).unwrap();
        play_blocking(&mut DieselTx(connection), table.holds(0));
    }
    let kept = connection.transaction(|connection| {
        DieselTx(connection).execute(table.insert(1, None, None)).unwrap();
        diesel::QueryResult::Ok(())
    });
    kept.unwrap();
    let undone = connection.transaction(|connection| {
        DieselTx(connection).execute(table.insert(2, None, None)).unwrap();
        diesel::QueryResult::<()>::Err(diesel::result::Error::RollbackTransaction)
    });
    undone.unwrap_err();
    play_blocking(&mut DieselTx(connection), table.holds(1));
}

#[test]
fn transactions_hold_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let mut connection = SqliteConnection::establish(file.to_str().unwrap()).unwrap();
    let table = Table { name: "plain".into(), dialect: Dialect::Sqlite };
    connection.batch_execute(&table.create()).unwrap();
    transactions_hold(&mut connection, &table);
}

#[test]
fn transactions_hold_on_postgres() {
    for url in postgres::direct_urls("diesel::transactions_hold_on_postgres") {
        let mut connection = AsyncConnectionWrapper::<AsyncPgConnection>::establish(&url).unwrap();
        let table = postgres::table("diesel");
        connection.batch_execute(&table.create()).unwrap();
        transactions_hold(&mut connection, &table);
        connection.batch_execute(&table.drop()).unwrap();
    }
}
