//! Taking a lane.

use std::sync::Arc;

use posthaste_core::lane::{LaneSpec, OnDead, Order, Start};
use posthaste_core::log::spec;
use posthaste_core::review::REDEFINE;
use posthaste_core::sql::PostgresSql;
use posthaste_core::store::Owner;
use posthaste_core::time::micros;
use posthaste_core::{Error, Result};
use serde_json::json;
use tokio_postgres::{Client, Transaction};

use super::cursor::{Reading, StoredPlace};
use super::error::{Db, explain};
use super::tick::Tick;
use super::value::{Stamp, args};
use super::{log, rows};

/// A lane that was taken.
pub(super) struct Taken {
    pub(super) epoch: i64,
    pub(super) stumbles: u32,
    place: StoredPlace,
}

/// What is known of a lane before it is taken.
pub(super) enum Known {
    /// It exists, and is defined so.
    Defined(String),
    /// It does not exist, and begins here.
    New(StoredPlace),
}

/// Looks whether the lane exists, and where it begins if not.
pub(super) async fn look(client: &Client, sql: &PostgresSql, spec: &LaneSpec) -> Result<Known> {
    let name = spec.name.as_str();
    let row = client.query_typed_opt(&sql.lane_get, &args![name]).await.map_err(explain)?;
    if let Some(row) = row {
        return row.try_get(0).map(Known::Defined).map_err(explain);
    }
    Ok(Known::New(match spec.start {
        Start::Now => StoredPlace::at(Tick::now(client, sql).await?.id),
        Start::At(time) => log::place_before(client, sql, time).await?,
        _ => StoredPlace::at(0),
    }))
}

/// Takes the lane if it is free; makes its row, if it has none.
pub(super) async fn take(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    spec: &LaneSpec,
    owner: &Owner,
    known: &Known,
) -> Db<Option<Taken>> {
    let (name, column) = (spec.name.as_str(), spec::column(spec));
    is_seen(tx, sql, owner, micros(spec.lease)).await?;
    if let Known::New(place) = known {
        hold_events(tx, sql).await?;
        tx.execute_typed(&sql.lane_insert, &args![name, place.tick_a, place.tick_b, place.position, column])
            .await?;
    }
    let Some(row) = tx
        .query_typed_opt(&sql.lane_take, &args![name, owner.name, owner.run, micros(spec.lease), column])
        .await?
    else {
        return Ok(None);
    };
    let place = StoredPlace { tick_a: row.try_get(1)?, tick_b: row.try_get(2)?, position: row.try_get(3)? };
    let stumbles = u32::try_from(row.try_get::<_, i32>(4)?).unwrap_or(1);
    if let Known::Defined(old) = known
        && *old != column
    {
        tracing::warn!(lane = name, old, new = column, "this relay defines the lane anew, from its place on");
        let (via, one) = ("relay", 1_i64);
        let change = json!({ "lane": name, "old": old, "new": column }).to_string();
        tx.execute_typed(&sql.audit_insert, &args![owner.name, via, REDEFINE, change, one, one]).await?;
    }
    // Nothing should be left of it; but a row that stays keeps its event from retention.
    tx.execute_typed(&sql.done_forget_passed, &args![name]).await?;
    if row.try_get::<_, i64>(5)? > 0 {
        promote(tx, sql, spec).await?;
    }
    Ok(Some(Taken { epoch: row.try_get(0)?, stumbles, place }))
}

/// Keeps retention away until the transaction ends: what is found from here on stays.
pub(super) async fn hold_events(tx: &Transaction<'_>, sql: &PostgresSql) -> Db<()> {
    tx.query_typed(&sql.retention_lock, &args![false]).await.map(drop)
}

/// Notes that this relay lives.
async fn is_seen(tx: &Transaction<'_>, sql: &PostgresSql, owner: &Owner, lease: i64) -> Db<()> {
    let version = env!("CARGO_PKG_VERSION");
    let row = tx.query_typed_opt(&sql.relay_seen, &args![owner.run, owner.name, version, lease]).await?;
    let is_new = row.map(|row| row.try_get::<_, bool>(0)).transpose()? == Some(true);
    if is_new {
        tx.execute_typed(&sql.relays_forget, &[]).await?;
    }
    Ok(())
}

/// The lane is somebody else's: asks for it if this relay should have it.
///
/// # Errors
/// `Conflict` if a relay that started later defines the lane another way: the two would take turns, and each would skip
/// what it does not want.
pub(super) async fn want(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    spec: &LaneSpec,
    owner: &Owner,
) -> Result<()> {
    let (name, column, lease) = (spec.name.as_str(), spec::column(spec), micros(spec.lease));
    let clash = tx.query_typed_opt(&sql.lane_clash, &args![name, owner.run, column, lease]).await;
    let clash = clash.and_then(|row| row.map(|row| row.try_get::<_, String>(0)).transpose());
    if let Some(other) = clash.map_err(explain)? {
        return Err(Error::conflict(format!(
            "the relay {other}, which started later, defines lane {name} with other topics, order or on_dead; give both \
             the same configuration, or stop this one"
        )));
    }
    if owner.stays {
        tx.query_typed(&sql.share_lock, &[]).await.map_err(explain)?;
        let wanted = tx.execute_typed(&sql.lane_want, &args![name, owner.run, lease, column]).await;
        wanted.map_err(explain)?;
    }
    Ok(())
}

/// Nobody waits behind nobody: whatever happened to the rows or to the lane's order, from here on it is right again.
async fn promote(tx: &Transaction<'_>, sql: &PostgresSql, spec: &LaneSpec) -> Db<()> {
    let lane = spec.name.as_str();
    if spec.order != Order::PerKey {
        return tx.execute_typed(&sql.promote_unordered, &args![lane]).await.map(drop);
    }
    let behind = tx.query_typed(&sql.keys_behind, &args![lane]).await?;
    let keys = behind.iter().map(|row| row.try_get(0)).collect::<Db<Vec<String>>>()?;
    if keys.is_empty() {
        return Ok(());
    }
    let now = Stamp(rows::time(&tx.query_typed_one(&sql.now, &[]).await?, 0)?);
    let blocks = spec.on_dead == OnDead::Block;
    tx.execute_typed(&sql.promote, &args![lane, keys, now, blocks]).await.map(drop)
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
