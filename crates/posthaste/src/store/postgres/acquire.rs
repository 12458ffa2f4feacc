//! Taking a lane.

use std::sync::Arc;

use posthaste_core::lane::{LaneSpec, OnDead, Order, Start};
use posthaste_core::sql::PostgresSql;
use posthaste_core::store::Owner;
use posthaste_core::time::micros;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Transaction};

use super::cursor::{Reading, SHARD, StoredPlace};
use super::error::{Db, explain};
use super::tick::Tick;
use super::value::{Stamp, args};
use super::{log, rows};
use crate::store::spec;

/// A lane that was taken.
pub(super) struct Taken {
    pub(super) epoch: i64,
    pub(super) stumbles: u32,
    place: StoredPlace,
}

/// Where a lane that does not exist begins; `None`: it exists.
pub(super) async fn start(
    client: &Client,
    sql: &PostgresSql,
    spec: &LaneSpec,
) -> Result<Option<StoredPlace>> {
    let name = spec.name.as_str();
    let row = client.query_typed_opt(&sql.lane_get, &args![name, SHARD]).await.map_err(explain)?;
    if row.is_some() {
        return Ok(None);
    }
    Ok(Some(match spec.start {
        Start::Now => StoredPlace::at(Tick::now(client, sql).await?.id),
        Start::At(time) => log::place_before(client, sql, time).await?,
        _ => StoredPlace::at(0),
    }))
}

/// Takes the lane if it is free; makes its row, if it has none, at this place.
pub(super) async fn take(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    spec: &LaneSpec,
    owner: &Owner,
    start: Option<StoredPlace>,
) -> Db<Option<Taken>> {
    let (name, column) = (spec.name.as_str(), spec::column(spec));
    if let Some(place) = start {
        tx.execute_typed(
            &sql.lane_insert,
            &args![name, SHARD, place.tick_a, place.tick_b, place.position, column],
        )
        .await?;
    }
    let Some(row) = tx
        .query_typed_opt(
            &sql.lane_take,
            &args![name, SHARD, owner.name, owner.run, micros(spec.lease), column],
        )
        .await?
    else {
        return Ok(None);
    };
    let place = StoredPlace { tick_a: row.try_get(1)?, tick_b: row.try_get(2)?, position: row.try_get(3)? };
    let stumbles = u32::try_from(row.try_get::<_, i32>(4)?).unwrap_or(1);
    if row.try_get::<_, i64>(5)? > 0 {
        promote(tx, sql, spec).await?;
    }
    Ok(Some(Taken { epoch: row.try_get(0)?, stumbles, place }))
}

/// Nobody waits behind nobody: whatever happened to the rows or to the lane's order, from here on it is right again.
async fn promote(tx: &Transaction<'_>, sql: &PostgresSql, spec: &LaneSpec) -> Db<()> {
    let lane = spec.name.as_str();
    if spec.order != Order::PerKey {
        return tx.execute_typed(&sql.promote_unordered, &args![lane, SHARD]).await.map(drop);
    }
    let behind = tx.query_typed(&sql.keys_behind, &args![lane, SHARD]).await?;
    let keys = behind.iter().map(|row| row.try_get(0)).collect::<Db<Vec<String>>>()?;
    if keys.is_empty() {
        return Ok(());
    }
    let now = Stamp(rows::time(&tx.query_typed_one(&sql.now, &[]).await?, 0)?);
    let blocks = spec.on_dead == OnDead::Block;
    tx.execute_typed(&sql.promote, &args![lane, SHARD, keys, now, blocks]).await.map(drop)
}

/// Where a taken lane reads on.
pub(super) async fn reading(
    client: &Client,
    sql: &PostgresSql,
    lane: &LaneSpec,
    taken: &Taken,
) -> Result<Reading> {
    let place = taken.place;
    let ids: Vec<i64> = [Some(place.tick_a), place.tick_b].into_iter().flatten().collect();
    let ticks = Tick::by_id(client, sql, ids).await?;
    let find = |id: i64| {
        ticks.iter().find(|tick| tick.id == id).cloned().map(Arc::new).ok_or_else(|| {
            Error::corrupt(format!(
                "lane {} stands at tick {id}, which is not there; put it somewhere with `posthaste lane seek`",
                lane.name
            ))
        })
    };
    Ok(Reading::from(find(place.tick_a)?, place.tick_b.map(find).transpose()?, place.position))
}
