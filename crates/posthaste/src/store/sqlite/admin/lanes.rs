//! The lanes and their totals.

use posthaste_core::admin::{LaneState, LaneStats, Lanes, Page, PageOfLanes};
use posthaste_core::lane::LaneName;
use posthaste_core::log::question::KnownLane;
use posthaste_core::log::spec::StoredSpec;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::Connection;

use super::driver::UpTo;
use crate::store::log::driver::Step;
use crate::store::sqlite::{log, rows};

/// In the place of a number of rows: all of them.
const ALL: i64 = -1;
/// How many retried events of a lane are counted at every look.
const RETRYING_MAX: i64 = 10_000;

/// Every lane, as commands and filters need it.
pub(super) fn known(connection: &Connection, sql: &SqliteSql) -> rusqlite::Result<Vec<KnownLane<UpTo>>> {
    let mut lanes = Vec::new();
    let mut statement = connection.prepare_cached(&sql.lanes_all)?;
    let mut all = statement.query(("", ALL))?;
    while let Some(row) = all.next()? {
        // A name that no lane can have was not written by us.
        if let Ok(name) = rows::text(row, 0)?.parse() {
            let spec = StoredSpec::read(&rows::text(row, 13)?);
            lanes.push(KnownLane { name, spec, passed: UpTo(row.get(6)?) });
        }
    }
    Ok(lanes)
}

/// Puts these lanes into a state, but those that are being removed.
pub(super) fn set_state(
    connection: &Connection,
    sql: &SqliteSql,
    lanes: &[LaneName],
    state: LaneState,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    let mut statement = connection.prepare_cached(&sql.lane_state)?;
    let mut changed = 0;
    for name in lanes {
        changed += statement.execute((name.as_str(), state.name(), now.as_micros()))? as u64;
    }
    Ok(Step::changed(changed, None))
}

/// A page of lanes with their totals. Costs a few steps in an index per lane, however long the log is.
pub(super) fn stats(
    connection: &Connection,
    sql: &SqliteSql,
    page: &Page,
    now: Timestamp,
) -> rusqlite::Result<Lanes> {
    let last = log::last(connection, sql)?;
    let mut lanes = PageOfLanes::new(page);
    let mut waiting = connection.prepare_cached(&sql.lane_waiting)?;
    let mut statement = connection.prepare_cached(&sql.lanes_all)?;
    let mut all = statement.query((lanes.after(), lanes.rows()))?;
    while let Some(row) = all.next()? {
        let Some(name) = lanes.next(&rows::text(row, 0)?) else { continue };
        let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0).unsigned_abs());
        let mut stats = LaneStats::new(name);
        stats.state = rows::lane_state(&rows::text(row, 1)?);
        stats.reason = rows::maybe_text(row, 2)?;
        stats.owner =
            rows::maybe_text(row, 3)?.filter(|_| row.get(4).is_ok_and(|until: i64| until > now.as_micros()));
        stats.epoch = row.get(5)?;
        stats.position = row.get(6)?;
        stats.unread = (last - stats.position).max(0).unsigned_abs();
        stats.accepted = count(7)?;
        stats.delivered = count(8)?;
        stats.waiting = count(9)?;
        stats.dead = count(10)?;
        stats.discarded = count(11)?;
        stats.replayed = count(12)?;
        stats.oldest_unread_at = rows::maybe_time(row, 14)?;
        stats.unread_is_estimate = stats.unread > 0;
        let values = (stats.lane.as_str(), RETRYING_MAX + 1);
        let (looked_at, failed, oldest) = waiting.query_row(values, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, rows::maybe_time(row, 2)?))
        })?;
        stats.retrying = (looked_at <= RETRYING_MAX).then_some(failed.unsigned_abs());
        stats.oldest_waiting_at = oldest;
        lanes.push(stats);
    }
    Ok(lanes.found())
}
