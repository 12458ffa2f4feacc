//! What operators see of a table over a [`Driver`], and what they may do with it.

use std::time::Duration;

use posthaste_core::admin::{
    Actor, Admin, Applied, Command, EventState, Filter, Found, LaneStats, Page, Record,
};
use posthaste_core::lane::LaneName;
use posthaste_core::review::Review;
use posthaste_core::table::States;
use posthaste_core::{BoxFuture, Error, Result};

use super::driver::{Counted, Driver, Question, Seen, Terminal};
use super::engine::Table;
use super::look::{is_wanted, page_end, page_place, tell_unknown, view};
use super::{cannot, note};

const PAGE_MAX: u32 = 1_000;
/// How many rows one statement of a command changes.
const STEP_ROWS: u32 = 1_000;
/// How many rows one statement makes pending again: more, as each looks for the earliest of those that are left.
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
            but_due_since: None,
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

    async fn act(&self, filter: &Filter, command: Command, by: &Actor) -> Result<Applied> {
        let applied = match &command {
            Command::Redrive { dry_run } => self.again(filter, EventState::Dead, *dry_run).await?,
            Command::Replay { dry_run } => self.again(filter, EventState::Delivered, *dry_run).await?,
            Command::Prune { delivered_age, dead_age, dry_run } => {
                let first = self.prune(Terminal::Delivered, *delivered_age, *dry_run).await?;
                let second = self.prune(Terminal::Dead, *dead_age, *dry_run).await?;
                Applied::new(first.matched + second.matched, first.changed + second.changed)
            }
            Command::PruneInbox { age, dry_run } => {
                self.prune_memory(*age, *dry_run).await?.ok_or_else(|| cannot(&command))?
            }
            other => return Err(cannot(other)),
        };
        note(&command, by, applied);
        Ok(applied)
    }

    /// Terminal rows are pending again, in steps. The earliest come first and are due first, so that the order of a key holds whatever
    /// a relay takes in between; and what it has delivered meanwhile does not come once more.
    async fn again(&self, filter: &Filter, from: EventState, dry_run: bool) -> Result<Applied> {
        if filter.topic.is_some() || filter.asks_a_failure() {
            return Err(Error::rejected(
                "a table is searched by ids, type, key and time; leave topic, code and error away",
            ));
        }
        let sql = self.sql().await?;
        let mut question = Question { state: Some(from), ..Question::of(filter, None)? };
        let (matched, began) = self.driver.matched(&sql, &question).await?;
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        let mut changed = 0;
        loop {
            let step = self.driver.again(&sql, &question).await?;
            changed += step;
            if step < u64::from(question.rows) {
                break;
            }
            question.but_due_since = Some(began);
        }
        self.signal.ring();
        Ok(Applied::new(matched.max(changed), changed))
    }

    async fn prune(&self, what: Terminal, age: Option<Duration>, dry_run: bool) -> Result<Applied> {
        let Some(age) = age else { return Ok(Applied::default()) };
        let sql = self.sql().await?;
        let matched = self.driver.prune(&sql, what, age, None).await?;
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        let mut changed = 0;
        loop {
            let step = self.driver.prune(&sql, what, age, Some(STEP_ROWS)).await?;
            changed += step;
            if step < u64::from(STEP_ROWS) {
                return Ok(Applied::new(matched.max(changed), changed));
            }
        }
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
    stats.accepted = stats.waiting + stats.delivered + stats.dead;
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

impl<D: Driver> Review for Table<D> {}

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
        Box::pin(self.act(filter, command, by))
    }
}
