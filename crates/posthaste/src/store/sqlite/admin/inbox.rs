//! Retention of what consumers remember, in small steps.

use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::Connection;

use super::change::Step;
use super::prune::STEP_ROWS_MAX;

/// Where a prune begins: at the inbox. The idempotency records come after it.
pub(super) const FIRST: i64 = 0;
const RECORDS: i64 = 1;

/// Removes the next old rows of the inbox, then old idempotency records.
pub(super) fn prune_step(
    connection: &Connection,
    sql: &SqliteSql,
    at: i64,
    before: Timestamp,
) -> rusqlite::Result<Step> {
    let (text, after) =
        if at == FIRST { (&sql.inbox_prune, Some(RECORDS)) } else { (&sql.dedup_prune, None) };
    let gone = connection.prepare_cached(text)?.execute((before.as_micros(), STEP_ROWS_MAX as i64))?;
    let next = if gone == STEP_ROWS_MAX { Some(at) } else { after };
    Ok(Step { matched: gone as u64, changed: gone as u64, next })
}

/// Counts what would go.
pub(super) fn count(connection: &Connection, sql: &SqliteSql, before: Timestamp) -> rusqlite::Result<Step> {
    let mut matched = 0;
    for text in [&sql.inbox_count, &sql.dedup_count] {
        let count: i64 =
            connection.prepare_cached(text)?.query_row([before.as_micros()], |row| row.get(0))?;
        matched += count.unsigned_abs();
    }
    Ok(Step { matched, changed: 0, next: None })
}
