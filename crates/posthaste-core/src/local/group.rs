//! What a group has not settled.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::PAUSE_MAX;
use crate::broker::FeedSpec;
use crate::envelope::{Envelope, KeyOf};
use crate::lane::Order;
use crate::pattern::Pattern;
use crate::time::Timestamp;

/// One event in one group.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) envelope: Arc<Envelope>,
    pub(super) seq: i64,
    pub(super) attempt: u32,
    pub(super) weight: u64,
    pub(super) taken_in_at: Timestamp,
    pub(super) first_failed_at: Option<Timestamp>,
    /// Redriven or replayed: it stands outside its key's order.
    pub(super) replay: bool,
    pub(super) expires_at: Option<Timestamp>,
}

pub(super) struct Group {
    name: String,
    order: Order,
    topics: RwLock<Vec<Pattern>>,
    state: Mutex<State>,
    members: Mutex<Vec<Arc<Member>>>,
}

/// A feed of the group.
pub(super) struct Member {
    pub(super) wake: Notify,
    /// What it has and did not settle.
    pub(super) outstanding: AtomicUsize,
    pub(super) prefetch: usize,
}

#[derive(Default)]
pub(super) struct State {
    ready: VecDeque<Entry>,
    /// Keys that have an event in `ready`, at a member or retrying, with what waits behind it.
    keys: HashMap<KeyOf, VecDeque<Entry>>,
    /// Retrying and scheduled events by their time; `true`: it holds its key already.
    later: BTreeMap<(Instant, i64), (Entry, bool)>,
    pub(super) events: usize,
    pub(super) bytes: u64,
    pub(super) totals: Totals,
}

/// They add up: `accepted = delivered + events + dead + discarded`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) dead: u64,
    pub(super) discarded: u64,
    pub(super) replayed: u64,
}

/// How an entry was settled.
pub(super) enum End {
    Delivered,
    Dead,
}

impl Group {
    pub(super) fn new(spec: &FeedSpec) -> Self {
        Self {
            name: spec.group.clone(),
            order: spec.order,
            topics: RwLock::new(spec.topics.clone()),
            state: Mutex::default(),
            members: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    pub(super) fn add_topics(&self, more: &[Pattern]) {
        let mut topics = self.topics.write().expect("nobody panics while holding it");
        for topic in more {
            if !topics.contains(topic) {
                topics.push(topic.clone());
            }
        }
    }

    pub(super) fn wants(&self, topic: &str) -> bool {
        let topics = self.topics.read().expect("nobody panics while holding it");
        topics.iter().any(|pattern| pattern.matches(topic))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    pub(super) fn unsettled(&self) -> usize {
        self.lock().events
    }

    pub(super) fn is_drained(&self) -> bool {
        self.unsettled() == 0
    }

    /// Whether nobody reads it.
    pub(super) fn is_deserted(&self) -> bool {
        self.members().is_empty()
    }

    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().expect("nobody panics while holding it")
    }

    pub(super) fn enter(&self, member: &Arc<Member>) {
        self.members().push(Arc::clone(member));
    }

    pub(super) fn leave(&self, member: &Arc<Member>) {
        self.members().retain(|other| !Arc::ptr_eq(other, member));
    }

    pub(super) fn wake_all(&self) {
        for member in self.members().iter() {
            member.wake.notify_one();
        }
    }

    /// Takes an event in; `after` a time, where it is scheduled.
    pub(super) fn admit(&self, state: &mut State, entry: Entry, after: Option<Duration>) {
        state.events += 1;
        state.bytes += entry.weight;
        state.totals.accepted += 1;
        match after {
            Some(pause) => {
                let due = Instant::now() + pause.min(PAUSE_MAX);
                state.later.insert((due, entry.seq), (entry, false));
            }
            None => self.queue(state, entry),
        }
    }

    /// Puts an entry where it can be taken, or behind its key.
    fn queue(&self, state: &mut State, entry: Entry) {
        if !self.keeps_key(&entry) {
            state.ready.push_back(entry);
            return;
        }
        let key = entry.envelope.key.as_deref().unwrap_or_default();
        match state.keys.get_mut(key) {
            Some(behind) => behind.push_back(entry),
            None => {
                state.keys.insert(KeyOf(Arc::clone(&entry.envelope)), VecDeque::new());
                state.ready.push_back(entry);
            }
        }
    }

    fn keeps_key(&self, entry: &Entry) -> bool {
        self.order == Order::PerKey && !entry.replay && entry.envelope.key.is_some()
    }

    /// Takes up to `most` entries that may be handed out at `now`, and says when the next one is due.
    pub(super) fn take(&self, most: usize, now: Instant) -> (Vec<Entry>, Option<Instant>) {
        let mut state = self.lock();
        while let Some(first) = state.later.first_entry()
            && first.key().0 <= now
        {
            match first.remove() {
                (entry, true) => state.ready.push_front(entry),
                (entry, false) => self.queue(&mut state, entry),
            }
        }
        let count = most.min(state.ready.len());
        let taken = state.ready.drain(..count).collect();
        (taken, state.later.keys().next().map(|(due, _)| *due))
    }

    /// An entry is over: its key's next one may go.
    pub(super) fn settle(&self, entry: &Entry, end: &End) {
        let mut state = self.lock();
        match end {
            End::Delivered => state.totals.delivered += 1,
            End::Dead => state.totals.dead += 1,
        }
        self.forget(&mut state, entry);
    }

    /// It expired before it was handed out.
    pub(super) fn discard(&self, entry: &Entry) {
        let mut state = self.lock();
        state.totals.discarded += 1;
        self.forget(&mut state, entry);
    }

    fn forget(&self, state: &mut State, entry: &Entry) {
        state.events -= 1;
        state.bytes -= entry.weight;
        if self.keeps_key(entry) {
            let key = entry.envelope.key.as_deref().unwrap_or_default();
            match state.keys.get_mut(key).and_then(VecDeque::pop_front) {
                Some(next) => state.ready.push_back(next),
                None => {
                    state.keys.remove(key);
                }
            }
        }
    }

    /// An entry comes back, and with it its key stays held.
    pub(super) fn give_back(&self, entry: Entry, after: Duration) {
        let mut state = self.lock();
        if after.is_zero() {
            state.ready.push_front(entry);
        } else {
            let due = Instant::now() + after.min(PAUSE_MAX);
            state.later.insert((due, entry.seq), (entry, true));
        }
    }

    /// A dead entry is tried once more, from the beginning and outside its key's order.
    pub(super) fn redrive(&self, entry: Entry) {
        let mut state = self.lock();
        state.events += 1;
        state.bytes += entry.weight;
        state.totals.dead -= 1;
        state.totals.replayed += 1;
        state.ready.push_back(entry);
        drop(state);
        self.wake_all();
    }

    /// A dead entry is given up.
    pub(super) fn give_up_dead(&self) {
        let mut state = self.lock();
        state.totals.dead -= 1;
        state.totals.discarded += 1;
    }
}

impl State {
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

impl Member {
    pub(super) fn new(prefetch: u32) -> Arc<Self> {
        let prefetch = prefetch.max(1) as usize;
        Arc::new(Self { wake: Notify::new(), outstanding: AtomicUsize::new(0), prefetch })
    }

    pub(super) fn room(&self) -> usize {
        self.prefetch.saturating_sub(self.outstanding.load(Ordering::Acquire))
    }
}
