//! Moving a lane to another place in a file. Forward in steps; a relay may take the lane between two of them,
//! and what it delivers then is not skipped.

use posthaste_core::lane::LaneName;
use posthaste_core::log::question::KnownLane;
use posthaste_core::log::totals::Totals;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::Connection;

use super::change::add_totals;
use super::driver::UpTo;
use super::lanes;
use crate::store::log::driver::{Move, Place, Step, Why};

/// How many numbers of the log one step looks at: what a commit may hold up others for.
const STEP_NUMBERS: i64 = 20_000;

type MoveInFile = Move<UpTo, i64>;

/// Counts what the lane would pass unread, and with the last part what was delivered beyond its goal.
pub(super) fn count(
    connection: &Connection,
    sql: &SqliteSql,
    way: &MoveInFile,
    at: &Place,
) -> rusqlite::Result<Step> {
    let (lane, goal) = (&way.lane, way.goal);
    let from = number(at, lane.passed.0);
    let end = from.saturating_add(STEP_NUMBERS).min(goal);
    let mut matched = unread(connection, sql, lane, from, end)?;
    if end >= goal && matches!(way.why, Why::Seek) {
        matched += done_beyond(connection, sql, &lane.name, goal)?;
    }
    Ok(Step::counted(matched, (end < goal).then_some(Place::Number(end))))
}

/// Counts how much of what the lane wants comes again if it goes back.
pub(super) fn count_again(
    connection: &Connection,
    sql: &SqliteSql,
    way: &MoveInFile,
    at: &Place,
) -> rusqlite::Result<Step> {
    let from = number(at, way.goal);
    let end = from.saturating_add(STEP_NUMBERS).min(way.lane.passed.0);
    let matched = unread(connection, sql, &way.lane, from, end)?;
    Ok(Step::counted(matched, (end < way.lane.passed.0).then_some(Place::Number(end))))
}

fn number(at: &Place, first: i64) -> i64 {
    if let Place::Number(number) = at { *number } else { first }
}

/// Moves the lane on by a part of the way from where it is now, or back to its goal.
pub(super) fn step(
    connection: &Connection,
    sql: &SqliteSql,
    way: &MoveInFile,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    if way.goal > way.lane.passed.0 {
        return pass(connection, sql, way, now);
    }
    match way.why {
        Why::Seek => {
            let name = &way.lane.name;
            let matched = way.again + done_beyond(connection, sql, name, way.goal)?;
            put(connection, sql, name, way.goal, now)?;
            // What was delivered beyond the old place is nothing special any more: what lies beyond the new
            // one comes.
            connection.prepare_cached(&sql.done_forget)?.execute((name.as_str(), i64::MAX))?;
            Ok(Step::changed(matched, None))
        }
        Why::Skip { .. } => Ok(Step::default()),
    }
}

/// Moves the lane forward by a part of the way; not at all if it is further already.
fn pass(
    connection: &Connection,
    sql: &SqliteSql,
    way: &MoveInFile,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    let (name, goal) = (&way.lane.name, way.goal);
    let known = lanes::known(connection, sql)?;
    let Some(lane) = known.iter().find(|known| known.name == *name && known.passed.0 < goal) else {
        return Ok(Step::default());
    };
    let end = lane.passed.0.saturating_add(STEP_NUMBERS).min(goal);
    let skipped = unread(connection, sql, lane, lane.passed.0, end)?;
    put(connection, sql, name, end, now)?;
    let count = i64::try_from(skipped).unwrap_or(i64::MAX);
    let totals = Totals { accepted: count, discarded: count, ..Totals::default() };
    add_totals(connection, sql, name.as_str(), totals, now)?;
    let (mut matched, mut forget) = (skipped, end);
    match &way.why {
        Why::Seek if end == goal => {
            matched += way.again + done_beyond(connection, sql, name, goal)?;
            forget = i64::MAX;
        }
        Why::Seek => {}
        Why::Skip { reason } => {
            let values = (name.as_str(), reason);
            connection.prepare_cached(&sql.lane_reason)?.execute(values)?;
        }
    }
    connection.prepare_cached(&sql.done_forget)?.execute((name.as_str(), forget))?;
    Ok(Step::changed(matched, (end < goal).then_some(Place::Number(end))))
}

/// Puts the lane there and ends its lease.
fn put(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    place: i64,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let values = (lane.as_str(), place, now.as_micros());
    connection.prepare_cached(&sql.lane_seek)?.execute(values).map(drop)
}

/// How many events of a stretch the lane wants and has not parked.
fn unread(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &KnownLane<UpTo>,
    after: i64,
    last: i64,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(&sql.stretch_count)?;
    let mut rows = statement.query((lane.name.as_str(), after, last))?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if lane.spec.wants(&row.get::<_, String>(0)?) {
            count += row.get::<_, i64>(1)?.unsigned_abs();
        }
    }
    Ok(count)
}

/// How much was delivered from its row beyond a place, and comes again if the rows go.
fn done_beyond(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    place: i64,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(&sql.done_count)?;
    let count: i64 = statement.query_row((lane.as_str(), place), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
