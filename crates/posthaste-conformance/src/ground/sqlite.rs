//! SQLite.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use posthaste::BoxFuture;
use posthaste::prefix::TablePrefix;
use posthaste::table::{Profile, sqlite_table_ddl};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::{Ground, Held, Rows, hex};
use crate::Stop;

/// Longer than any check holds a transaction.
const BUSY: Duration = Duration::from_secs(20);

pub(super) struct Sqlite {
    path: String,
    connection: Mutex<Connection>,
}

impl Sqlite {
    /// `None` for a URL of another kind.
    pub(super) fn open(url: &str) -> Option<Result<Self, Stop>> {
        let path = url.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path).split('?').next().unwrap_or_default().to_owned();
        Some(connect(&path).map(|connection| Self { path, connection: Mutex::new(connection) }))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Stop> {
        work(&self.connection.lock().unwrap_or_else(PoisonError::into_inner)).map_err(told)
    }
}

fn connect(path: &str) -> Result<Connection, Stop> {
    let connection = Connection::open(path).map_err(told)?;
    connection.busy_timeout(BUSY).map_err(told)?;
    Ok(connection)
}

fn told(error: rusqlite::Error) -> Stop {
    Stop(format!("the database said: {error}"))
}

fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Some(hex(bytes)),
    }
}

fn read(connection: &Connection, sql: &str) -> rusqlite::Result<Rows> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|n| row.get_ref(n).map(as_text)).collect::<rusqlite::Result<Vec<_>>>()
    };
    statement.query_map([], row)?.collect()
}

struct HeldConnection(Connection);

impl Held for HeldConnection {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(async move { self.0.execute_batch("COMMIT").map_err(told) })
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(async move { self.0.execute_batch("ROLLBACK").map_err(told) })
    }
}

impl Ground for Sqlite {
    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move { self.with(|connection| connection.execute_batch(sql)) })
    }

    fn rows<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Stop>> {
        Box::pin(async move { self.with(|connection| read(connection, sql)) })
    }

    fn hold<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Stop>> {
        Box::pin(async move {
            let connection = connect(&self.path)?;
            connection.execute_batch(&format!("BEGIN IMMEDIATE; {sql}")).map_err(told)?;
            Ok(Box::new(HeldConnection(connection)) as Box<dyn Held>)
        })
    }

    fn table(&self, profile: &Profile) -> String {
        sqlite_table_ddl(profile)
    }

    fn audit(&self, prefix: &TablePrefix) -> String {
        posthaste::table::sqlite_audit_ddl(prefix)
    }

    fn counting(&self) -> &'static str {
        "integer PRIMARY KEY"
    }

    fn triggers(&self, table: &str, moves: &str, update: &str, delete: &str) -> String {
        format!(
            "CREATE TRIGGER {table}_note AFTER UPDATE ON {table} BEGIN INSERT INTO {moves} VALUES (NULL, {update}); END;
             CREATE TRIGGER {table}_gone AFTER DELETE ON {table} BEGIN INSERT INTO {moves} VALUES (NULL, {delete}); END;"
        )
    }

    fn remove_triggers(&self, _: &str) -> String {
        // They go with their table.
        String::new()
    }

    fn moment(&self, from_now_ms: i64) -> String {
        let seconds = from_now_ms as f64 / 1000.0;
        format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '{seconds:+} seconds')")
    }

    fn now_ms(&self) -> &'static str {
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)"
    }

    fn ms_until(&self, time: &str) -> String {
        format!("CAST(round((julianday({time}) - julianday('now')) * 86400000) AS integer)")
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        format!("x'{}'", hex(bytes))
    }

    fn same(&self, one: &str, other: &str) -> String {
        format!("({one} IS {other})")
    }

    fn text(&self, value: &str) -> String {
        format!("CAST({value} AS text)")
    }

    fn lock(&self, table: &str, condition: &str) -> String {
        // The transaction itself is the lock.
        format!("SELECT 1 FROM {table} WHERE {condition}")
    }

    fn end_waiting(&self, _: &str) -> String {
        // Whoever is gone waits for nothing.
        "SELECT 1".to_owned()
    }

    fn has_one_writer(&self) -> bool {
        true
    }
}
