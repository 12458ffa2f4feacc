//! Moving a lane to another place on a server. Past what it has not read it goes in steps; a relay may take
//! the lane between two of them, and what it delivers then is not skipped.

use posthaste_core::admin::Seek;
use posthaste_core::log::question::KnownLane;
use posthaste_core::log::totals::Totals;
use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Transaction};

use super::lanes::{self, Passed};
use crate::store::log::driver::{Move, Place, Step, Why};
use crate::store::postgres::acquire::hold_events;
use crate::store::postgres::cursor::StoredPlace;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::log;
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::tick::Tick;
use crate::store::postgres::value::args;

/// How many numbers of the log one step looks at: what a transaction may hold up others for.
const STEP_NUMBERS: i64 = 50_000;

/// Where a lane goes: it then has passed what the tick sees up to the number.
#[derive(Clone, Debug)]
pub(in crate::store) struct Goal {
    tick: Tick,
    number: i64,
    /// What the lane's row says then.
    place: StoredPlace,
}

type MoveOnServer = Move<Passed, Goal>;

/// Where a command wants a lane to be. A tick is made in a statement of its own, never in a transaction that
/// writes.
pub(super) async fn goal(client: &Client, sql: &PostgresSql, to: Seek) -> Result<Goal> {
    let (tick, number, place) = match to {
        Seek::Beginning => (Tick::newest(client, sql).await?, 0, StoredPlace::at(0)),
        Seek::Time(time) => {
            let place = log::place_before(client, sql, time).await?;
            let id = place.tick_b.unwrap_or_default();
            let found = Tick::by_id(client, sql, vec![id]).await?.pop();
            let tick = found.ok_or_else(|| Error::corrupt(format!("tick {id} is not there")))?;
            (tick, place.position, place)
        }
        _ => {
            let tick = Tick::now(client, sql).await?;
            let (_, last) = log::ends(client, sql).await.map_err(explain)?;
            let place = StoredPlace::at(tick.id);
            (tick, last, place)
        }
    };
    Ok(Goal { tick, number, place })
}

/// Counts what the lane would skip, and with the last part what was delivered beyond its goal.
pub(super) async fn count(client: &Client, sql: &PostgresSql, way: &MoveOnServer, at: &Place) -> Db<Step> {
    let Move { lane, goal, .. } = way;
    if is_behind(way, lane) {
        return Ok(Step::default());
    }
    let first = lane.passed.from.min(goal.number);
    let from = number(at, first);
    let end = from.saturating_add(STEP_NUMBERS).min(goal.number);
    let late = (from == first).then_some(from);
    let mut matched = between(client, sql, (lane, goal), false, (from, end), late).await?;
    let is_end = end >= goal.number;
    if is_end && matches!(way.why, Why::Seek) {
        matched += done_beyond(client, sql, lane, goal).await?;
    }
    Ok(Step::counted(matched, (!is_end).then_some(Place::Number(end))))
}

/// Counts what the lane has passed and will not have passed at its goal.
pub(super) async fn count_again(
    client: &Client,
    sql: &PostgresSql,
    way: &MoveOnServer,
    at: &Place,
) -> Db<Step> {
    let Move { lane, goal, .. } = way;
    let (from, last) = (number(at, goal.number), lane.passed.to);
    if is_behind(way, lane) || from >= last {
        return Ok(Step::default());
    }
    let end = from.saturating_add(STEP_NUMBERS).min(last);
    let matched = between(client, sql, (lane, goal), true, (from, end), None).await?;
    Ok(Step::counted(matched, (end < last).then_some(Place::Number(end))))
}

fn number(at: &Place, first: i64) -> i64 {
    if let Place::Number(number) = at { *number } else { first }
}

/// Whether the lane is further already and shall not go back.
fn is_behind(way: &MoveOnServer, lane: &KnownLane<Passed>) -> bool {
    let (passed, goal) = (&lane.passed, &way.goal);
    match way.why {
        Why::Skip { .. } => passed.part.is_some() && passed.position > goal.number,
        // A relay has read on beyond the end as it was.
        Why::Seek => goal.place.tick_a > 0 && passed.tick > goal.place.tick_a,
    }
}

/// How many events that the lane wants and has not parked it has passed, or not, of these numbers and of what
/// committed late.
async fn between(
    client: &Client,
    sql: &PostgresSql,
    (lane, goal): (&KnownLane<Passed>, &Goal),
    is_passed: bool,
    (after, last): (i64, i64),
    late: Option<i64>,
) -> Db<u64> {
    let (name, passed) = (lane.name.as_str(), &lane.passed);
    let open = if late.is_some() { passed.late() } else { Vec::new() };
    let late = late.unwrap_or_default();
    let values = args![
        name,
        is_passed,
        after,
        last,
        goal.tick.text,
        open,
        late,
        passed.whole,
        passed.part,
        passed.position,
    ];
    let mut count = 0;
    for row in client.query_typed(&sql.stretch_count, &values).await? {
        if lane.spec.wants(row.try_get(0)?) {
            count += row.try_get::<_, i64>(1)?.unsigned_abs();
        }
    }
    Ok(count)
}

/// How much was delivered from its row beyond the goal, and comes again if the rows go.
async fn done_beyond(client: &Client, sql: &PostgresSql, lane: &KnownLane<Passed>, goal: &Goal) -> Db<u64> {
    let row = client.query_typed_one(&sql.done_count, &args![lane.name.as_str(), goal.number]).await?;
    row.try_get::<_, i64>(0).map(i64::unsigned_abs)
}

/// Moves the lane on by a part of the way from where it is now, or to its goal; `None`: there is no such
/// lane.
pub(super) async fn step(tx: &Transaction<'_>, sql: &PostgresSql, way: &MoveOnServer) -> Db<Option<Step>> {
    let (goal, name) = (&way.goal, way.lane.name.as_str());
    hold_events(tx, sql).await?;
    tx.query_typed_opt(&sql.lane_lock, &args![name]).await?;
    // Read again: it may have moved since.
    let known = lanes::known(tx.client(), sql).await?;
    let Some(lane) = known.into_iter().find(|known| known.name == way.lane.name) else { return Ok(None) };
    if is_behind(way, &lane) {
        return Ok(Some(Step::changed(way.again, None)));
    }
    let passed = &lane.passed;
    let part = passed.part_of.map_or(0, |_| passed.position);
    // After the first step everything that the goal's tick sees up to there is passed.
    let is_under_way = passed.part_of == Some(goal.tick.id);
    let from = if is_under_way { part } else { passed.from }.min(goal.number);
    let late = (!is_under_way).then_some(from);
    // Never back, and always on.
    let end = from.max(part).saturating_add(STEP_NUMBERS).min(goal.number);
    let skipped = between(tx.client(), sql, (&lane, goal), false, (from, end), late).await?;
    let (mut matched, is_end) = (skipped, end >= goal.number);
    match &way.why {
        Why::Seek if is_end => {
            matched += way.again + done_beyond(tx.client(), sql, &lane, goal).await?;
            let place = &goal.place;
            let values = args![name, place.tick_a, place.tick_b, place.position];
            tx.execute_typed(&sql.lane_seek, &values).await?;
            // What was delivered beyond the old place is nothing special any more: what lies beyond the new
            // one comes.
            tx.execute_typed(&sql.done_forget_all, &args![name]).await?;
        }
        why => {
            let reason = match why {
                Why::Skip { reason } => Some(reason.as_str()),
                Why::Seek => None,
            };
            tx.execute_typed(&sql.lane_skip, &args![name, goal.tick.id, end, reason]).await?;
            tx.execute_typed(&sql.done_forget_passed, &args![name]).await?;
        }
    }
    let count = i64::try_from(skipped).unwrap_or(i64::MAX);
    let totals = Totals { accepted: count, discarded: count, ..Totals::default() };
    add_totals(tx, sql, name, totals).await?;
    Ok(Some(Step::changed(matched, (!is_end).then_some(Place::Number(end)))))
}
