//! The tables: made, brought up to date, or refused.

use std::path::Path;

use posthaste_core::prefix::TablePrefix;
use posthaste_core::schema::SchemaStatus;
use posthaste_core::sql::{SQLITE_COMPATIBLE_FROM, SQLITE_SCHEMA, SqliteSql, sqlite_migrations};
use posthaste_core::{Error, Result};
use rusqlite::Connection;

use super::error::explain;

/// What is there, compared with what this binary wants.
pub(super) fn status(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<SchemaStatus> {
    let exists: bool = connection.query_row(&sql.meta_exists, [], |row| row.get(0))?;
    if !exists {
        return Ok(SchemaStatus::new(None, 0, SQLITE_SCHEMA));
    }
    let (present, compatible_from) =
        connection.query_row(&sql.meta_get, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(SchemaStatus::new(Some(present), compatible_from, SQLITE_SCHEMA))
}

/// Refuses tables that a newer release has changed beyond what this binary understands.
pub(super) fn check(status: SchemaStatus, path: &Path) -> Result<()> {
    if SQLITE_SCHEMA >= status.compatible_from {
        return Ok(());
    }
    Err(Error::config(format!(
        "the tables in {} were made by a newer release (schema {}, usable from {} on), and this binary brings schema \
         {SQLITE_SCHEMA}; use a newer binary",
        path.display(),
        status.present.unwrap_or_default(),
        status.compatible_from,
    )))
}

/// Brings the tables to this binary's version; answers what was applied.
pub(super) fn migrate(
    connection: &Connection,
    prefix: &TablePrefix,
    sql: &SqliteSql,
    path: &Path,
) -> Result<Vec<u32>> {
    let explain = |error| explain(error, path);
    // Asks before it takes the write lock, so that opening a file that is up to date waits for nobody.
    let before = status(connection, sql).map_err(explain)?;
    check(before, path)?;
    if before.usable() {
        return Ok(Vec::new());
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(explain)?;
    let applied = apply_missing(connection, prefix, sql, path);
    let end = if applied.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end);
    if ended.is_err() && !connection.is_autocommit() {
        // The commit failed; what it was is what the caller must hear.
        let _ = connection.execute_batch("ROLLBACK");
    }
    let applied = applied?;
    ended.map_err(explain)?;
    Ok(applied)
}

/// Under the write lock: whoever came first has done it, and we find nothing to do.
pub(super) fn apply_missing(
    connection: &Connection,
    prefix: &TablePrefix,
    sql: &SqliteSql,
    path: &Path,
) -> Result<Vec<u32>> {
    let explain = |error| explain(error, path);
    let now = status(connection, sql).map_err(explain)?;
    check(now, path)?;
    let present = now.present.unwrap_or(0);
    let mut applied = Vec::new();
    for (version, text) in sqlite_migrations(prefix).into_iter().filter(|(version, _)| *version > present) {
        connection.execute_batch(&text).map_err(explain)?;
        connection.execute(&sql.meta_set, (version, SQLITE_COMPATIBLE_FROM)).map_err(explain)?;
        applied.push(version);
    }
    Ok(applied)
}
