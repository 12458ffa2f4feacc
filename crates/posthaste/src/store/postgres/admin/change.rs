//! Commands that change events of a lane: redrive, replay, discard, bury, schedule, erase; one step of each.

use std::collections::HashSet;

use posthaste_core::admin::{EventState, Filter};
use posthaste_core::redact;
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::{Moment, Timestamp};
use tokio_postgres::{Client, Transaction};

use super::lanes;
use super::question::Question;
use super::scan::{self, Head, Source, Stretch, Way};
use crate::store::postgres::cursor::SHARD;
use crate::store::postgres::error::Db;
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::value::{Stamp, args};
use crate::store::totals::Totals;

/// How many events one step looks at, and thus changes: what a transaction may hold up others for.
pub(super) const STEP_EVENTS_MAX: usize = 1_000;

/// What is done to each event.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Redrive,
    Replay,
    Discard { reason: String },
    Bury { reason: String },
    Schedule { at: Moment },
    Erase,
}

impl Change {
    /// Where its events are.
    fn source(&self, filter: &Filter) -> Source {
        match (self, &filter.lane) {
            (Self::Redrive, Some(lane)) if filter.ids.is_empty() => {
                Source::Ended(Some(lane.as_str().to_owned()), EventState::Dead.name())
            }
            (Self::Discard { .. } | Self::Bury { .. } | Self::Schedule { .. }, Some(lane))
                if filter.ids.is_empty() =>
            {
                Source::Parked(Some(lane.as_str().to_owned()))
            }
            _ => Source::of(filter),
        }
    }

    /// Whether it does anything to an event in this state.
    fn fits(&self, state: EventState) -> bool {
        match self {
            Self::Redrive => state == EventState::Dead,
            Self::Replay => state == EventState::Delivered,
            // Only what is parked: what the lane has not read yet cannot be given up one by one.
            Self::Discard { .. } => {
                state == EventState::Dead || (state.is_pending() && state != EventState::Pending)
            }
            Self::Bury { .. } => state.is_pending() && state != EventState::Pending,
            Self::Schedule { .. } => matches!(state, EventState::Retrying | EventState::Scheduled),
            Self::Erase => true,
        }
    }
}

/// How far a command has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) matched: u64,
    pub(super) changed: u64,
    /// Where the next step begins; `None`: there is none.
    pub(super) next: Option<i64>,
}

/// What one step means: which events, at most so many, and where the next step begins.
pub(super) async fn meant(
    client: &Client,
    sql: &PostgresSql,
    filter: &Filter,
    change: &Change,
    stretch: Stretch,
    most: usize,
) -> Db<(Vec<Head>, Option<i64>)> {
    let question = Question::new(client, sql, filter).await?;
    let heads = scan::page(client, sql, &change.source(filter), stretch, Way::Up, STEP_EVENTS_MAX).await?;
    let mut next = heads.last().filter(|_| heads.len() == STEP_EVENTS_MAX).map(|head| head.seq + 1);
    let answers = question.answers(client, sql, &heads).await?;
    // A command about one lane sees that lane only; an erasure asks none, but what is erased is erased.
    let fits = |head: &Head, views: &[posthaste_core::admin::LaneView]| match change {
        Change::Erase => !head.is_erased,
        _ => views.iter().any(|view| change.fits(view.state)),
    };
    let pairs = heads.into_iter().zip(answers);
    let meant = pairs.filter(|(head, views)| views.as_ref().is_some_and(|views| fits(head, views)));
    let mut meant: Vec<Head> = meant.map(|(head, _)| head).collect();
    if meant.len() > most {
        next = Some(meant[most].seq);
        meant.truncate(most);
    }
    Ok((meant, next))
}

/// Changes these events; the lane's row is locked. Answers how many.
pub(super) async fn change(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    change: &Change,
    meant: &[Head],
    now: Timestamp,
) -> Db<u64> {
    let seqs: Vec<i64> = meant.iter().map(|head| head.seq).collect();
    let mut totals = Totals::default();
    let changed = match change {
        Change::Redrive => {
            let rows = tx.execute_typed(&sql.redrive, &args![lane, seqs, Stamp(now)]).await?;
            totals.dead -= rows as i64;
            totals.waiting += rows as i64;
            rows
        }
        Change::Replay => {
            let rows = replay(tx, sql, lane, seqs, now).await?;
            totals.accepted += rows as i64;
            totals.waiting += rows as i64;
            rows
        }
        Change::Discard { reason } => discard(tx, sql, lane, seqs, reason, now, &mut totals).await?,
        Change::Bury { reason } => {
            let (at, reason) = (Stamp(now), redact::clean(reason));
            let rows = tx.execute_typed(&sql.bury, &args![lane, seqs, at, reason]).await?;
            totals.waiting -= rows as i64;
            totals.dead += rows as i64;
            rows
        }
        Change::Schedule { at } => {
            tx.execute_typed(&sql.schedule, &args![lane, seqs, Stamp(at.resolve(now))]).await?
        }
        Change::Erase => tx.execute_typed(&sql.erase, &args![seqs]).await?,
    };
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
        SHARD,
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

async fn discard(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    seqs: Vec<i64>,
    reason: &str,
    now: Timestamp,
    totals: &mut Totals,
) -> Db<u64> {
    let were = tx.query_typed(&sql.discard, &args![lane, seqs, Stamp(now), redact::clean(reason)]).await?;
    for row in &were {
        let was_dead = row.try_get::<_, &str>(0)? == "dead";
        *(if was_dead { &mut totals.dead } else { &mut totals.waiting }) -= 1;
        totals.discarded += 1;
    }
    Ok(were.len() as u64)
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
    tx.execute_typed(&sql.promote, &args![lane, SHARD, keys, Stamp(now), known.spec.blocks_on_dead])
        .await
        .map(drop)
}
