//! Retention: what nobody needs any more goes, in small steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::change::{Step, promote};
use crate::store::postgres::error::Db;
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::value::{Stamp, args};
use crate::store::postgres::{log, rows};
use crate::store::totals::Totals;

/// How many rows one step removes.
pub(super) const STEP_ROWS_MAX: i64 = 5_000;
/// How far the times of neighbours in the log may be out of order.
const SKEW: Duration = Duration::from_secs(300);
/// A time before all others, for what was not asked for.
const NEVER: Timestamp = Timestamp::from_micros(-60_000_000_000_000_000);

/// What may go: events taken in, and events dead or discarded, before these times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) created: Option<Timestamp>,
    pub(super) dead: Option<Timestamp>,
}

/// How far a prune has come in what a lane has dead or discarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    dead_at: Timestamp,
    seq: i64,
}

impl Place {
    /// Before everything.
    pub(super) const FIRST: Self = Self { dead_at: NEVER, seq: 0 };
}

/// Looks at a part of what a lane has dead or discarded, and removes the events of which nobody needs anything any more, with what all
/// lanes have of them: without a lane's row an event that stays would count as delivered there. Answers how many went, and where
/// to go on.
pub(super) async fn over_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    before: Timestamp,
    place: Place,
    limit: i64,
) -> Db<(u64, Option<Place>)> {
    be_alone(tx, sql).await?;
    let (before_time, after) = (Stamp(before), Stamp(place.dead_at));
    let over = tx.query_typed(&sql.prune_over, &args![lane, before_time, after, place.seq, limit]).await?;
    let mut seqs = Vec::<i64>::new();
    for row in &over {
        if row.try_get(2)? {
            seqs.push(row.try_get(0)?);
        }
    }
    let last = over.last().filter(|_| over.len() as i64 == limit);
    let next = match last {
        Some(row) => Some(Place { dead_at: rows::time(row, 1)?, seq: row.try_get(0)? }),
        None => None,
    };
    let gone = if seqs.is_empty() { 0 } else { forget(tx, sql, before, seqs).await? };
    Ok((gone, next))
}

/// Removes events that are over in all lanes; answers how many there were.
async fn forget(tx: &Transaction<'_>, sql: &PostgresSql, before: Timestamp, seqs: Vec<i64>) -> Db<u64> {
    let locked = tx.query_typed(&sql.over_lock, &args![seqs]).await?;
    let now = locked.first().map(|row| rows::time(row, 0)).transpose()?.unwrap_or_default();
    let (mut lanes, mut gone) = (BTreeMap::<String, (Totals, Vec<String>)>::new(), BTreeSet::<i64>::new());
    for row in tx.query_typed(&sql.over_delete, &args![seqs, Stamp(before)]).await? {
        let (totals, keys) = lanes.entry(row.try_get(0)?).or_default();
        // Nobody wanted it back: from here on it counts as given up.
        let is_dead = row.try_get::<_, &str>(2)? == "dead";
        totals.dead -= i64::from(is_dead);
        totals.discarded += i64::from(is_dead);
        keys.extend(row.try_get::<_, Option<String>>(3)?);
        gone.insert(row.try_get(1)?);
    }
    for (lane, (totals, keys)) in lanes {
        add_totals(tx, sql, &lane, totals).await?;
        if !keys.is_empty() {
            promote(tx, sql, &lane, keys, now).await?;
        }
    }
    let count = gone.len() as u64;
    let gone: Vec<i64> = gone.into_iter().collect();
    tx.execute_typed(&sql.event_forget, &args![gone]).await?;
    Ok(count)
}

/// The stretch of the log in which old events can be, by their number.
pub(super) async fn stretch(client: &Client, sql: &PostgresSql, before: Before) -> Db<(i64, i64)> {
    let (first, last) = log::ends(client, sql).await?;
    let last = match (before.created, before.dead) {
        (Some(created), None) => log::before(client, sql, created.after(SKEW)).await?,
        _ => last,
    };
    Ok((first, last))
}

/// Removes old events of the next stretch, at most so many, that every lane has passed and nothing parks.
pub(super) async fn events_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    (after, last): (i64, i64),
    limit: i64,
    before: Timestamp,
) -> Db<Step> {
    // However few may go at once, a step looks at as much as any: where nothing goes, it costs as much.
    let end = after.saturating_add(STEP_ROWS_MAX).min(last);
    be_alone(tx, sql).await?;
    let gone = tx.query_typed(&sql.prune_events, &args![after, end, Stamp(before), limit]).await?;
    let count = gone.len() as u64;
    let mut next = (end < last).then_some(end);
    if count == limit.unsigned_abs() {
        let seqs = gone.iter().map(|row| row.try_get::<_, i64>(0)).collect::<Db<Vec<_>>>()?;
        next = seqs.into_iter().max().filter(|seq| *seq < last);
    }
    Ok(Step { matched: count, changed: count, next })
}

/// Removes ticks that nobody needs; answers whether there may be more.
pub(super) async fn ticks_step(tx: &Transaction<'_>, sql: &PostgresSql) -> Db<bool> {
    be_alone(tx, sql).await?;
    let gone = tx.execute_typed(&sql.ticks_prune, &args![STEP_ROWS_MAX]).await?;
    Ok(gone == STEP_ROWS_MAX.unsigned_abs())
}

/// Waits for those who are about to need events, and sees from the next statement on what they have done.
async fn be_alone(tx: &Transaction<'_>, sql: &PostgresSql) -> Db<()> {
    tx.query_typed(&sql.retention_lock, &args![true]).await.map(drop)
}

/// Counts what would go of the next stretch.
pub(super) async fn count_step(
    client: &Client,
    sql: &PostgresSql,
    after: i64,
    last: i64,
    before: Before,
) -> Db<Step> {
    let end = after.saturating_add(STEP_ROWS_MAX).min(last);
    let stamp = |time: Option<Timestamp>| Stamp(time.unwrap_or(NEVER));
    let count: i64 = client
        .query_typed_one(&sql.prune_count, &args![after, end, stamp(before.created), stamp(before.dead)])
        .await?
        .try_get(0)?;
    Ok(Step { matched: count.unsigned_abs(), changed: 0, next: (end < last).then_some(end) })
}
