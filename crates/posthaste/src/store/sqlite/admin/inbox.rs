//! Retention of what consumers remember in a file, in small steps.

use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::Connection;

use crate::store::log::driver::{Place, Step};

/// Removes the next old rows of the inbox, then old idempotency records.
pub(super) fn step(
    connection: &Connection,
    sql: &SqliteSql,
    at: &Place,
    most: usize,
    before: Timestamp,
) -> rusqlite::Result<Step> {
    let is_inbox = *at == Place::First;
    let (text, after) =
        if is_inbox { (&sql.inbox_prune, Some(Place::Rest)) } else { (&sql.dedup_prune, None) };
    let gone = connection.prepare_cached(text)?.execute((before.as_micros(), most as i64))?;
    let next = if gone == most { Some(at.clone()) } else { after };
    Ok(Step::changed(gone as u64, next))
}

/// Counts what would go.
pub(super) fn count(connection: &Connection, sql: &SqliteSql, before: Timestamp) -> rusqlite::Result<Step> {
    let mut matched = 0;
    for text in [&sql.inbox_count, &sql.dedup_count] {
        let count: i64 =
            connection.prepare_cached(text)?.query_row([before.as_micros()], |row| row.get(0))?;
        matched += count.unsigned_abs();
    }
    Ok(Step::counted(matched, None))
}
