//! The table engine on SQLite under the laws, in a file of its own.

use std::sync::Arc;
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, open_table};
use posthaste::table::sqlite_audit_ddl;
use posthaste::time::{Clock, Timestamp};
use posthaste::{BoxFuture, Error, Result};
use posthaste_testkit::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};
use rusqlite::Connection;
use tempfile::TempDir;

use super::sqlite::away;
use super::table::{exempt, options};

const ONE_WRITER: &str = "one writer: transactions cannot overlap";
const OWN_SIGNAL: &str = "two opened stores have a signal each, and hear of each other by polling";

const MILLISECONDS: &str = "SQLite's own functions know milliseconds, and no more is stored of a time";

const MAKE: &str = "
    CREATE TABLE law_outbox (
        sequence integer PRIMARY KEY AUTOINCREMENT, event_id text NOT NULL UNIQUE, event_type text NOT NULL,
        payload blob NOT NULL, created_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
        status text NOT NULL DEFAULT 'PENDING', attempts integer NOT NULL DEFAULT 0,
        available_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), locked_by text, locked_at text, topic text,
        partition_key text, headers text NOT NULL DEFAULT '{}', source text, subject text, content_type text,
        version integer NOT NULL DEFAULT 1, occurred_at text, delivered_at text, updated_at text, last_error text,
        CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
        -- The row invariants of the specification, at every moment.
        CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')), CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
        CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED')));
    CREATE INDEX law_pickup ON law_outbox (available_at, created_at) WHERE status = 'PENDING';
    CREATE INDEX law_stuck ON law_outbox (locked_at) WHERE status = 'DELIVERING';
    CREATE INDEX law_order ON law_outbox (partition_key, created_at) WHERE status IN ('PENDING', 'DELIVERING');";

pub(crate) struct TableSqliteRigs;

impl RigMaker for TableSqliteRigs {
    fn name(&self) -> &'static str {
        "table-sqlite"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn exempt(&self, law: &str) -> Option<&'static str> {
        match law {
            "every_attribute_arrives_as_it_was_published" => Some(MILLISECONDS),
            _ => exempt(law),
        }
    }

    fn leases_rows(&self) -> bool {
        true
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>> {
        Box::pin(open_table(url, options(), StoreOptions::default()))
    }

    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>> {
        Box::pin(async move { Ok(Arc::new(TableRig::new(AnyClock::new(clock))?) as Arc<dyn Rig>) })
    }
}

/// A database file in a folder that goes with it.
struct TableRig {
    folder: TempDir,
    clock: AnyClock,
}

impl TableRig {
    fn new(clock: AnyClock) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| Error::config("make a folder").because(error))?;
        let rig = Self { folder, clock };
        let connection = Connection::open(rig.file()).map_err(away)?;
        connection.execute_batch("PRAGMA journal_mode = WAL;").map_err(away)?;
        connection.execute_batch(MAKE).map_err(away)?;
        connection.execute_batch(&sqlite_audit_ddl(&TablePrefix::default())).map_err(away)?;
        Ok(rig)
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("law.db")
    }

    fn address(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }
}

impl Rig for TableRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Err(ONE_WRITER), wake_across: Err(OWN_SIGNAL) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        let mut how = StoreOptions::default();
        how.clock = Arc::new(self.clock.clone());
        Box::pin(async move { open_table(&self.address(), options(), how).await })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.address())
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

    /// As any language does it: plain SQL, with its own idea of how to write a time.
    fn insert(&self, event: Envelope) -> Result<()> {
        let now = self.clock.now();
        let due = event.available.map_or(now, |moment| moment.resolve(now)).to_string();
        let text = "INSERT INTO law_outbox (event_id, event_type, payload, topic, partition_key, available_at, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, strftime('%Y-%m-%d %H:%M:%f', ?6), strftime('%Y-%m-%d %H:%M:%f', ?7))";
        let values =
            (&event.id, &event.event_type, &event.payload, &event.topic, &event.key, due, now.to_string());
        self.connection.execute(text, values).map_err(away)?;
        Ok(())
    }
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
