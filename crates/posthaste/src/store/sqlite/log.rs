//! Places in the log.

use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

/// The highest number ever given.
pub(super) fn last(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<i64> {
    connection.prepare_cached(&sql.log_last)?.query_row([], |row| row.get(0))
}

/// The place just before the oldest event.
pub(super) fn before_first(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<i64> {
    let first: Option<i64> = connection.prepare_cached(&sql.log_first)?.query_row([], |row| row.get(0))?;
    match first {
        Some(first) => Ok(first - 1),
        None => last(connection, sql),
    }
}

/// The place just before the first event taken in at or after this time.
///
/// Halves the log instead of asking an index: the times grow with the numbers, but for what a clock that is set back does,
/// and an index would cost every insert.
pub(super) fn before(connection: &Connection, sql: &SqliteSql, time: Timestamp) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached(&sql.log_at_or_after)?;
    let (mut low, mut high) = (before_first(connection, sql)?, last(connection, sql)?);
    // Everything up to `low` is earlier, everything beyond `high` is not.
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let found: Option<(i64, i64)> =
            statement.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((seq, created_at)) if seq <= high => {
                if created_at < time.as_micros() {
                    low = seq;
                } else {
                    high = middle - 1;
                }
            }
            // A stretch without events.
            _ => high = middle - 1,
        }
    }
    Ok(low)
}
