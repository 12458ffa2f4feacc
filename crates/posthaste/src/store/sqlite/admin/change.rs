//! Commands that change events of a lane, in a file: which events a step means, and what becomes of them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use posthaste_core::admin::Filter;
use posthaste_core::log::change::Change;
use posthaste_core::log::question::{Head, Question, Stretch, Way};
use posthaste_core::log::totals::Totals;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::scan::walk;
use super::{lanes, views};
use crate::store::log::driver::Place;

/// How many events one step looks at.
const STEP_EVENTS_MAX: usize = 5_000;

/// What one step means.
pub(super) struct Meant {
    pub(super) events: Vec<Head>,
    /// Where the next step begins.
    pub(super) next: Option<Place>,
}

/// Finds what one step means: at most `most` events.
pub(super) fn meant(
    connection: &Connection,
    sql: &SqliteSql,
    (filter, change): (&Filter, &Change),
    mut stretch: Stretch,
    at: &Place,
    most: usize,
) -> rusqlite::Result<Meant> {
    if let Place::Number(first) = at {
        stretch.first = *first;
    }
    let question = Question::new(filter, lanes::known(connection, sql)?);
    let (mut meant, mut looked_at) = (Meant { events: Vec::new(), next: None }, 0);
    walk(connection, sql, &change.source(filter), stretch, Way::Up, |head| {
        if looked_at == STEP_EVENTS_MAX || meant.events.len() == most {
            meant.next = Some(Place::Number(head.seq));
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        let views = views::of(connection, sql, &question, &head)?;
        if views.is_some_and(|views| change.means(&head, &views)) {
            meant.events.push(head);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(meant)
}

/// Changes these events; answers how many.
pub(super) fn change(
    connection: &Connection,
    sql: &SqliteSql,
    (filter, change): (&Filter, &Change),
    meant: &[Head],
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let lane = filter.lane.as_ref().map_or("", |lane| lane.as_str());
    let at = now.as_micros();
    let (mut changed, mut were_dead) = (0, 0);
    for head in meant {
        changed += match change {
            Change::Redrive => connection.prepare_cached(&sql.redrive)?.execute((lane, head.seq, at))?,
            Change::Replay => replay(connection, sql, lane, head.seq, at)?,
            Change::Discard { reason } => {
                let (rows, was_dead) = discard(connection, sql, lane, head.seq, reason, at)?;
                were_dead += u64::from(was_dead);
                rows
            }
            Change::Bury { reason } => {
                connection.prepare_cached(&sql.bury)?.execute((lane, head.seq, at, reason))?
            }
            Change::Schedule { at } => {
                let due = at.resolve(now).as_micros();
                connection.prepare_cached(&sql.schedule)?.execute((lane, head.seq, due))?
            }
            Change::Erase => erase(connection, sql, head.seq)?,
        } as u64;
    }
    let totals = change.totals(changed, were_dead);
    if totals != Totals::default() {
        let keys: HashSet<&str> = meant.iter().filter_map(|head| head.key.as_deref()).collect();
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
    let values = params![lane, seq, "retrying", 0, now, 0, none, none, none, none, true];
    let mut statement = connection.prepare_cached(&sql.park)?;
    let mut parked = statement.query(values)?;
    let mut rows = 0;
    while parked.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// Gives an event up; answers how many rows changed, and whether the event was dead.
fn discard(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &str,
    seq: i64,
    reason: &str,
    now: i64,
) -> rusqlite::Result<(usize, bool)> {
    let mut statement = connection.prepare_cached(&sql.parked_get)?;
    let was_dead = statement.query_row((lane, seq), |row| Ok(row.get::<_, String>(1)? == "dead"))?;
    let rows = connection.prepare_cached(&sql.discard)?.execute((lane, seq, now, reason))?;
    Ok((rows, was_dead && rows > 0))
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
    debug_assert!(totals.add_up(), "{totals:?}");
    let Totals { accepted, delivered, waiting, dead, discarded, .. } = totals;
    let values = (lane, accepted, delivered, waiting, dead, discarded, now.as_micros());
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
        statement.execute((lane, key, now.as_micros(), known.spec.blocks_on_dead))?;
    }
    Ok(())
}
