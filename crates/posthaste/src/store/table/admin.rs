//! What operators see of a table over a [`Driver`].

use posthaste_core::admin::{
    Actor, Admin, Applied, Command, Filter, Found, LaneStats, Lanes, Pace, Page, Record,
};
use posthaste_core::lane::LaneName;
use posthaste_core::table::States;
use posthaste_core::{BoxFuture, Error, Result};

use super::command::AGAIN_ROWS;
use super::count::{Counted, Estimated};
use super::driver::{Driver, Question, Seen};
use super::engine::Table;
use super::look::{page_end, page_place, tell_unindexed, tell_unknown, view};

/// The fields of a filter that the statements of a table ask. Another one is refused: a command that passed
/// over it would change rows that were not meant.
const ASKED: [&str; 10] = ["lane", "state", "ids", "type", "topic", "key", "since", "until", "code", "error"];

impl Question {
    pub(super) fn of(filter: &Filter, page: Option<&Page>) -> Result<Self> {
        if let Some(field) = filter.given().keys().find(|field| !ASKED.contains(&field.as_str())) {
            return Err(Error::rejected(format!("rows of an outbox table cannot be chosen by {field}")));
        }
        // What a relay stores begins with the code, which ends where the first colon and space stand.
        if filter.code.as_ref().is_some_and(|code| code.contains(": ")) {
            return Ok(Self::nothing());
        }
        let after = page.and_then(|page| page.after.as_deref()).map(page_place).transpose()?;
        Ok(Self {
            state: filter.state,
            ids: filter.ids.clone(),
            code: filter.code.clone(),
            error: filter.error.clone(),
            topic: filter.topic.clone(),
            event_type: filter.event_type.clone(),
            key: filter.key.clone(),
            since: filter.since,
            until: filter.until,
            after,
            rows: page.map_or(AGAIN_ROWS, Page::size),
            unclaimed: false,
        })
    }

    /// A question that no row answers: only for the time.
    pub(super) fn nothing() -> Self {
        Self { ids: vec![String::new()], rows: 1, ..Self::default() }
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

    pub(super) async fn search(&self, filter: &Filter, page: Page) -> Result<Found> {
        self.demand_lane(filter)?;
        let sql = self.sql().await?;
        let question = Question::of(filter, Some(&page))?;
        let rows = self.driver.find(&sql, &question).await?;
        let lane = self.lane(|lane, _| lane);
        let mut found = Found::default();
        if rows.len() == question.rows as usize {
            found.next = rows.last().map(|seen| page_end(&seen.raw));
        }
        let states = &D::shape(&sql).profile.states;
        let lane = filter.lane.as_ref().unwrap_or(&lane);
        let records = rows.into_iter().map(|seen| record(seen, states, lane, page.with_payload));
        found.records = records.collect();
        Ok(found)
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
    stats.retrying = Some(counted.retried);
    stats.oldest_waiting_at = counted.oldest_retried_at;
    tell_unknown(&mut stats, counted.unknown, counted.estimated.unknown);
    if counted.lacks_index {
        tell_unindexed(&mut stats);
    }
    let Estimated { open, delivered, dead, .. } = counted.estimated;
    stats.unread_is_estimate = open;
    let names = [
        (open || delivered || dead, "accepted"),
        (delivered, "delivered"),
        (open, "waiting"),
        (open, "retrying"),
        (dead, "dead"),
        (dead, "discarded"),
    ];
    stats.estimated =
        names.into_iter().filter_map(|(is_estimate, name)| is_estimate.then_some(name)).collect();
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

impl<D: Driver> Admin for Table<D> {
    /// A table has one lane.
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        Box::pin(async move { Ok(Lanes::page(vec![self.stats().await?], &page)) })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(self.search(filter, page))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(self.act(filter, command, by, pace))
    }
}
