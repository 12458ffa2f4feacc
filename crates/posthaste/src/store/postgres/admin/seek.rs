//! Moving a lane to another place. Past what it has not read it goes in steps, each with a record of what was never read; a relay may
//! take the lane between two of them, and what it delivers then is not skipped.

use posthaste_core::admin::{Applied, Filter, Pace, Seek};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result, redact};
use tokio_postgres::{Client, Transaction};

use super::apply::sum;
use super::change::Step;
use super::lanes::{self, KnownLane};
use crate::store::audit::{Journal, Note};
use crate::store::postgres::acquire::hold_events;
use crate::store::postgres::cursor::{SHARD, StoredPlace};
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::tick::Tick;
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, commit, log};
use crate::store::refusals::no_such_lane;
use crate::store::totals::Totals;

/// How many numbers of the log one step looks at: what a transaction may hold up others for.
const STEP_NUMBERS: i64 = 50_000;

/// Where a lane goes: it then has passed what the tick sees up to the number.
struct Goal {
    tick: Tick,
    number: i64,
    why: Why,
}

/// Why it goes there.
enum Why {
    /// Somebody wants it to go on from this place: what it had passed beyond comes again.
    Seek(StoredPlace),
    /// What it has not read is too old.
    Skip { reason: String },
}

impl PostgresStore {
    pub(super) async fn seek(
        &self,
        filter: &Filter,
        to: Seek,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        let goal = self.goal(&*self.client().await?, to).await?;
        if dry_run {
            return self.count(&lane, &goal, pace).await;
        }
        // What is only counted before it is done is not stopped half-way: the lane would move all the same.
        let again = self.count_again(&lane, &goal, &Pace::full()).await?.matched;
        self.go(&lane, &goal, again, note, pace).await
    }

    pub(super) async fn skip(
        &self,
        filter: &Filter,
        before: Timestamp,
        reason: &str,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        let client = self.client().await?;
        let place = log::place_before(&client, &self.sql, before).await?;
        let tick = self.tick(&client, place.tick_b.unwrap_or_default()).await?;
        drop(client);
        let goal = Goal { tick, number: place.position, why: Why::Skip { reason: redact::clean(reason) } };
        if dry_run {
            return self.count(&lane, &goal, pace).await;
        }
        self.go(&lane, &goal, 0, note, pace).await
    }

    /// Where somebody wants a lane to be. A tick is made in a statement of its own, never in a transaction that writes.
    async fn goal(&self, client: &Client, to: Seek) -> Result<Goal> {
        let sql = &self.sql;
        let (tick, number, place) = match to {
            Seek::Beginning => (Tick::newest(client, sql).await?, 0, StoredPlace::at(0)),
            Seek::Time(time) => {
                let place = log::place_before(client, sql, time).await?;
                (self.tick(client, place.tick_b.unwrap_or_default()).await?, place.position, place)
            }
            _ => {
                let tick = Tick::now(client, sql).await?;
                let (_, last) = log::ends(client, sql).await.map_err(explain)?;
                let place = StoredPlace::at(tick.id);
                (tick, last, place)
            }
        };
        Ok(Goal { tick, number, why: Why::Seek(place) })
    }

    async fn tick(&self, client: &Client, id: i64) -> Result<Tick> {
        let found = Tick::by_id(client, &self.sql, vec![id]).await?.pop();
        found.ok_or_else(|| Error::corrupt(format!("tick {id} is not there")))
    }

    /// Counts what the lane would skip, and what would come again.
    async fn count(&self, lane: &KnownLane, goal: &Goal, pace: &Pace<'_>) -> Result<Applied> {
        if goal.is_behind(lane) {
            return Ok(Applied::default());
        }
        let client = self.client().await?;
        let (mut applied, mut from) = (Applied::default(), lane.passed.from.min(goal.number));
        loop {
            let end = from.saturating_add(STEP_NUMBERS).min(goal.number);
            let late = (from <= lane.passed.from).then_some(from);
            let count = self.between(&client, lane, goal, false, (from, end), late).await;
            applied.matched += count.map_err(explain)?;
            from = end;
            if from >= goal.number {
                break;
            }
            if pace.after(applied).await.is_break() {
                return Ok(applied);
            }
        }
        drop(client);
        if matches!(goal.why, Why::Seek(_)) {
            applied.matched += self.count_again(lane, goal, pace).await?.matched;
            let client = self.client().await?;
            applied.matched += self.done_beyond(&client, lane, goal).await.map_err(explain)?;
        }
        Ok(applied)
    }

    /// Counts what the lane has passed and will not have passed there.
    async fn count_again(&self, lane: &KnownLane, goal: &Goal, pace: &Pace<'_>) -> Result<Applied> {
        let client = self.client().await?;
        let (mut applied, mut from) = (Applied::default(), goal.number);
        while from < lane.passed.to {
            let end = from.saturating_add(STEP_NUMBERS).min(lane.passed.to);
            let count = self.between(&client, lane, goal, true, (from, end), None).await;
            applied.matched += count.map_err(explain)?;
            from = end;
            if pace.after(applied).await.is_break() {
                break;
            }
        }
        Ok(applied)
    }

    /// How many events that the lane wants and has not parked it has passed, or not, of these numbers and of what committed late.
    async fn between(
        &self,
        client: &Client,
        lane: &KnownLane,
        goal: &Goal,
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
        for row in client.query_typed(&self.sql.stretch_count, &values).await? {
            if lane.spec.wants(row.try_get(0)?) {
                count += row.try_get::<_, i64>(1)?.unsigned_abs();
            }
        }
        Ok(count)
    }

    /// How much was delivered from its row beyond the goal, and comes again if the rows go.
    async fn done_beyond(&self, client: &Client, lane: &KnownLane, goal: &Goal) -> Db<u64> {
        let name = lane.name.as_str();
        let values = args![name, goal.number];
        let row = client.query_typed_one(&self.sql.done_count, &values).await?;
        row.try_get::<_, i64>(0).map(i64::unsigned_abs)
    }

    /// Moves the lane, step by step; `again`: what comes again.
    async fn go(
        &self,
        lane: &KnownLane,
        goal: &Goal,
        again: u64,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let mut client = self.client().await?;
        let (mut applied, mut journal) = (Applied::default(), Journal::new(note));
        loop {
            let tx = begin(&mut client).await?;
            let Some(mut step) = self.go_on(&tx, lane, goal).await.map_err(explain)? else {
                return Err(no_such_lane(&lane.name));
            };
            if step.next.is_none() {
                step = Step { matched: step.matched + again, changed: step.changed + again, next: None };
            }
            self.write_down(tx.client(), &mut journal, step).await?;
            commit(tx).await?;
            applied = sum(applied, step);
            if step.next.is_none() {
                return Ok(applied);
            }
            if pace.after(applied).await.is_break() {
                self.stop_here(Some(&mut journal)).await?;
                return Ok(applied);
            }
        }
    }

    /// Moves the lane on by a part of the way from where it is now, or to its goal; `None`: there is no such lane.
    async fn go_on(&self, tx: &Transaction<'_>, lane: &KnownLane, goal: &Goal) -> Db<Option<Step>> {
        let (sql, name) = (&self.sql, lane.name.as_str());
        hold_events(tx, sql).await?;
        tx.query_typed_opt(&sql.lane_lock, &args![name, SHARD]).await?;
        // Read again: it may have moved since.
        let known = lanes::known(tx.client(), sql).await?;
        let Some(lane) = known.into_iter().find(|known| known.name == lane.name) else { return Ok(None) };
        if goal.is_behind(&lane) {
            return Ok(Some(Step::default()));
        }
        let part = lane.part_of.map_or(0, |_| lane.passed.position);
        // After the first step everything that the goal's tick sees up to there is passed.
        let is_under_way = lane.part_of == Some(goal.tick.id);
        let from = if is_under_way { part } else { lane.passed.from }.min(goal.number);
        let late = (!is_under_way).then_some(from);
        // Never back, and always on.
        let end = from.max(part).saturating_add(STEP_NUMBERS).min(goal.number);
        let skipped = self.between(tx.client(), &lane, goal, false, (from, end), late).await?;
        let mut matched = skipped;
        match &goal.why {
            Why::Seek(place) if end == goal.number => {
                matched += self.done_beyond(tx.client(), &lane, goal).await?;
                let values = args![name, SHARD, place.tick_a, place.tick_b, place.position];
                tx.execute_typed(&sql.lane_seek, &values).await?;
                // What was delivered beyond the old place is nothing special any more: what lies beyond the new one comes.
                tx.execute_typed(&sql.done_forget_all, &args![name]).await?;
            }
            why => {
                let reason = why.reason();
                let values = args![name, SHARD, goal.tick.id, end, reason];
                tx.execute_typed(&sql.lane_skip, &values).await?;
                tx.execute_typed(&sql.done_forget_passed, &args![name, SHARD]).await?;
            }
        }
        let count = i64::try_from(skipped).unwrap_or(i64::MAX);
        let totals = Totals { accepted: count, discarded: count, ..Totals::default() };
        add_totals(tx, sql, name, totals).await?;
        let next = (end < goal.number).then_some(end);
        Ok(Some(Step { matched, changed: matched, next }))
    }
}

impl Goal {
    /// Whether the lane is further already and shall not go back.
    fn is_behind(&self, lane: &KnownLane) -> bool {
        match &self.why {
            Why::Skip { .. } => lane.passed.part.is_some() && lane.passed.position > self.number,
            // A relay has read on beyond the end as it was.
            Why::Seek(place) => place.tick_a > 0 && lane.tick > place.tick_a,
        }
    }
}

impl Why {
    /// What the lane's row shall say.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Seek(_) => None,
            Self::Skip { reason } => Some(reason.clone()),
        }
    }
}
