//! Commands that change events of a lane: redrive, replay, discard, erase; one step of each.

use std::collections::HashSet;
use std::ops::ControlFlow;

use posthaste_core::admin::{EventState, Filter};
use posthaste_core::redact;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::{Moment, Timestamp};
use rusqlite::{Connection, params};

use super::lanes;
use super::question::Question;
use super::scan::{Head, Source, Stretch, Way, walk};
use crate::store::sqlite::cursor::SHARD;
use crate::store::totals::Totals;

/// How many events one step changes: what a commit may hold up others for.
pub(super) const STEP_CHANGES_MAX: usize = 1_000;
/// How many events one step looks at.
const STEP_EVENTS_MAX: usize = 5_000;

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
    pub(super) fn source(&self, filter: &Filter) -> Source {
        match (self, &filter.lane) {
            (Self::Redrive, Some(lane)) if filter.ids.is_empty() => {
                Source::Ended(Some(lane.as_str().to_owned()), EventState::Dead.name())
            }
            (Self::Discard { .. } | Self::Bury { .. } | Self::Schedule { .. }, Some(lane))
                if filter.ids.is_empty() =>
            {
                Source::Parked(lane.as_str().to_owned())
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<P = i64> {
    pub(super) matched: u64,
    pub(super) changed: u64,
    /// Where the next step begins; `None`: there is none.
    pub(super) next: Option<P>,
}

/// Counts what one step would change, or changes it: at most so many.
pub(super) fn step(
    connection: &Connection,
    sql: &SqliteSql,
    filter: &Filter,
    change: &Change,
    stretch: Stretch,
    most: usize,
    now: Option<Timestamp>,
) -> rusqlite::Result<Step> {
    let question = Question::new(connection, sql, filter)?;
    let (mut meant, mut looked_at, mut next) = (Vec::new(), 0, None);
    walk(connection, sql, &change.source(filter), stretch, Way::Up, |head| {
        if looked_at == STEP_EVENTS_MAX || meant.len() == most {
            next = Some(head.seq);
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        let views = question.answer(connection, sql, &head)?;
        // A command about one lane sees that lane only; an erasure asks none.
        let fits = views.is_some_and(|views| {
            matches!(change, Change::Erase) || views.iter().any(|view| change.fits(view.state))
        });
        if fits && is_left(connection, sql, change, head.seq)? {
            meant.push(head);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let matched = meant.len() as u64;
    let changed = match now {
        Some(now) => apply(connection, sql, filter, change, &meant, now)?,
        None => 0,
    };
    Ok(Step { matched, changed, next })
}

/// Whether there is anything left to erase.
fn is_left(connection: &Connection, sql: &SqliteSql, change: &Change, seq: i64) -> rusqlite::Result<bool> {
    if !matches!(change, Change::Erase) {
        return Ok(true);
    }
    let mut statement = connection.prepare_cached(&sql.event_look)?;
    let length: Option<i64> = statement.query_row([seq], |row| row.get(14))?;
    Ok(length.is_some())
}

fn apply(
    connection: &Connection,
    sql: &SqliteSql,
    filter: &Filter,
    change: &Change,
    meant: &[Head],
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let lane = filter.lane.as_ref().map_or("", |lane| lane.as_str());
    let at = now.as_micros();
    let (mut changed, mut totals, mut keys) = (0, Totals::default(), HashSet::new());
    for head in meant {
        let rows = match change {
            Change::Redrive => {
                let rows = connection.prepare_cached(&sql.redrive)?.execute((lane, head.seq, at))?;
                totals.dead -= rows as i64;
                totals.waiting += rows as i64;
                rows
            }
            Change::Replay => {
                let rows = replay(connection, sql, lane, head.seq, at)?;
                totals.accepted += rows as i64;
                totals.waiting += rows as i64;
                rows
            }
            Change::Discard { reason } => discard(connection, sql, lane, head.seq, reason, at, &mut totals)?,
            Change::Bury { reason } => {
                let values = (lane, head.seq, at, redact::clean(reason));
                let rows = connection.prepare_cached(&sql.bury)?.execute(values)?;
                totals.waiting -= rows as i64;
                totals.dead += rows as i64;
                rows
            }
            Change::Schedule { at } => {
                let due = at.resolve(now).as_micros();
                connection.prepare_cached(&sql.schedule)?.execute((lane, head.seq, due))?
            }
            Change::Erase => erase(connection, sql, head.seq)?,
        };
        changed += rows as u64;
        keys.extend(head.key.as_deref());
    }
    debug_assert!(totals.add_up(), "{totals:?}");
    if totals != Totals::default() {
        add_totals(connection, sql, lane, totals, now)?;
        promote(connection, sql, lane, keys, now)?;
    }
    Ok(changed)
}

fn replay(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    seq: i64,
    now: i64,
) -> rusqlite::Result<usize> {
    let none = None::<i64>;
    let values = params![lane, seq, SHARD, "retrying", 0, now, 0, none, none, none, none, true];
    let mut statement = connection.prepare_cached(&sql.park)?;
    let mut parked = statement.query(values)?;
    let mut rows = 0;
    while parked.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

fn discard(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    seq: i64,
    reason: &str,
    now: i64,
    totals: &mut Totals,
) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(&sql.parked_get)?;
    let was_dead = statement.query_row((lane, seq), |row| Ok(row.get::<_, String>(1)? == "dead"))?;
    let values = (lane, seq, now, redact::clean(reason));
    let rows = connection.prepare_cached(&sql.discard)?.execute(values)?;
    let before = if was_dead { &mut totals.dead } else { &mut totals.waiting };
    *before -= rows as i64;
    totals.discarded += rows as i64;
    Ok(rows)
}

/// Overwrites a payload, also where it stood on its page.
fn erase(connection: &Connection, sql: &SqliteSql, seq: i64) -> rusqlite::Result<usize> {
    connection.pragma_update(None, "secure_delete", true)?;
    let rows = connection.prepare_cached(&sql.erase)?.execute([seq]);
    connection.pragma_update(None, "secure_delete", false)?;
    rows
}

/// Adds to a lane's totals.
pub(super) fn add_totals(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    totals: Totals,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let Totals { accepted, delivered, waiting, dead, discarded, .. } = totals;
    let values = (lane, SHARD, accepted, delivered, waiting, dead, discarded, now.as_micros());
    connection.prepare_cached(&sql.lane_totals)?.execute(values)?;
    Ok(())
}

/// Lets those go on who waited behind what was changed.
pub(super) fn promote<'a>(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    keys: impl IntoIterator<Item = &'a str>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let known = lanes::known(connection, sql)?;
    let Some(known) = known.iter().find(|known| known.name.as_str() == lane && known.spec.is_ordered) else {
        return Ok(());
    };
    let mut statement = connection.prepare_cached(&sql.promote)?;
    for key in keys {
        statement.execute((lane, SHARD, key, now.as_micros(), known.spec.blocks_on_dead))?;
    }
    Ok(())
}
