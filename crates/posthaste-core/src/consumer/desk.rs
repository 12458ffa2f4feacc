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
/// gives the rest of its share back. One that is on trial goes to a worker when no other has anything, and until it is back
/// nobody gets anything.
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
    /// How many are at workers.
    working: usize,
    /// Whether the one that is at a worker is on trial.
    is_alone: bool,
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
        share.extend((0..count).map_while(|_| state.next()));
        !(state.closed && state.unsettled == 0)
    }

    /// Gives back what could not be handled soon, in front.
    pub(super) fn give_back(&self, share: &mut VecDeque<Delivery>) {
        if share.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.working -= share.len();
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
        let (settled, before) = (events.len(), state.ready.len());
        state.unsettled -= settled;
        for event in events.drain(..) {
            if self.by_key
                && let Some(key) = &event.key
            {
                state.free(key);
            }
        }
        let freed = state.left_worker(settled).max(state.ready.len() - before);
        let over = state.closed && state.unsettled == 0;
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
        let may_begin = state.left_worker(1);
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
        self.wake(may_begin);
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
    /// The next one for a worker. One that is on trial, and whatever is behind it, waits until everybody is done.
    fn next(&mut self) -> Option<Delivery> {
        let on_trial = self.ready.front()?.trial.is_some();
        if self.is_alone || (on_trial && self.working > 0) {
            return None;
        }
        self.is_alone = on_trial;
        self.working += 1;
        self.ready.pop_front()
    }

    /// So many are at no worker any more. Answers how many waited for that.
    fn left_worker(&mut self, count: usize) -> usize {
        self.working -= count;
        let on_trial_next = self.ready.front().is_some_and(|next| next.trial.is_some());
        if self.working > 0 || !(self.is_alone || on_trial_next) {
            return 0;
        }
        self.is_alone = false;
        self.ready.len()
    }

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::broker::{Count, Reason, Receipt, Trial};
    use crate::{BoxFuture, Result};

    struct Quiet;

    impl Receipt for Quiet {
        fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
            Box::pin(async { Ok(()) })
        }

        fn release(self: Box<Self>, _: Duration, _: Count) -> BoxFuture<'static, Result<()>> {
            Box::pin(async { Ok(()) })
        }

        fn bury(self: Box<Self>, _: Reason) -> BoxFuture<'static, Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Trial for Quiet {
        fn begin(&mut self) -> BoxFuture<'_, Result<u32>> {
            Box::pin(async { Ok(0) })
        }

        fn end(&mut self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// An event with this id, which is its key too; one with a question mark is on trial.
    fn delivery(id: &str) -> Delivery {
        let mut envelope = Envelope::new("t", "");
        envelope.id = id.to_owned();
        envelope.key = Some(id.to_owned());
        let delivery = Delivery::new(Arc::new(envelope), 1, Box::new(Quiet));
        if id.contains('?') { delivery.on_trial(Box::new(Quiet)) } else { delivery }
    }

    fn desk(ids: &[&str]) -> Desk {
        let desk = Desk::new(true, 100);
        desk.admit(ids.iter().map(|id| delivery(id)).collect());
        desk
    }

    fn take(desk: &Desk) -> VecDeque<Delivery> {
        let mut share = VecDeque::new();
        desk.take(&mut share, 10, 1);
        share
    }

    fn ids(share: &VecDeque<Delivery>) -> Vec<&str> {
        share.iter().map(|one| one.envelope.id.as_str()).collect()
    }

    fn settle(desk: &Desk, share: VecDeque<Delivery>) {
        desk.settled(&mut share.into_iter().map(|one| one.envelope).collect());
    }

    #[test]
    fn one_on_trial_is_at_a_worker_alone() {
        let desk = desk(&["a", "b", "c?", "d?", "e"]);
        let first = take(&desk);
        assert_eq!(ids(&first), ["a", "b"]);
        assert!(take(&desk).is_empty(), "others are at work");
        settle(&desk, first);
        for alone in ["c?", "d?"] {
            let one = take(&desk);
            assert_eq!(ids(&one), [alone]);
            assert!(take(&desk).is_empty(), "it is alone");
            settle(&desk, one);
        }
        assert_eq!(ids(&take(&desk)), ["e"]);
    }

    #[test]
    fn one_on_trial_that_is_held_or_given_back_lets_others_work() {
        let desk = desk(&["a?", "b", "c"]);
        let mut held = take(&desk);
        assert_eq!(ids(&held), ["a?"]);
        desk.hold(held.pop_front().unwrap(), Instant::now());
        let mut rest = take(&desk);
        assert_eq!(ids(&rest), ["b", "c"]);
        desk.ripen(Instant::now());
        assert!(take(&desk).is_empty(), "others are at work");
        let mut last = rest.split_off(1);
        settle(&desk, rest);
        desk.give_back(&mut last);
        assert_eq!(ids(&take(&desk)), ["c"], "it was given back in front");
    }

    #[tokio::test]
    async fn whoever_waits_for_one_on_trial_is_woken_when_it_is_done() {
        let desk = desk(&["a?", "b"]);
        let alone = take(&desk);
        // What was rung for the first two.
        desk.work_next().await;
        let mut woken = std::pin::pin!(desk.work_next());
        woken.as_mut().enable();
        settle(&desk, alone);
        tokio::time::timeout(Duration::from_secs(5), woken).await.unwrap();
        assert_eq!(ids(&take(&desk)), ["b"]);
    }
}
