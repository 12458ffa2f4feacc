//! The SQLite store under the laws, in a file of its own.

use std::sync::Arc;
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::schema::Backend;
use posthaste::sql::{Dialect, Statement, Value};
use posthaste::store::{StoreOptions, Synchronous, open_with};
use posthaste::time::{Clock, Timestamp};
use posthaste::{BoxFuture, Error, Result};
use posthaste_testkit::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};
use rusqlite::Connection;
use tempfile::TempDir;

const ONE_WRITER: &str = "one writer: transactions cannot overlap";
const OWN_SIGNAL: &str = "two opened stores have a signal each, and hear of each other by polling";

pub(crate) struct SqliteRigs;

impl RigMaker for SqliteRigs {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>> {
        Box::pin(posthaste::store::open(url))
    }

    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>> {
        Box::pin(async move { Ok(Arc::new(SqliteRig::new(AnyClock::new(clock)).await?) as Arc<dyn Rig>) })
    }
}

/// A database file in a folder that goes with it.
pub(crate) struct SqliteRig {
    folder: TempDir,
    clock: AnyClock,
}

impl SqliteRig {
    pub(crate) async fn new(clock: AnyClock) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| Error::config("make a folder").because(error))?;
        let rig = Self { folder, clock };
        // A producer may be the first to come, and finds the tables.
        rig.open().await?;
        Ok(rig)
    }

    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("law.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }
}

impl Rig for SqliteRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Err(ONE_WRITER), wake_across: Err(OWN_SIGNAL) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        let mut options = StoreOptions::default();
        options.clock = Arc::new(self.clock.clone());
        options.synchronous = Synchronous::Normal;
        Box::pin(async move { open_with(&self.url(), options).await })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(SqliteRig::url(self))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>> {
        Box::pin(async move {
            let connection = Connection::open(self.file()).map_err(away)?;
            connection.busy_timeout(Duration::from_secs(5)).map_err(away)?;
            connection.execute_batch("BEGIN IMMEDIATE").map_err(away)?;
            Ok(Box::new(Begun { connection, clock: self.clock.clone() }) as Box<dyn RigTx>)
        })
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// A producer's transaction on a connection of its own, which ends with it.
struct Begun {
    connection: Connection,
    clock: AnyClock,
}

impl Begun {
    fn say(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(away)
    }

    fn insert(&self, event: Envelope) -> Result<()> {
        let id = event.id.clone();
        let statement = Outbox::new("").statement(Dialect::Sqlite, Publish::from(event))?;
        run(&self.connection, &statement)?;
        // The store's clock may be a manual one, which SQLite's own does not know.
        let now = self.clock.now().as_micros();
        let stamp = "UPDATE posthaste_events SET created_at = ?1, occurred_at = ?1 WHERE event_id = ?2";
        self.connection.execute(stamp, (now, id)).map_err(away)?;
        Ok(())
    }
}

fn run(connection: &Connection, statement: &Statement) -> Result<()> {
    let values = statement.values.iter().map(|value| match value {
        Value::Int(value) => rusqlite::types::Value::from(*value),
        Value::Text(value) => rusqlite::types::Value::from(value.clone()),
        Value::Bytes(value) => rusqlite::types::Value::from(value.clone()),
        _ => rusqlite::types::Value::Null,
    });
    connection.execute(&statement.sql, rusqlite::params_from_iter(values)).map_err(away)?;
    Ok(())
}

impl RigTx for Begun {
    fn publish(&mut self, event: Envelope) -> BoxFuture<'_, Result<()>> {
        let done = self.insert(event);
        Box::pin(async { done })
    }

    fn savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        let done = self.say("SAVEPOINT law");
        Box::pin(async { done })
    }

    fn rollback_to_savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        let done = self.say("ROLLBACK TO law");
        Box::pin(async { done })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        let done = self.say("COMMIT");
        Box::pin(async { done })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        let done = self.say("ROLLBACK");
        Box::pin(async { done })
    }
}

pub(crate) fn away(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unavailable("a producer's connection failed").because(error)
}
