//! Removing a lane: first what it has parked, in steps, then the lane.

use posthaste_core::lane::LaneName;
use posthaste_core::sql::PostgresSql;
use tokio_postgres::{Client, Transaction};

use super::prune::STEP_ROWS_MAX;
use crate::store::log::driver::{Place, Step};
use crate::store::postgres::error::Db;
use crate::store::postgres::value::args;

/// Counts what the lane has parked.
pub(super) async fn count(client: &Client, sql: &PostgresSql, lane: &LaneName) -> Db<Step> {
    let row = client.query_typed_one(&sql.lane_parked_count, &args![lane.as_str()]).await?;
    Ok(Step::counted(row.try_get::<_, i64>(0)?.unsigned_abs(), None))
}

/// Removes a part of what the lane has parked, and with the last part the lane.
pub(super) async fn step(tx: &Transaction<'_>, sql: &PostgresSql, lane: &LaneName, at: &Place) -> Db<Step> {
    let name = lane.as_str();
    if *at == Place::First {
        tx.execute_typed(&sql.lane_removing, &args![name]).await?;
        tx.execute_typed(&sql.done_forget_all, &args![name]).await?;
    }
    let rows = tx.execute_typed(&sql.lane_parked_delete, &args![name, STEP_ROWS_MAX]).await?;
    if rows == STEP_ROWS_MAX.unsigned_abs() {
        return Ok(Step::changed(rows, Some(Place::Rest)));
    }
    if let Some(row) = tx.query_typed_opt(&sql.lane_delete, &args![name]).await? {
        let epoch: i64 = row.try_get(0)?;
        tx.execute_typed(&sql.epoch_floor_raise, &args![epoch]).await?;
    }
    Ok(Step::changed(rows, None))
}
