//! The operator's look at the memory backend: lanes and events.

use super::Memory;
use super::state::{LaneRow, Parked, ParkedState, State, Stored};
use crate::admin::{
    Actor, Admin, Applied, Command, EventState, Facts, Filter, Found, LaneStats, LaneView, Lanes, Pace, Page,
    Record,
};
use crate::review::{AuditEntry, AuditFilter, AuditPicker, Audited, DeadCodes, Review};
use crate::time::Timestamp;
use crate::{BoxFuture, Error, Result};

impl Admin for Memory {
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        Box::pin(async move {
            let (state, now) = (self.lock(), self.now());
            let lanes = state.lanes.values().map(|lane| state.stats_of(lane, now));
            Ok(Lanes::page(lanes.collect(), &page))
        })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(async move { self.lock().find(filter, &page) })
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        _: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move {
            // It is one step under one lock, so that there is nothing between two steps.
            let applied = self.lock().apply(filter, &command, by, self.now())?;
            self.signal.ring();
            Ok(applied)
        })
    }
}

impl Review for Memory {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        Box::pin(async move {
            let mut picker = AuditPicker::new(filter, &page)?;
            let below = picker.below();
            let state = self.lock();
            for entry in state.audit.iter().rev().filter(|entry| entry.id < below) {
                if picker.see(entry.clone()).is_break() {
                    break;
                }
            }
            Ok(picker.picked())
        })
    }

    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let now = self.now();
            let mut state = self.lock();
            let id = state.audit.iter().map(|entry| entry.id).max().unwrap_or_default() + 1;
            state.audit.push(AuditEntry { id, at: now, ..entry.clone() });
            Ok(true)
        })
    }

    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        Box::pin(async move {
            let mut filter = DeadCodes::question(filter)?;
            filter.state = Some(EventState::Dead);
            let state = self.lock();
            state.check_lane(&filter)?;
            let meant = state.events.iter().filter(|(seq, stored)| state.matches(&filter, **seq, stored));
            let records: Vec<Record> =
                meant.map(|(seq, stored)| state.record_of(&filter, *seq, stored, false)).collect();
            Ok(DeadCodes::of(&filter, &records, false))
        })
    }
}

impl State {
    fn stats_of(&self, lane: &LaneRow, now: Timestamp) -> LaneStats {
        let count = |matches: &dyn Fn(ParkedState) -> bool| {
            lane.parked.values().filter(|row| matches(row.state)).count() as u64
        };
        let unread = || self.unread(lane);
        let mut stats = LaneStats::new(lane.spec.name.clone());
        stats.state = lane.state;
        stats.reason = lane.reason.clone();
        stats.owner = lane.owner.as_ref().filter(|_| lane.lease_until > now).map(|owner| owner.name.clone());
        stats.epoch = lane.epoch;
        // The largest number below which nothing is unread.
        stats.position = unread().next().map_or(self.last_seq, |(first, _)| first - 1);
        stats.unread = unread().count() as u64;
        stats.unread_is_estimate = stats.unread > 0;
        stats.accepted = lane.accepted;
        stats.delivered = lane.delivered;
        stats.waiting = count(&ParkedState::is_waiting);
        stats.dead = count(&|state| state == ParkedState::Dead);
        stats.discarded = lane.discarded;
        stats.replayed = lane.replayed;
        stats.oldest_unread_at = unread().next().map(|(_, stored)| stored.created_at);
        let has_failed = |row: &&Parked| row.state == ParkedState::Retrying && row.first_failed_at.is_some();
        stats.retrying = Some(lane.parked.values().filter(has_failed).count() as u64);
        let is_due = |row: &Parked| row.state.is_waiting() && row.state != ParkedState::Scheduled;
        let oldest =
            lane.parked.iter().find(|(_, row)| is_due(row)).and_then(|(seq, _)| self.events.get(seq));
        stats.oldest_waiting_at = oldest.map(|stored| stored.created_at);
        stats
    }

    /// What a lane has not read, whether it wants it or not.
    pub(super) fn unread(&self, lane: &LaneRow) -> impl Iterator<Item = (&i64, &Stored)> {
        self.events.iter().filter(move |(seq, _)| !lane.passed.contains(seq))
    }

    /// A lane that the filter names must be there.
    pub(super) fn check_lane(&self, filter: &Filter) -> Result<()> {
        match filter.lane.as_ref().filter(|name| !self.lanes.contains_key(*name)) {
            Some(name) => Err(Error::not_found(format!("there is no lane {name}"))),
            None => Ok(()),
        }
    }

    fn find(&self, filter: &Filter, page: &Page) -> Result<Found> {
        let below = match &page.after {
            Some(token) => token
                .parse()
                .map_err(|_| Error::rejected(format!("{token:?} is not a page of this store")))?,
            None => i64::MAX,
        };
        self.check_lane(filter)?;
        let size = page.size() as usize;
        let mut found = Found::default();
        for (&seq, stored) in self.events.range(..below).rev() {
            if !self.matches(filter, seq, stored) {
                continue;
            }
            if found.records.len() == size {
                found.next = found.records.last().map(|record: &Record| record.seq.to_string());
                break;
            }
            found.records.push(self.record_of(filter, seq, stored, page.with_payload));
        }
        Ok(found)
    }

    fn record_of(&self, filter: &Filter, seq: i64, stored: &Stored, with_payload: bool) -> Record {
        let mut envelope = (*stored.envelope).clone();
        let bytes = (!stored.erased).then_some(envelope.payload.len() as u64);
        if !with_payload {
            envelope.payload.clear();
        }
        let mut record = Record::new(seq, envelope, bytes, stored.created_at);
        record.lanes = self.views(filter, seq, stored);
        record
    }

    /// How the lanes that want this event see it; only the filter's lane, where one is named.
    fn views(&self, filter: &Filter, seq: i64, stored: &Stored) -> Vec<LaneView> {
        let named = |lane: &&LaneRow| filter.lane.as_ref().is_none_or(|name| *name == lane.spec.name);
        let wants =
            |lane: &&LaneRow| lane.spec.wants(&stored.envelope.topic) || lane.parked.contains_key(&seq);
        self.lanes.values().filter(named).filter(wants).map(|lane| lane.record_view(seq)).collect()
    }

    /// Whether an event is what the filter means.
    pub(super) fn matches(&self, filter: &Filter, seq: i64, stored: &Stored) -> bool {
        let itself = filter.means(&Facts::of(&stored.envelope, stored.created_at));
        let in_a_lane = || self.views(filter, seq, stored).iter().any(|view| filter.fits(view));
        itself && (!filter.asks_a_lane() || in_a_lane())
    }
}

impl LaneRow {
    fn record_view(&self, seq: i64) -> LaneView {
        let mut view = LaneView::new(self.spec.name.clone(), self.view_of(seq));
        if let Some(row) = self.parked.get(&seq).filter(|row| row.state != ParkedState::Done) {
            view.attempts = row.attempts;
            view.available_at = row.available_at;
            view.code = row.code.clone();
            view.last_error = row.last_error.clone();
            view.first_failed_at = row.first_failed_at;
            view.dead_at = row.dead_at;
            view.replay = row.replay;
        }
        view
    }
}
