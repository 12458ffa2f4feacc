//! Everything the memory backend holds, and the facts that follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::claim::Cursor;
use crate::admin::{Actor, Applied, EventState, LaneState};
use crate::envelope::Envelope;
use crate::lane::{LaneName, LaneSpec, OnDead, Order, Start};
use crate::review::{AuditEntry, REDEFINE};
use crate::store::{Lease, Owner};
use crate::time::{Moment, Timestamp};

/// The log, the lanes, and what operators did.
#[derive(Default)]
pub(super) struct State {
    /// The last number that was taken, by whoever, committed or not.
    pub(super) last_seq: i64,
    /// The log: committed events only.
    pub(super) events: BTreeMap<i64, Stored>,
    pub(super) lanes: BTreeMap<LaneName, LaneRow>,
    /// No new lane begins below it, so that a lease on a removed lane is lost also when a lane of that name is made anew.
    pub(super) epoch_floor: i64,
    pub(super) audit: Vec<AuditEntry>,
    pub(super) keys: BTreeMap<[u8; 32], String>,
    /// Which events which consumer has handled, and when.
    pub(super) inbox: std::collections::HashMap<super::statement::InboxRow, Timestamp>,
}

/// One event of the log, its moments resolved.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) envelope: Arc<Envelope>,
    pub(super) created_at: Timestamp,
    pub(super) erased: bool,
}

impl Stored {
    /// The event as the store takes it in at `now`: moments become times, and it has happened now unless it says when.
    pub(super) fn taken_in(mut envelope: Envelope, now: Timestamp) -> Self {
        envelope.available = envelope.available.map(|moment| Moment::At(moment.resolve(now)));
        envelope.expires = envelope.expires.map(|moment| Moment::At(moment.resolve(now)));
        envelope.occurred_at = envelope.occurred_at.or(Some(now));
        Self { envelope: Arc::new(envelope), created_at: now, erased: false }
    }

    /// When its producer wants it delivered, if not at once.
    pub(super) fn available_at(&self) -> Option<Timestamp> {
        self.envelope.available.map(|moment| moment.resolve(self.created_at))
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.envelope.expires.is_some_and(|moment| moment.resolve(self.created_at) <= now)
    }
}

/// One lane: who drives it, its place, its totals, and what it has parked.
pub(super) struct LaneRow {
    pub(super) spec: LaneSpec,
    pub(super) owner: Option<Owner>,
    pub(super) epoch: i64,
    pub(super) lease_until: Timestamp,
    /// The run of a relay that should have the lane, and until when it is promised to it.
    pub(super) wanted: Option<(String, Timestamp)>,
    pub(super) stumbles: u32,
    pub(super) state: LaneState,
    pub(super) reason: Option<String>,
    /// The place: everything this lane has handed over, or will never hand out from the log again.
    pub(super) passed: BTreeSet<i64>,
    pub(super) parked: BTreeMap<i64, Parked>,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) discarded: u64,
    pub(super) replayed: u64,
}

impl LaneRow {
    fn new(spec: LaneSpec, epoch: i64, passed: BTreeSet<i64>) -> Self {
        Self {
            spec,
            owner: None,
            epoch,
            lease_until: Timestamp::default(),
            wanted: None,
            stumbles: 0,
            state: LaneState::Active,
            reason: None,
            passed,
            parked: BTreeMap::new(),
            accepted: 0,
            delivered: 0,
            discarded: 0,
            replayed: 0,
        }
    }

    /// Whether this owner may take the lane now.
    fn is_free(&self, owner: &Owner, now: Timestamp) -> bool {
        let stops = matches!(self.state, LaneState::Paused | LaneState::Retired | LaneState::Error);
        let promised = self.promised(now).is_some_and(|run| run != owner.run);
        let Some(held_by) = &self.owner else { return !stops && !promised };
        let ended = self.lease_until <= now;
        // No lease was ever that long: the clock went back, and nobody would take over for as long as it did.
        let absurd = self.lease_until > now.after(self.spec.lease * 2);
        !stops && (((ended || absurd) && !promised) || held_by.run == owner.run)
    }

    /// The run of the relay to which the lane is promised.
    fn promised(&self, now: Timestamp) -> Option<&str> {
        self.wanted.as_ref().filter(|(_, until)| *until > now).map(|(run, _)| run.as_str())
    }

    /// Whether somebody else than its owner should have the lane.
    pub(super) fn is_wanted(&self, now: Timestamp) -> bool {
        let owner = self.owner.as_ref().map(|owner| owner.run.as_str());
        self.promised(now).is_some_and(|run| Some(run) != owner)
    }

    /// The run of the relay that has the lane, or will when what is promised is kept.
    fn heir(&self, now: Timestamp) -> Option<&str> {
        let owner = self.owner.as_ref().filter(|_| self.lease_until > now);
        self.promised(now).or(owner.map(|owner| owner.run.as_str()))
    }

    /// Whether the lease with this epoch, taken by this run of a relay, still has the lane.
    pub(super) fn is_held_by(&self, epoch: i64, run: &str) -> bool {
        self.epoch == epoch && self.owner.as_ref().is_some_and(|owner| owner.run == run)
    }

    /// Ends whoever drives the lane: what it settles from now on is lost.
    pub(super) fn fence(&mut self) {
        self.owner = None;
        self.epoch += 1;
    }

    /// Whether an earlier event of this key stands in the way of the event with this number.
    pub(super) fn is_held_back(&self, seq: i64, key: Option<&str>) -> bool {
        self.spec.order == Order::PerKey
            && key.is_some()
            && self
                .parked
                .range(..seq)
                .any(|(_, row)| row.key.as_deref() == key && row.holds(self.spec.on_dead))
    }

    /// Nobody is behind nobody: who waits behind its key and has no reason to, is due now.
    pub(super) fn promote(&mut self, now: Timestamp) {
        let behind = self.parked.iter().filter(|(_, row)| row.state == ParkedState::Behind);
        let free: Vec<i64> = behind
            .filter(|(seq, row)| !self.is_held_back(**seq, row.key.as_deref()))
            .map(|(seq, _)| *seq)
            .collect();
        for seq in free {
            let row = self.parked.get_mut(&seq).expect("it was there a moment ago");
            row.state = ParkedState::Retrying;
            row.available_at = Some(now);
        }
    }

    /// Forgets what was delivered from its row, now that the place has passed it.
    pub(super) fn forget_done(&mut self) {
        let passed = &self.passed;
        self.parked.retain(|seq, row| row.state != ParkedState::Done || !passed.contains(seq));
    }

    /// Forgets all that was delivered beyond the place: the log hands it out again.
    pub(super) fn forget_all_done(&mut self) {
        self.parked.retain(|_, row| row.state != ParkedState::Done);
    }

    /// An operator moved the lane past so many events that it wanted and had not read: they are taken in and given up.
    pub(super) fn give_up_unread(&mut self, events: u64) {
        self.accepted += events;
        self.discarded += events;
    }

    /// How this lane sees an event of the log that it wants.
    pub(super) fn view_of(&self, seq: i64) -> EventState {
        match self.parked.get(&seq) {
            Some(row) => row.state.seen(),
            None if self.passed.contains(&seq) => EventState::Delivered,
            None => EventState::Pending,
        }
    }
}

/// An event set aside in a lane.
#[derive(Clone)]
pub(super) struct Parked {
    pub(super) key: Option<String>,
    pub(super) state: ParkedState,
    pub(super) attempts: u32,
    pub(super) available_at: Option<Timestamp>,
    pub(super) code: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) first_failed_at: Option<Timestamp>,
    pub(super) dead_at: Option<Timestamp>,
    pub(super) replay: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkedState {
    Retrying,
    Scheduled,
    Behind,
    /// Sent long ago and not answered, by the lease with this epoch.
    Leased(i64),
    Dead,
    Discarded,
    /// Delivered, but the place has not passed it: the row keeps the log from handing it out again.
    Done,
}

impl ParkedState {
    /// Whether it may still be delivered without an operator.
    pub(super) fn is_waiting(self) -> bool {
        !matches!(self, Self::Dead | Self::Discarded | Self::Done)
    }

    fn seen(self) -> EventState {
        match self {
            Self::Retrying => EventState::Retrying,
            Self::Scheduled => EventState::Scheduled,
            Self::Behind => EventState::Behind,
            Self::Leased(_) => EventState::Delivering,
            Self::Dead => EventState::Dead,
            Self::Discarded => EventState::Discarded,
            Self::Done => EventState::Delivered,
        }
    }
}

impl Parked {
    pub(super) fn new(key: Option<String>, state: ParkedState, available_at: Option<Timestamp>) -> Self {
        Self {
            key,
            state,
            attempts: 0,
            available_at,
            code: None,
            last_error: None,
            first_failed_at: None,
            dead_at: None,
            replay: false,
        }
    }

    /// Whether later events of its key wait for it. Scheduled, redriven and replayed events stand outside the order.
    pub(super) fn holds(&self, on_dead: OnDead) -> bool {
        let holds = match self.state {
            ParkedState::Retrying | ParkedState::Behind | ParkedState::Leased(_) => true,
            ParkedState::Dead => on_dead == OnDead::Block,
            ParkedState::Scheduled | ParkedState::Discarded | ParkedState::Done => false,
        };
        holds && !self.replay
    }

    /// Given up, with a record.
    pub(super) fn discard(&mut self, code: &str, reason: &str, now: Timestamp) {
        self.state = ParkedState::Discarded;
        self.available_at = None;
        self.code = Some(code.to_owned());
        self.last_error = Some(reason.to_owned());
        self.dead_at = Some(now);
    }
}

impl State {
    /// Takes the next number of the log.
    pub(super) fn take_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// The committed event with this source and id.
    pub(super) fn with_identity(&self, source: &str, id: &str) -> Option<&Stored> {
        self.events.values().find(|stored| stored.envelope.source == source && stored.envelope.id == id)
    }

    /// The events taken in before this time.
    pub(super) fn before(&self, at: Timestamp) -> BTreeSet<i64> {
        self.events.iter().take_while(|(_, stored)| stored.created_at < at).map(|(seq, _)| *seq).collect()
    }

    pub(super) fn acquire(&mut self, spec: &LaneSpec, owner: &Owner, now: Timestamp) -> Option<Lease> {
        if !self.lanes.contains_key(&spec.name) {
            let passed = match spec.start {
                Start::Beginning => BTreeSet::new(),
                Start::Now => self.events.keys().copied().collect(),
                Start::At(at) => self.before(at),
            };
            self.lanes.insert(spec.name.clone(), LaneRow::new(spec.clone(), self.epoch_floor, passed));
        }
        if !self.lanes[&spec.name].is_free(owner, now) {
            self.want(spec, owner, now);
            return None;
        }
        let lane = self.lanes.get_mut(&spec.name).expect("it was made above if it was not there");
        // The last owner may have been ended by what it delivered; not if it had nothing to deliver, or nobody to take it.
        let is_due =
            |parked: &Parked| parked.state.is_waiting() && parked.available_at.is_some_and(|at| at <= now);
        let had_work =
            self.events.keys().any(|seq| !lane.passed.contains(seq)) || lane.parked.values().any(is_due);
        let is_stumble = lane.owner.is_some() && lane.state == LaneState::Active && had_work;
        lane.stumbles = if is_stumble { lane.stumbles + 1 } else { 1 };
        let is_redefined = (&lane.spec.topics, lane.spec.order, lane.spec.on_dead)
            != (&spec.topics, spec.order, spec.on_dead);
        lane.spec = spec.clone();
        lane.owner = Some(owner.clone());
        lane.wanted = lane.wanted.take().filter(|(run, _)| *run != owner.run);
        lane.epoch += 1;
        lane.lease_until = now.after(spec.lease);
        // The lane's order may have changed with its spec.
        lane.promote(now);
        let cursor = std::sync::Mutex::new(Cursor::new(owner.run.clone()));
        let lease =
            Lease::new(spec.name.clone(), lane.epoch, spec.lease, cursor).with_stumbles(lane.stumbles);
        if is_redefined {
            let (by, what) = (Actor::new(&owner.name, "relay"), json!({ "lane": spec.name.as_str() }));
            self.write_down(now, by, REDEFINE, what.to_string(), Applied::new(1, 1));
        }
        Some(lease)
    }

    /// Promises the lane to this owner if its holder drives at least two more.
    fn want(&mut self, spec: &LaneSpec, owner: &Owner, now: Timestamp) {
        let lane = &self.lanes[&spec.name];
        let Some(holder) = lane.heir(now).filter(|_| owner.stays && lane.promised(now).is_none()) else {
            return;
        };
        let count = |run: &str| self.lanes.values().filter(|lane| lane.heir(now) == Some(run)).count();
        if count(holder) >= count(&owner.run) + 2 {
            let lane = self.lanes.get_mut(&spec.name).expect("it was there a moment ago");
            lane.wanted = Some((owner.run.clone(), now.after(spec.lease)));
        }
    }
}
