//! Commands that change events of a lane, on a server: which events a step means, and what becomes of them.

use std::collections::HashSet;

use posthaste_core::admin::Filter;
use posthaste_core::log::change::Change;
use posthaste_core::log::question::{Head, Question, Stretch, Way};
use posthaste_core::log::totals::Totals;
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::{lanes, scan, views};
use crate::store::log::driver::{Place, Step};
use crate::store::postgres::acquire::hold_events;
use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::value::{Stamp, args};

/// How many events one step looks at, and thus changes: what a transaction may hold up others for.
pub(super) const STEP_EVENTS_MAX: usize = 1_000;

/// What one step means.
pub(super) struct Meant {
    pub(super) events: Vec<Head>,
    /// Where the next step begins.
    pub(super) next: Option<Place>,
}

/// Finds what one step means: at most `most` events.
pub(super) async fn meant(
    client: &Client,
    sql: &PostgresSql,
    (filter, change): (&Filter, &Change),
    mut stretch: Stretch,
    at: &Place,
    most: usize,
) -> Db<Meant> {
    if let Place::Number(first) = at {
        stretch.first = *first;
    }
    let question = Question::new(filter, lanes::known(client, sql).await?);
    let heads = scan::page(client, sql, &change.source(filter), stretch, Way::Up, STEP_EVENTS_MAX).await?;
    let mut next = heads.last().filter(|_| heads.len() == STEP_EVENTS_MAX).map(|head| head.seq + 1);
    let answers = views::of(client, sql, &question, &heads).await?;
    let pairs = heads.into_iter().zip(answers);
    let meant = pairs.filter(|(head, views)| views.as_ref().is_some_and(|views| change.means(head, views)));
    let mut events: Vec<Head> = meant.map(|(head, _)| head).collect();
    if events.len() > most {
        next = Some(events[most].seq);
        events.truncate(most);
    }
    Ok(Meant { events, next: next.map(Place::Number) })
}

/// Takes one step, which begins with the lock of the lane's row: settles wait, and what was found does not
/// change before it is changed.
pub(super) async fn step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    (filter, change): (&Filter, &Change),
    stretch: Stretch,
    at: &Place,
    most: usize,
) -> Db<Step> {
    let lane = filter.lane.as_ref().map_or("", |lane| lane.as_str());
    if matches!(change, Change::Replay) {
        hold_events(tx, sql).await?;
    }
    let locked = tx.query_typed_opt(&sql.lane_lock, &args![lane]).await?;
    let now = locked.map(|row| rows::time(&row, 0)).transpose()?.unwrap_or_default();
    let Meant { events, next } = meant(tx.client(), sql, (filter, change), stretch, at, most).await?;
    let changed = apply(tx, sql, lane, change, &events, now).await?;
    Ok(Step { matched: events.len() as u64, changed, next })
}

/// Changes these events; the lane's row is locked. Answers how many.
async fn apply(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    change: &Change,
    meant: &[Head],
    now: Timestamp,
) -> Db<u64> {
    let seqs: Vec<i64> = meant.iter().map(|head| head.seq).collect();
    let mut were_dead = 0;
    let changed = match change {
        Change::Redrive => tx.execute_typed(&sql.redrive, &args![lane, seqs, Stamp(now)]).await?,
        Change::Replay => replay(tx, sql, lane, seqs, now).await?,
        Change::Discard { reason } => {
            let were = tx.query_typed(&sql.discard, &args![lane, seqs, Stamp(now), *reason]).await?;
            for row in &were {
                were_dead += u64::from(row.try_get::<_, &str>(0)? == "dead");
            }
            were.len() as u64
        }
        Change::Bury { reason } => {
            tx.execute_typed(&sql.bury, &args![lane, seqs, Stamp(now), *reason]).await?
        }
        Change::Schedule { at } => {
            tx.execute_typed(&sql.schedule, &args![lane, seqs, Stamp(at.resolve(now))]).await?
        }
        Change::Erase => tx.execute_typed(&sql.erase, &args![seqs]).await?,
    };
    let totals = change.totals(changed, were_dead);
    if totals != Totals::default() {
        add_totals(tx, sql, lane, totals).await?;
        let keys: HashSet<&str> = meant.iter().filter_map(|head| head.key.as_deref()).collect();
        promote(tx, sql, lane, keys.into_iter().map(str::to_owned).collect(), now).await?;
    }
    Ok(changed)
}

async fn replay(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    seqs: Vec<i64>,
    now: Timestamp,
) -> Db<u64> {
    let count = seqs.len();
    let none: Vec<Option<Stamp>> = vec![None; count];
    let no_text: Vec<Option<String>> = vec![None; count];
    let (states, attempts) = (vec!["retrying"; count], vec![0_i64; count]);
    let (epoch, is_ordered, at, replay) = (0_i64, true, Some(Stamp(now)), true);
    let available_at = vec![at; count];
    let values = args![
        lane,
        epoch,
        is_ordered,
        at,
        seqs,
        states,
        attempts,
        available_at,
        no_text,
        no_text,
        none,
        none,
        replay,
    ];
    Ok(tx.query_typed(&sql.park, &values).await?.len() as u64)
}

/// Lets those go on who waited behind what was changed.
pub(super) async fn promote(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    keys: Vec<String>,
    now: Timestamp,
) -> Db<()> {
    let known = lanes::known(tx.client(), sql).await?;
    let Some(known) = known.iter().find(|known| known.name.as_str() == lane && known.spec.is_ordered) else {
        return Ok(());
    };
    tx.execute_typed(&sql.promote, &args![lane, keys, Stamp(now), known.spec.blocks_on_dead]).await.map(drop)
}
