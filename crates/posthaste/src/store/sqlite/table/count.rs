//! Counting rows: all of a short table; of a long one those that are few, by their index, and the rest by the numbers of its rows.

use posthaste_core::table::SqliteTableSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::work::{maybe_time, text};
use crate::store::table::count::{CountRow, Counted, Few};

/// A table with no more rows than this is counted as a whole; and where no index helps, so many of the newest rows are looked at.
const SHORT_ROWS: i64 = 50_000;

pub(super) fn count(
    connection: &Connection,
    sql: &SqliteTableSql,
    now: Timestamp,
) -> rusqlite::Result<Counted> {
    let Some((first, last)) = ends(connection, sql)?.filter(|(first, last)| last - first >= SHORT_ROWS)
    else {
        return connection.prepare_cached(&sql.counts)?.query_row([text(now)], |row| Counted::read(row));
    };
    let mut few = [Few::default(); 4];
    for (few, (all, recent)) in few.iter_mut().zip(sql.few.iter().zip(&sql.recent)) {
        *few = if finds_by_index(connection, all, now)? {
            connection.prepare_cached(all)?.query_row([text(now)], some)?
        } else {
            let above = last - SHORT_ROWS;
            let among = connection.prepare_cached(recent)?.query_row((text(now), above), some)?;
            Few { is_estimate: true, lacks_index: true, ..among }
        };
    }
    Ok(Counted::of_long((last - first + 1).unsigned_abs(), few))
}

/// The numbers of the first and the last row; `None` where rows have none, or where there are none.
fn ends(connection: &Connection, sql: &SqliteTableSql) -> rusqlite::Result<Option<(i64, i64)>> {
    // A table without numbers fails here, and is counted as a whole.
    let Ok(mut statement) = connection.prepare_cached(&sql.ends) else { return Ok(None) };
    let ends = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(ends.and_then(|(first, last): (Option<i64>, Option<i64>)| first.zip(last)))
}

/// Whether rows are found by an index, and not by reading the table.
fn finds_by_index(connection: &Connection, statement: &str, now: Timestamp) -> rusqlite::Result<bool> {
    let mut plan = connection.prepare_cached(&format!("EXPLAIN QUERY PLAN {statement}"))?;
    let steps = plan.query_map([text(now)], |row| row.get::<_, String>(3))?;
    let steps = steps.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(steps.iter().any(|step| step.contains(" INDEX ")))
}

fn some(row: &Row<'_>) -> rusqlite::Result<Few> {
    Few::read(row, SqliteTableSql::COUNTED_MAX)
}

impl CountRow for Row<'_> {
    type Error = rusqlite::Error;

    fn number(&self, column: usize) -> rusqlite::Result<u64> {
        self.get::<_, i64>(column).map(i64::unsigned_abs)
    }

    fn time(&self, column: usize) -> rusqlite::Result<Option<Timestamp>> {
        maybe_time(self, column)
    }
}
