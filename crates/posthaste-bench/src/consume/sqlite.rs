//! Effects in an SQLite file, through rusqlite: one connection, as SQLite has one writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste::consumer::{Consumer, Cx, Failure as Verdict};
use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::sql::{BoxFuture, Database, Dialect, SqlError, Statement, Tx, Value};
use posthaste::store::{StoreOptions, open_with};
use posthaste_terminal::exit::Failure;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ConsumeArgs, Rounds, effect};

const INSERT: &str = "INSERT INTO bench_effects (event_id) VALUES (?1)";

pub(super) async fn measure(args: &ConsumeArgs, url: &str) -> Result<Rounds, Failure> {
    let path = url.trim_start_matches("sqlite:").trim_start_matches("//");
    let path = PathBuf::from(path.split('?').next().unwrap_or(path));
    if path.exists() {
        let named = path.display();
        return Err(Failure::usage(format!(
            "{named} exists; name a file that does not: the bench makes and removes it"
        )));
    }
    let measured = measure_in(args, url, &path).await;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        // A file that is not there is what we want.
        let _ = std::fs::remove_file(name);
    }
    measured
}

async fn insert(cx: &mut Cx<File>, envelope: Arc<Envelope>) -> Result<(), Verdict> {
    cx.tx().execute(effect::of(&envelope, INSERT)).await?;
    Ok(())
}

async fn measure_in(args: &ConsumeArgs, url: &str, path: &Path) -> Result<Rounds, Failure> {
    let mut options = StoreOptions::default();
    options.prefix = effect::PREFIX.parse()?;
    // Makes the tables and goes.
    drop(open_with(url, options).await?);
    let file = File::open(path).map_err(failed)?;
    let look = Connection::open(path).map_err(failed)?;
    look.execute_batch(effect::TABLE).map_err(failed)?;
    let count =
        async || look.query_row(effect::COUNT, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed);
    let consumer =
        |prefix: &TablePrefix| Consumer::new("bench", file.clone(), ()).prefix(prefix).on_any(insert);
    effect::measure(args, consumer, count).await
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::other(format!("measure on SQLite: {error}"))
}

/// The file's only connection for writing. A statement in it is short and runs where it is asked for.
#[derive(Clone)]
struct File {
    connection: Arc<Mutex<Connection>>,
    turn: Arc<Semaphore>,
}

impl File {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), turn: Arc::new(Semaphore::new(1)) })
    }
}

impl Database for File {
    type Tx = FileTx;

    fn begin(&self) -> BoxFuture<'_, posthaste::sql::Result<FileTx>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(SqlError::new)?;
            let tx = FileTx { connection: Arc::clone(&self.connection), open: true, _turn: turn };
            tx.say("BEGIN IMMEDIATE")?;
            Ok(tx)
        })
    }

    fn commit(mut tx: FileTx) -> BoxFuture<'static, posthaste::sql::Result<()>> {
        Box::pin(async move { tx.end() })
    }
}

/// A transaction: nobody else has one while it lives.
struct FileTx {
    connection: Arc<Mutex<Connection>>,
    open: bool,
    _turn: OwnedSemaphorePermit,
}

impl FileTx {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str) -> posthaste::sql::Result<()> {
        let connection = self.connection();
        connection.prepare_cached(text).and_then(|mut text| text.execute([])).map(drop).map_err(SqlError::new)
    }

    fn end(&mut self) -> posthaste::sql::Result<()> {
        self.say("COMMIT")?;
        self.open = false;
        Ok(())
    }

    fn run(&self, statement: &Statement) -> rusqlite::Result<u64> {
        let connection = self.connection();
        let mut prepared = connection.prepare_cached(&statement.sql)?;
        Ok(prepared.execute(params_from_iter(statement.values.iter().map(lent)))? as u64)
    }
}

impl Tx for FileTx {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, posthaste::sql::Result<u64>> {
        Box::pin(async move { self.run(&statement).map_err(SqlError::new) })
    }
}

impl Drop for FileTx {
    fn drop(&mut self) {
        if self.open {
            // A rollback that fails finds nothing to roll back.
            let _ = self.say("ROLLBACK");
        }
    }
}

/// The value as the driver wants it, without a copy.
fn lent(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Int(Some(int)) => ValueRef::Integer(*int),
        Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
        Value::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
        _ => ValueRef::Null,
    })
}
