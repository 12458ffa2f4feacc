//! Removing a lane: first what it has parked, in steps, then the lane.

use posthaste_core::lane::LaneName;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::store::log::driver::{Place, Step};

/// Counts what the lane has parked.
pub(super) fn count(connection: &Connection, sql: &SqliteSql, lane: &LaneName) -> rusqlite::Result<Step> {
    let mut statement = connection.prepare_cached(&sql.lane_parked_count)?;
    let count: i64 = statement.query_row([lane.as_str()], |row| row.get(0))?;
    Ok(Step::counted(count.unsigned_abs(), None))
}

/// Removes a part of what the lane has parked, and with the last part the lane.
pub(super) fn step(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    at: &Place,
    most: usize,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    if *at == Place::First {
        begin(connection, sql, lane, now)?;
    }
    let values = (lane.as_str(), most as i64);
    let rows = connection.prepare_cached(&sql.lane_parked_delete)?.execute(values)?;
    if rows == most {
        return Ok(Step::changed(rows as u64, Some(Place::Rest)));
    }
    let mut delete = connection.prepare_cached(&sql.lane_delete)?;
    let epoch: Option<i64> = delete.query_row([lane.as_str()], |row| row.get(0)).optional()?;
    if let Some(epoch) = epoch {
        connection.prepare_cached(&sql.epoch_floor_raise)?.execute([epoch])?;
    }
    Ok(Step::changed(rows as u64, None))
}

/// Nobody drives the lane from here on.
fn begin(connection: &Connection, sql: &SqliteSql, lane: &LaneName, now: Timestamp) -> rusqlite::Result<()> {
    let values = (lane.as_str(), now.as_micros());
    connection.prepare_cached(&sql.lane_removing)?.execute(values)?;
    connection.prepare_cached(&sql.done_forget)?.execute((lane.as_str(), i64::MAX)).map(drop)
}
