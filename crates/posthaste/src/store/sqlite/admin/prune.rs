//! Retention: what nobody needs any more goes, in small steps.

use std::collections::BTreeMap;

use posthaste_core::log::totals::Totals;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::change::{add_totals, promote};
use super::lanes;
use crate::store::log::driver::{Before, Place, Step};
use crate::store::sqlite::{log, rows};

/// How many events one step of a dry run looks at.
const COUNT_ROWS_MAX: i64 = 20_000;

/// First what is over in all lanes, with what they have of it; then what is old.
pub(super) fn step(
    connection: &Connection,
    sql: &SqliteSql,
    before: Before,
    most: usize,
    at: &Place,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    let log = before.created.map(|_| Place::Number(0));
    match (at, before) {
        (Place::Number(after), Before { created: Some(created), .. }) => {
            events_step(connection, sql, *after, most, created)
        }
        (Place::First | Place::Over { .. }, Before { dead: Some(dead), .. }) => {
            let (gone, next) = over_step(connection, sql, dead, at, most, now)?;
            Ok(Step::changed(gone, next.or(log)))
        }
        (Place::First, _) => Ok(Step::changed(0, log)),
        _ => Ok(Step::default()),
    }
}

/// Looks at a part of what lanes have dead or discarded, and removes the events of which nobody needs anything any more, with what all
/// lanes have of them: without a lane's row an event that stays would count as delivered there. Answers how many went, and where
/// to go on.
fn over_step(
    connection: &Connection,
    sql: &SqliteSql,
    before: Timestamp,
    at: &Place,
    rows: usize,
    now: Timestamp,
) -> rusqlite::Result<(u64, Option<Place>)> {
    let (mut looked_at, mut gone) = (0, 0);
    for lane in lanes::known(connection, sql)? {
        let after = match at {
            Place::Over { lane: begun, .. } if *begun > lane.name => continue,
            Place::Over { lane: begun, dead_at, seq } if *begun == lane.name => (dead_at.as_micros(), *seq),
            _ => (i64::MIN, 0),
        };
        let over = over_rows(connection, sql, lane.name.as_str(), before, after, rows - looked_at)?;
        looked_at += over.len();
        let may_go = over.iter().filter(|row| row.may_go).map(|row| row.seq);
        gone += forget(connection, sql, may_go, now)?;
        if let Some(last) = over.last().filter(|_| looked_at == rows) {
            let dead_at = Timestamp::from_micros(last.dead_at);
            return Ok((gone, Some(Place::Over { lane: lane.name, dead_at, seq: last.seq })));
        }
    }
    Ok((gone, None))
}

struct Over {
    seq: i64,
    dead_at: i64,
    may_go: bool,
}

fn over_rows(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    before: Timestamp,
    (dead_at, seq): (i64, i64),
    limit: usize,
) -> rusqlite::Result<Vec<Over>> {
    let read = |row: &Row<'_>| Ok(Over { seq: row.get(0)?, dead_at: row.get(1)?, may_go: row.get(2)? });
    let mut statement = connection.prepare_cached(&sql.prune_over)?;
    let values = (lane, before.as_micros(), dead_at, seq, limit as i64);
    statement.query_map(values, read)?.collect()
}

/// Removes events that are over in all lanes; answers how many there were.
fn forget(
    connection: &Connection,
    sql: &SqliteSql,
    seqs: impl Iterator<Item = i64>,
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let (mut lanes, mut gone) = (BTreeMap::<String, (Totals, Vec<String>)>::new(), 0);
    for seq in seqs {
        let mut delete = connection.prepare_cached(&sql.over_delete)?;
        let mut over = delete.query([seq])?;
        while let Some(row) = over.next()? {
            let (totals, keys) = lanes.entry(rows::text(row, 0)?).or_default();
            // Nobody wanted it back: from here on it counts as given up.
            let is_dead = rows::text_ref(row, 1)? == Some("dead");
            totals.dead -= i64::from(is_dead);
            totals.discarded += i64::from(is_dead);
            keys.extend(rows::maybe_text(row, 2)?);
        }
        connection.prepare_cached(&sql.event_forget)?.execute([seq])?;
        gone += 1;
    }
    for (lane, (totals, keys)) in &lanes {
        add_totals(connection, sql, lane, *totals, now)?;
        promote(connection, sql, lane, keys.iter().map(String::as_str), now)?;
    }
    Ok(gone)
}

/// Removes the next old events, at most so many, after a number that every lane has passed and nothing parks.
fn events_step(
    connection: &Connection,
    sql: &SqliteSql,
    after: i64,
    rows: usize,
    before: Timestamp,
) -> rusqlite::Result<Step> {
    let Some(last) = last_passed(connection, sql)? else { return Ok(Step::default()) };
    let seqs: Vec<i64> = {
        let mut statement = connection.prepare_cached(&sql.prune_step)?;
        let values = (after, last, before.as_micros(), rows as i64);
        statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
    };
    let mut delete = connection.prepare_cached(&sql.event_delete)?;
    for seq in &seqs {
        delete.execute([seq])?;
    }
    let next = seqs.last().filter(|_| seqs.len() == rows).map(|last| Place::Number(*last));
    Ok(Step::changed(seqs.len() as u64, next))
}

/// Counts what would go, a stretch at a time.
pub(super) fn count(
    connection: &Connection,
    sql: &SqliteSql,
    before: Before,
    at: &Place,
) -> rusqlite::Result<Step> {
    let Some(last) = last_passed(connection, sql)? else { return Ok(Step::default()) };
    let after = if let Place::Number(after) = at { *after } else { 0 };
    let after = after.max(log::before_first(connection, sql)?);
    let end = (after + COUNT_ROWS_MAX).min(last);
    if after >= end {
        return Ok(Step::default());
    }
    // A time before all others where nothing was asked for.
    let micros = |time: Option<Timestamp>| time.map_or(i64::MIN, Timestamp::as_micros);
    let values = (after, end, micros(before.created), micros(before.dead));
    let count: i64 = connection.prepare_cached(&sql.prune_count)?.query_row(values, |row| row.get(0))?;
    Ok(Step::counted(count.unsigned_abs(), (end < last).then_some(Place::Number(end))))
}

/// The place that every lane has passed; `None` without lanes: then nobody has read anything, and everything stays.
fn last_passed(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(&sql.lanes_floor)?.query_row([], |row| row.get(0))
}
