//! What operators see of a table over a [`Driver`], and what they may do with it.

use std::time::Duration;

use posthaste_core::admin::{
    Actor, Admin, Applied, Command, EventState, Filter, Found, LaneStats, Pace, Page, Record,
};
use posthaste_core::lane::LaneName;
use posthaste_core::review::{DeadCodes, Review};
use posthaste_core::table::{Column, States};
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Error, Result};

use super::cursor::said;
use super::driver::{Counted, Driver, Question, Seen, Terminal, Wish};
use super::engine::Table;
use super::look::{BURIED, DISCARDED, is_wanted, page_end, page_place, tell_unknown, view};
use super::{cannot, note};

const PAGE_MAX: u32 = 1_000;
/// How many rows one statement of a command changes.
const STEP_ROWS: u32 = 1_000;
/// How many microseconds a second has.
const SECOND: i64 = 1_000_000;
/// How many rows one statement of a change takes: more, as each looks for the earliest of those that are left.
const AGAIN_ROWS: u32 = 5_000;

impl Question {
    fn of(filter: &Filter, page: Option<&Page>) -> Result<Self> {
        let after = page.and_then(|page| page.after.as_deref()).map(page_place).transpose()?;
        Ok(Self {
            state: filter.state,
            ids: filter.ids.clone(),
            event_type: filter.event_type.clone(),
            key: filter.key.clone(),
            since: filter.since,
            until: filter.until,
            after,
            rows: page.map_or(AGAIN_ROWS, |page| page.size.clamp(1, PAGE_MAX)),
            unclaimed: false,
        })
    }
}

impl<D: Driver> Table<D> {
    async fn stats(&self) -> Result<LaneStats> {
        let sql = self.sql().await?;
        let counted = self.driver.count(&sql).await?;
        Ok(self.lane(|lane, said| {
            let mut stats = stats(lane, counted);
            if let Some(said) = said {
                said.tell(&mut stats);
            }
            stats
        }))
    }

    async fn search(&self, filter: &Filter, page: Page) -> Result<Found> {
        let sql = self.sql().await?;
        let question = Question::of(filter, Some(&page))?;
        let rows = self.driver.find(&sql, &question).await?;
        let lane = self.lane(|lane, _| lane);
        let mut found = Found::default();
        if rows.len() == question.rows as usize {
            found.next = rows.last().map(|seen| page_end(&seen.raw));
        }
        let states = &D::shape(&sql).profile.states;
        let records = rows.into_iter().map(|seen| record(seen, states, &lane, page.with_payload));
        found.records = records.filter(|record| is_wanted(filter, record)).collect();
        Ok(found)
    }

    async fn act(&self, filter: &Filter, command: Command, by: &Actor, pace: &Pace<'_>) -> Result<Applied> {
        let applied = match &command {
            Command::Redrive { dry_run } => {
                let (state, wish) = (EventState::Dead, Wish::Again { but_due_since: None });
                self.change(filter, Some(state), wish, *dry_run, pace).await?
            }
            Command::Replay { dry_run } => {
                let (state, wish) = (EventState::Delivered, Wish::Again { but_due_since: None });
                self.change(filter, Some(state), wish, *dry_run, pace).await?
            }
            Command::Discard { reason, dry_run } => {
                let shape = self.sql().await?;
                if !D::shape(&shape).has(Column::LastError) {
                    return Err(cannot(&command));
                }
                let wish = Wish::Discard(said(&format!("{DISCARDED}: {reason}")));
                self.change(filter, Some(EventState::Dead), wish, *dry_run, pace).await?
            }
            Command::Bury { reason, dry_run } => {
                let wish = Wish::Bury(said(&format!("{BURIED}: {reason}")));
                self.change(filter, None, wish, *dry_run, pace).await?
            }
            Command::Schedule { at, dry_run } => {
                let sql = self.sql().await?;
                let (_, now) = self.driver.matched(&sql, &nothing()).await?;
                // To the second, which every column can hold: rows that have this time already are done with.
                let at = Timestamp::from_micros(at.resolve(now).as_micros().div_euclid(SECOND) * SECOND);
                self.change(filter, None, Wish::Schedule(at), *dry_run, pace).await?
            }
            Command::Prune { delivered_age, dead_age, dry_run } => {
                self.prune(*delivered_age, *dead_age, *dry_run, pace).await?
            }
            Command::PruneInbox { age, dry_run } => {
                self.prune_memory(*age, *dry_run).await?.ok_or_else(|| cannot(&command))?
            }
            other => return Err(cannot(other)),
        };
        note(&command, by, applied);
        Ok(applied)
    }

    /// Rows of this state, or without one those that wait and that no relay has, are changed, in steps. The earliest come first, so that
    /// the order of a key holds whatever a relay takes in between; and what is pending again and was delivered meanwhile does not come
    /// once more.
    async fn change(
        &self,
        filter: &Filter,
        from: Option<EventState>,
        mut wish: Wish,
        dry_run: bool,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        if filter.topic.is_some() || filter.asks_a_failure() {
            return Err(Error::rejected(
                "a table is searched by ids, type, key and time; leave topic, code and error away",
            ));
        }
        let sql = self.sql().await?;
        let mut question = Question { state: from, unclaimed: from.is_none(), ..Question::of(filter, None)? };
        let (matched, began) = self.driver.matched(&sql, &question).await?;
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        question.rows = u32::try_from(pace.step(AGAIN_ROWS as usize)).unwrap_or(AGAIN_ROWS);
        let mut changed = 0;
        loop {
            let step = self.driver.change(&sql, &question, &wish).await?;
            changed += step;
            self.signal.ring();
            let applied = Applied::new(matched.max(changed), changed);
            // What waits for another time still waits: without an end, new rows would be put off as they come.
            let is_all = matches!(wish, Wish::Schedule(_)) && changed >= matched;
            if is_all || step < u64::from(question.rows) || pace.after(applied).await.is_break() {
                return Ok(applied);
            }
            if let Wish::Again { but_due_since } = &mut wish {
                *but_due_since = Some(began);
            }
        }
    }

    async fn prune(
        &self,
        delivered_age: Option<Duration>,
        dead_age: Option<Duration>,
        dry_run: bool,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let sql = self.sql().await?;
        let rows = u32::try_from(pace.step(STEP_ROWS as usize)).unwrap_or(STEP_ROWS);
        let mut applied = Applied::default();
        for (what, age) in [(Terminal::Delivered, delivered_age), (Terminal::Dead, dead_age)] {
            let Some(age) = age else { continue };
            let matched = self.driver.prune(&sql, what, age, None).await?;
            applied.matched += matched;
            if dry_run {
                continue;
            }
            let mut changed = 0;
            loop {
                let step = self.driver.prune(&sql, what, age, Some(rows)).await?;
                changed += step;
                applied.changed += step;
                applied.matched += changed.saturating_sub(matched).min(step);
                if step < u64::from(rows) {
                    break;
                }
                if pace.after(applied).await.is_break() {
                    return Ok(applied);
                }
            }
        }
        Ok(applied)
    }

    async fn prune_memory(&self, age: Duration, dry_run: bool) -> Result<Option<Applied>> {
        let Some(matched) = self.driver.prune_memory(age, None).await? else { return Ok(None) };
        let (mut changed, mut is_done) = (0, dry_run);
        while !is_done {
            let step = self.driver.prune_memory(age, Some(STEP_ROWS)).await?.unwrap_or_default();
            changed += step;
            is_done = step == 0;
        }
        Ok(Some(Applied::new(matched.max(changed), changed)))
    }
}

fn stats(lane: LaneName, counted: Counted) -> LaneStats {
    let mut stats = LaneStats::new(lane);
    stats.unread = counted.fresh;
    stats.waiting = counted.waiting;
    stats.delivered = counted.delivered;
    stats.dead = counted.dead;
    stats.discarded = counted.discarded;
    stats.accepted = stats.waiting + stats.delivered + stats.dead + stats.discarded;
    stats.oldest_unread_at = counted.oldest_fresh_at;
    tell_unknown(&mut stats, counted.unknown);
    stats
}

fn record(seen: Seen, states: &States, lane: &LaneName, with_payload: bool) -> Record {
    let Seen { raw, progress, payload_bytes } = seen;
    let view = view(lane, states, &raw, progress);
    let created = raw.created_at;
    let mut envelope = raw.envelope_or_empty();
    if !with_payload {
        envelope.payload = Vec::new();
    }
    let mut record = Record::new(created.as_micros(), envelope, payload_bytes, created);
    record.lanes.push(view);
    record
}

/// A question that no row answers: only for the time.
fn nothing() -> Question {
    Question { ids: vec![String::new()], ..Question::default() }
}

impl<D: Driver> Review for Table<D> {
    /// A relay writes the code at the beginning of the error, so that it can be read there.
    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        Box::pin(async move {
            let mut filter = DeadCodes::question(filter)?;
            filter.state = Some(EventState::Dead);
            let (mut records, mut page) = (Vec::new(), Page::first(PAGE_MAX));
            loop {
                let found = self.search(&filter, page.clone()).await?;
                records.extend(found.records);
                page.after = found.next;
                let is_enough = records.len() as i64 >= DeadCodes::EVENTS_MAX;
                if page.after.is_none() || is_enough {
                    return Ok(DeadCodes::of(&filter, &records, page.after.is_some()));
                }
            }
        })
    }
}

impl<D: Driver> Admin for Table<D> {
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>> {
        Box::pin(async move { Ok(vec![self.stats().await?]) })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(self.search(filter, page))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move { self.act(filter, command, by, &Pace::full()).await })
    }

    fn apply_paced<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(self.act(filter, command, by, pace))
    }
}
