//! What a consumer has fetched and not settled: who may be handled now, who waits for a key, who waits for a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::broker::Delivery;
use crate::envelope::{Envelope, KeyOf};

/// Hands deliveries to workers, never two of a key at once.
///
/// Workers take several at a time, so that the lock and the waking are paid once for many; one whose handler has to wait
/// gives the rest of its share back.
pub(super) struct Desk {
    state: Mutex<State>,
    /// Rings when there is something to take, or when nothing will come any more.
    work: Notify,
    /// Rings when something was settled.
    room: Notify,
    by_key: bool,
    limit: usize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Delivery>,
    /// Keys that have an event in `ready`, at a worker or in `held`, with what waits for it.
    keys: HashMap<KeyOf, VecDeque<Delivery>>,
    /// Deliveries that are tried again in this process, because the broker would not keep their key's order.
    held: BTreeMap<(Instant, u64), Delivery>,
    holds: u64,
    unsettled: usize,
    closed: bool,
}

impl Desk {
    /// A desk for at most `limit` unsettled deliveries.
    pub(super) fn new(by_key: bool, limit: usize) -> Self {
        Self { state: Mutex::default(), work: Notify::new(), room: Notify::new(), by_key, limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// How many more deliveries may be fetched.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.lock().unsettled)
    }

    pub(super) fn unsettled(&self) -> usize {
        self.lock().unsettled
    }

    /// Resolves when something was settled after this call.
    pub(super) fn settled_next(&self) -> Notified<'_> {
        self.room.notified()
    }

    /// Resolves when there may be work after this call.
    pub(super) fn work_next(&self) -> Notified<'_> {
        self.work.notified()
    }

    /// Takes in what was fetched.
    pub(super) fn admit(&self, deliveries: Vec<Delivery>) {
        let mut state = self.lock();
        state.unsettled += deliveries.len();
        for delivery in deliveries {
            if self.by_key && delivery.envelope.key.is_some() {
                state.admit_by_key(delivery);
            } else {
                state.ready.push_back(delivery);
            }
        }
        let ready = state.ready.len();
        drop(state);
        self.wake(ready);
    }

    /// Moves up to `most` deliveries that may be handled now into `share`; a fair part of what there is, unless all are
    /// wanted. Answers whether there can be more, now or later.
    pub(super) fn take(&self, share: &mut VecDeque<Delivery>, most: usize, workers: usize) -> bool {
        let mut state = self.lock();
        let fair = state.ready.len().div_ceil(workers.max(1));
        let count = fair.min(most).min(state.ready.len());
        share.extend(state.ready.drain(..count));
        !(state.closed && state.unsettled == 0)
    }

    /// Gives back what could not be handled soon, in front.
    pub(super) fn give_back(&self, share: &mut VecDeque<Delivery>) {
        if share.is_empty() {
            return;
        }
        let mut state = self.lock();
        while let Some(delivery) = share.pop_back() {
            state.ready.push_front(delivery);
        }
        let ready = state.ready.len();
        drop(state);
        self.wake(ready);
    }

    /// These were settled: their keys are free, and there is room.
    pub(super) fn settled(&self, events: &mut Vec<Arc<Envelope>>) {
        if events.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.unsettled -= events.len();
        let before = state.ready.len();
        for event in events.drain(..) {
            if self.by_key
                && let Some(key) = &event.key
            {
                state.free(key);
            }
        }
        let (freed, over) = (state.ready.len() - before, state.closed && state.unsettled == 0);
        drop(state);
        self.room.notify_one();
        if over {
            self.work.notify_waiters();
        }
        self.wake(freed);
    }

    /// Keeps this one, and with it its key, until this time. Once the desk is closed nobody waits for that: this one and what
    /// is behind it are answered instead, to be given back in this order.
    pub(super) fn hold(&self, delivery: Delivery, until: Instant) -> Vec<Delivery> {
        let mut state = self.lock();
        if state.closed {
            let key = delivery.envelope.key.clone().unwrap_or_default();
            let behind = state.keys.remove(key.as_str()).unwrap_or_default();
            let out: Vec<Delivery> = std::iter::once(delivery).chain(behind).collect();
            state.unsettled -= out.len();
            drop(state);
            self.work.notify_waiters();
            return out;
        }
        state.holds += 1;
        let number = state.holds;
        state.held.insert((until, number), delivery);
        drop(state);
        // Whoever watches the time learns of it.
        self.room.notify_one();
        Vec::new()
    }

    /// When the next held delivery is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().held.keys().next().map(|(due, _)| *due)
    }

    /// Makes everything that is due ready.
    pub(super) fn ripen(&self, now: Instant) {
        let mut state = self.lock();
        let later = state.held.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.held, later);
        let count = due.len();
        for (_, delivery) in due {
            state.ready.push_front(delivery);
        }
        drop(state);
        self.wake(count);
    }

    /// Nothing is fetched any more: workers end when all is settled. What is held for later is handed out, to be released.
    pub(super) fn close(&self) -> Vec<Delivery> {
        let mut state = self.lock();
        state.closed = true;
        let held: Vec<Delivery> = std::mem::take(&mut state.held).into_values().collect();
        let mut out = Vec::with_capacity(held.len());
        for delivery in held {
            // What waits for its key would come before it, so it is released too.
            let key = delivery.envelope.key.clone().unwrap_or_default();
            let behind = state.keys.remove(key.as_str()).unwrap_or_default();
            out.push(delivery);
            out.extend(behind);
        }
        state.unsettled -= out.len();
        drop(state);
        self.work.notify_waiters();
        out
    }

    /// Everything that no worker has begun.
    pub(super) fn clear(&self) -> Vec<Delivery> {
        let mut state = self.lock();
        let mut out: Vec<Delivery> = state.ready.drain(..).collect();
        out.extend(std::mem::take(&mut state.held).into_values());
        out.extend(std::mem::take(&mut state.keys).into_values().flatten());
        state.unsettled -= out.len().min(state.unsettled);
        out
    }

    fn wake(&self, count: usize) {
        // A worker that finds more than its share wakes the next one by leaving it; more calls than waiters do nothing.
        for _ in 0..count.min(WAKES_MAX) {
            self.work.notify_one();
        }
    }
}

/// Waking more workers at once than there are cores brings nothing.
const WAKES_MAX: usize = 16;

impl State {
    fn admit_by_key(&mut self, delivery: Delivery) {
        let key = delivery.envelope.key.as_deref().unwrap_or_default();
        if let Some(waiting) = self.keys.get_mut(key) {
            waiting.push_back(delivery);
        } else {
            self.keys.insert(KeyOf(Arc::clone(&delivery.envelope)), VecDeque::new());
            self.ready.push_back(delivery);
        }
    }

    fn free(&mut self, key: &str) {
        match self.keys.get_mut(key).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => {
                self.keys.remove(key);
            }
        }
    }
}
