//! Retention: what nobody needs any more goes, in small steps.

use std::time::Duration;

use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::change::{Step, promote};
use crate::store::postgres::cursor::SHARD;
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

/// Removes a part of a lane's records of dead and discarded events, and the events that nobody else needs; answers
/// whether there may be more.
pub(super) async fn over_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    before: Timestamp,
    limit: i64,
) -> Db<(u64, bool)> {
    be_alone(tx, sql).await?;
    let Some(row) = tx.query_typed_opt(&sql.lane_lock, &args![lane, SHARD]).await? else {
        return Ok((0, false));
    };
    let now = rows::time(&row, 0)?;
    let over = tx.query_typed(&sql.prune_over, &args![lane, Stamp(before), limit]).await?;
    let (mut totals, mut seqs, mut keys) = (Totals::default(), Vec::<i64>::new(), Vec::<String>::new());
    for row in &over {
        let is_dead = row.try_get::<_, &str>(1)? == "dead";
        // Nobody wanted it back: from here on it counts as given up.
        totals.dead -= i64::from(is_dead);
        totals.discarded += i64::from(is_dead);
        seqs.push(row.try_get(0)?);
        keys.extend(row.try_get::<_, Option<String>>(2)?);
    }
    let has_more = over.len() as i64 == limit;
    tx.execute_typed(&sql.parked_delete, &args![lane, seqs]).await?;
    let gone = tx.execute_typed(&sql.event_forget, &args![seqs]).await?;
    add_totals(tx, sql, lane, totals).await?;
    if !keys.is_empty() {
        promote(tx, sql, lane, keys, now).await?;
    }
    Ok((gone, has_more))
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
