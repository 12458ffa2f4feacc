//! Retention: what nobody needs any more goes, in small steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_core::log::question::Stretch;
use posthaste_core::log::totals::Totals;
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::change::promote;
use super::lanes;
use crate::store::log::driver::{Before, Place, Step};
use crate::store::postgres::error::Db;
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::value::{Stamp, args};
use crate::store::postgres::{log, rows};

/// How many rows one step removes.
pub(super) const STEP_ROWS_MAX: i64 = 5_000;
/// How far the times of neighbours in the log may be out of order.
const SKEW: Duration = Duration::from_secs(300);
/// A time before all others, for what was not asked for.
const NEVER: Timestamp = Timestamp::from_micros(-60_000_000_000_000_000);

/// First what is over in all lanes, with what they have of it; then ticks that nobody needs; then what is
/// old.
pub(super) async fn step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    before: Before,
    most: usize,
    at: &Place,
) -> Db<Step> {
    let most = i64::try_from(most).unwrap_or(STEP_ROWS_MAX);
    be_alone(tx, sql).await?;
    match (at, before) {
        (Place::First | Place::Over { .. }, Before { dead: Some(dead), .. }) => {
            let (gone, next) = over_step(tx, sql, dead, at, most).await?;
            Ok(Step::changed(gone, next.or(Some(Place::Rest))))
        }
        (Place::Stretch(stretch), Before { created: Some(created), .. }) => {
            events_step(tx, sql, *stretch, most, created).await
        }
        _ => {
            let gone = tx.execute_typed(&sql.ticks_prune, &args![STEP_ROWS_MAX]).await?;
            let has_more = gone == STEP_ROWS_MAX.unsigned_abs();
            let log = match before.created {
                Some(_) if !has_more => stretch(tx.client(), sql, before).await?.map(Place::Stretch),
                _ => None,
            };
            Ok(Step::changed(0, if has_more { Some(Place::Rest) } else { log }))
        }
    }
}

/// Looks at a part of what lanes have dead or discarded, and removes the events of which nobody needs
/// anything any more, with what all lanes have of them: without a lane's row an event that stays would count
/// as delivered there. Answers how many went, and where to go on.
async fn over_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    before: Timestamp,
    at: &Place,
    most: i64,
) -> Db<(u64, Option<Place>)> {
    let mut lanes: Vec<_> = lanes::known(tx.client(), sql).await?.into_iter().map(|lane| lane.name).collect();
    lanes.sort_unstable();
    let (mut looked_at, mut gone) = (0, 0);
    for lane in lanes {
        let (dead_at, seq) = match at {
            Place::Over { lane: begun, .. } if *begun > lane => continue,
            Place::Over { lane: begun, dead_at, seq } if *begun == lane => (*dead_at, *seq),
            _ => (NEVER, 0),
        };
        let (name, limit) = (lane.as_str(), most - looked_at);
        let (before_time, after) = (Stamp(before), Stamp(dead_at));
        let over = tx.query_typed(&sql.prune_over, &args![name, before_time, after, seq, limit]).await?;
        let mut seqs = Vec::<i64>::new();
        for row in &over {
            if row.try_get(2)? {
                seqs.push(row.try_get(0)?);
            }
        }
        if !seqs.is_empty() {
            gone += forget(tx, sql, before, seqs).await?;
        }
        looked_at += over.len() as i64;
        if let Some(last) = over.last().filter(|_| looked_at == most) {
            let (dead_at, seq) = (rows::time(last, 1)?, last.try_get(0)?);
            return Ok((gone, Some(Place::Over { lane, dead_at, seq })));
        }
    }
    Ok((gone, None))
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

/// The stretch of the log in which old events can be, after its first number; `None`: there is none.
async fn stretch(client: &Client, sql: &PostgresSql, before: Before) -> Db<Option<Stretch>> {
    let (first, last) = log::ends(client, sql).await?;
    let last = match (before.created, before.dead) {
        (Some(created), None) => log::before(client, sql, created.after(SKEW)).await?,
        _ => last,
    };
    Ok((first < last).then_some(Stretch { first, last }))
}

/// Removes old events of the next stretch, at most so many, that every lane has passed and nothing parks.
async fn events_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    Stretch { first, last }: Stretch,
    most: i64,
    before: Timestamp,
) -> Db<Step> {
    // However few may go at once, a step looks at as much as any: where nothing goes, it costs as much.
    let end = first.saturating_add(STEP_ROWS_MAX).min(last);
    let gone = tx.query_typed(&sql.prune_events, &args![first, end, Stamp(before), most]).await?;
    let mut next = end;
    if gone.len() as i64 == most {
        let seqs = gone.iter().map(|row| row.try_get::<_, i64>(0)).collect::<Db<Vec<_>>>()?;
        next = seqs.into_iter().max().unwrap_or(end);
    }
    let rest = Stretch { first: next, last };
    Ok(Step::changed(gone.len() as u64, (next < last).then_some(Place::Stretch(rest))))
}

/// Waits for those who are about to need events, and sees from the next statement on what they have done.
async fn be_alone(tx: &Transaction<'_>, sql: &PostgresSql) -> Db<()> {
    tx.query_typed(&sql.retention_lock, &args![true]).await.map(drop)
}

/// Counts what would go of the next stretch.
pub(super) async fn count(client: &Client, sql: &PostgresSql, before: Before, at: &Place) -> Db<Step> {
    let whole = match at {
        Place::Stretch(stretch) => Some(*stretch),
        _ => stretch(client, sql, before).await?,
    };
    let Some(Stretch { first, last }) = whole else { return Ok(Step::default()) };
    let end = first.saturating_add(STEP_ROWS_MAX).min(last);
    let stamp = |time: Option<Timestamp>| Stamp(time.unwrap_or(NEVER));
    let (created, dead) = (stamp(before.created), stamp(before.dead));
    let count: i64 =
        client.query_typed_one(&sql.prune_count, &args![first, end, created, dead]).await?.try_get(0)?;
    let rest = Stretch { first: end, last };
    Ok(Step::counted(count.unsigned_abs(), (end < last).then_some(Place::Stretch(rest))))
}
