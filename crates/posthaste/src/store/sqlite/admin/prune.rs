//! Retention: what nobody needs any more goes, in small steps.

use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::change::{Step, add_totals, promote};
use super::lanes;
use crate::store::sqlite::{log, rows};
use crate::store::totals::Totals;

/// How many rows one step removes.
pub(super) const STEP_ROWS_MAX: usize = 1_000;
/// How many events one step of a dry run looks at.
const COUNT_ROWS_MAX: i64 = 20_000;

/// What may go: events taken in, and events dead or discarded, before these times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) created: Option<Timestamp>,
    pub(super) dead: Option<Timestamp>,
}

/// Removes the records of dead and discarded events, and the events that nobody else needs.
pub(super) fn over_step(
    connection: &Connection,
    sql: &SqliteSql,
    before: Timestamp,
    rows: usize,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    let (mut removed, mut gone) = (0, 0);
    for lane in lanes::known(connection, sql)? {
        if removed == rows {
            break;
        }
        let over = over_rows(connection, sql, lane.name.as_str(), before, rows - removed)?;
        removed += over.len();
        gone += remove_over(connection, sql, lane.name.as_str(), &over, now)?;
    }
    let next = (removed == rows).then_some(0);
    Ok(Step { matched: gone, changed: gone, next })
}

struct Over {
    seq: i64,
    is_dead: bool,
    key: Option<String>,
}

fn over_rows(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    before: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<Over>> {
    let read = |row: &Row<'_>| {
        let is_dead = rows::text_ref(row, 1)? == Some("dead");
        Ok(Over { seq: row.get(0)?, is_dead, key: rows::maybe_text(row, 2)? })
    };
    let mut statement = connection.prepare_cached(&sql.prune_over)?;
    statement.query_map((lane, before.as_micros(), limit as i64), read)?.collect()
}

fn remove_over(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    over: &[Over],
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let (mut totals, mut gone) = (Totals::default(), 0);
    for row in over {
        connection.prepare_cached(&sql.parked_delete)?.execute((lane, row.seq))?;
        // Nobody wanted it back: from here on it counts as given up.
        totals.dead -= i64::from(row.is_dead);
        totals.discarded += i64::from(row.is_dead);
        gone += connection.prepare_cached(&sql.event_forget)?.execute([row.seq])? as u64;
    }
    add_totals(connection, sql, lane, totals, now)?;
    promote(connection, sql, lane, over.iter().filter_map(|row| row.key.as_deref()), now)?;
    Ok(gone)
}

/// Removes the next old events, at most so many, after a number that every lane has passed and nothing parks.
pub(super) fn events_step(
    connection: &Connection,
    sql: &SqliteSql,
    after: i64,
    rows: usize,
    before: Timestamp,
) -> rusqlite::Result<Step> {
    let Some(last) = last_passed(connection, sql)? else {
        return Ok(Step { matched: 0, changed: 0, next: None });
    };
    let seqs: Vec<i64> = {
        let mut statement = connection.prepare_cached(&sql.prune_step)?;
        let values = (after, last, before.as_micros(), rows as i64);
        statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
    };
    let mut delete = connection.prepare_cached(&sql.event_delete)?;
    for seq in &seqs {
        delete.execute([seq])?;
    }
    let next = if seqs.len() == rows { seqs.last().copied() } else { None };
    Ok(Step { matched: seqs.len() as u64, changed: seqs.len() as u64, next })
}

/// Counts what would go, a stretch at a time.
pub(super) fn count_step(
    connection: &Connection,
    sql: &SqliteSql,
    after: i64,
    before: Before,
) -> rusqlite::Result<Step> {
    let none = Step { matched: 0, changed: 0, next: None };
    let Some(last) = last_passed(connection, sql)? else { return Ok(none) };
    let after = after.max(log::before_first(connection, sql)?);
    let end = (after + COUNT_ROWS_MAX).min(last);
    if after >= end {
        return Ok(none);
    }
    // A time before all others where nothing was asked for.
    let micros = |time: Option<Timestamp>| time.map_or(i64::MIN, Timestamp::as_micros);
    let values = (after, end, micros(before.created), micros(before.dead));
    let count: i64 = connection.prepare_cached(&sql.prune_count)?.query_row(values, |row| row.get(0))?;
    let next = (end < last).then_some(end);
    Ok(Step { matched: count.unsigned_abs(), changed: 0, next })
}

/// The place that every lane has passed; `None` without lanes: then nobody has read anything, and everything stays.
fn last_passed(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(&sql.lanes_floor)?.query_row([], |row| row.get(0))
}
