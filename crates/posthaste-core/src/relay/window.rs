//! What a lane holds in memory: events ready to be sent, and events that wait for an earlier one of their key; pure.
//!
//! ```text
//! take_in ──► ready ──► take_burst ──► (in flight) ──► answered ──► free the key: its next event becomes ready
//!     └──► waiting[key] ───────────────────────────────────────────────▲
//! ```
//!
//! With order per key, a key is *busy* from the moment one of its events is ready until that event is answered, so two
//! events of one key are never in flight at once.

use std::collections::{HashMap, VecDeque};

use crate::lane::Order;
use crate::store::{Claimed, Ticket};

pub(super) struct Window {
    order: Order,
    ready: VecDeque<Claimed>,
    /// Busy keys, each with the events that wait for it.
    busy: HashMap<String, VecDeque<Claimed>>,
    held: usize,
    held_bytes: u64,
    in_flight: usize,
}

impl Window {
    pub(super) fn new(order: Order) -> Self {
        Self { order, ready: VecDeque::new(), busy: HashMap::new(), held: 0, held_bytes: 0, in_flight: 0 }
    }

    /// Events in memory: ready, waiting or in flight.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Their bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The key by which this event is ordered, unless it stands outside the order.
    pub(super) fn ordering_key<'a>(&self, claimed: &'a Claimed) -> Option<&'a str> {
        match self.order {
            Order::PerKey if !claimed.parcel.outside_order => claimed.parcel.envelope.key.as_deref(),
            _ => None,
        }
    }

    /// Takes in an event that was claimed.
    pub(super) fn take_in(&mut self, claimed: Claimed) {
        self.held += 1;
        self.held_bytes += claimed.parcel.envelope.weight();
        let Some(key) = self.ordering_key(&claimed) else { return self.ready.push_back(claimed) };
        if let Some(waiting) = self.busy.get_mut(key) {
            waiting.push_back(claimed);
        } else {
            self.busy.insert(key.to_owned(), VecDeque::new());
            self.ready.push_back(claimed);
        }
    }

    /// Takes out at most so many ready events to send them.
    pub(super) fn take_burst(&mut self, events_max: usize) -> Vec<Claimed> {
        let burst: Vec<_> = self.ready.drain(..events_max.min(self.ready.len())).collect();
        self.in_flight += burst.len();
        burst
    }

    /// An event that was in flight was answered for good: it leaves, and its key's next event becomes ready.
    pub(super) fn leave(&mut self, claimed: &Claimed) {
        self.leave_key_busy(claimed);
        if let Some(key) = self.ordering_key(claimed) {
            self.free(key);
        }
    }

    /// Like [`leave`](Self::leave), but the key stays busy until it is freed.
    pub(super) fn leave_key_busy(&mut self, claimed: &Claimed) {
        self.forget(claimed);
        self.in_flight -= 1;
    }

    /// No event of this key is in flight any more: its next becomes ready.
    pub(super) fn free(&mut self, key: &str) {
        if let Some(waiting) = self.busy.get_mut(key) {
            match waiting.pop_front() {
                Some(next) => self.ready.push_back(next),
                None => {
                    self.busy.remove(key);
                }
            }
        }
    }

    /// An event that was in flight did not pass and is sent again later: first of all, its key stays busy.
    pub(super) fn put_back(&mut self, claimed: Claimed) {
        self.in_flight -= 1;
        self.ready.push_front(claimed);
    }

    /// Takes out the events that wait for this key's event in flight: that one is parked, and they go behind it.
    pub(super) fn take_waiting(&mut self, key: &str) -> Vec<Ticket> {
        let Some(waiting) = self.busy.get_mut(key) else { return Vec::new() };
        let waiting = std::mem::take(waiting);
        waiting.iter().for_each(|claimed| self.forget(claimed));
        waiting.iter().map(|claimed| claimed.ticket).collect()
    }

    /// Takes out everything that was not sent.
    pub(super) fn take_unsent(&mut self) -> Vec<Ticket> {
        let mut unsent: Vec<_> = self.ready.drain(..).collect();
        unsent.extend(self.busy.values_mut().flat_map(|waiting| waiting.drain(..)));
        unsent.iter().for_each(|claimed| self.forget(claimed));
        unsent.iter().map(|claimed| claimed.ticket).collect()
    }

    fn forget(&mut self, claimed: &Claimed) {
        self.held -= 1;
        self.held_bytes -= claimed.parcel.envelope.weight();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;
    use crate::store::Parcel;
    use crate::time::Timestamp;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn event(seq: i64, key: Option<&str>, replay: bool) -> Claimed {
        let mut envelope = Envelope::new("t", "x");
        envelope.key = key.map(str::to_owned);
        Claimed::new(Ticket(seq), Parcel::new(Arc::new(envelope), 1, replay, Timestamp::default()))
    }

    fn tickets(burst: &[Claimed]) -> Vec<i64> {
        burst.iter().map(|claimed| claimed.ticket.0).collect()
    }

    #[test]
    fn one_key_goes_one_by_one_and_others_pass() {
        let mut window = Window::new(Order::PerKey);
        for (seq, key) in [(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, None), (5, None)] {
            window.take_in(event(seq, key, false));
        }
        let burst = window.take_burst(10);
        assert_eq!(tickets(&burst), [1, 3, 4, 5]);
        window.leave(&burst[0]);
        assert_eq!(tickets(&window.take_burst(10)), [2]);
    }

    #[test]
    fn replays_and_unordered_lanes_wait_for_nobody() {
        let mut window = Window::new(Order::PerKey);
        window.take_in(event(1, Some("a"), false));
        window.take_in(event(2, Some("a"), true));
        assert_eq!(tickets(&window.take_burst(10)), [1, 2]);
        let mut window = Window::new(Order::None);
        window.take_in(event(1, Some("a"), false));
        window.take_in(event(2, Some("a"), false));
        assert_eq!(tickets(&window.take_burst(10)), [1, 2]);
    }

    #[test]
    fn a_replay_that_keeps_its_order_waits_for_its_key() {
        let mut window = Window::new(Order::PerKey);
        for seq in 1..=2 {
            let mut again = event(seq, Some("a"), true);
            again.parcel = again.parcel.in_order();
            window.take_in(again);
        }
        assert_eq!(tickets(&window.take_burst(10)), [1]);
    }

    #[test]
    fn what_is_put_back_is_sent_first_and_keeps_its_key() {
        let mut window = Window::new(Order::PerKey);
        (1..=3).for_each(|seq| window.take_in(event(seq, Some("a"), false)));
        let burst = window.take_burst(10);
        window.put_back(burst.into_iter().next().unwrap());
        assert_eq!(tickets(&window.take_burst(10)), [1]);
    }

    #[test]
    fn a_parked_head_takes_its_followers_with_it() {
        let mut window = Window::new(Order::PerKey);
        (1..=3).for_each(|seq| window.take_in(event(seq, Some("a"), false)));
        let burst = window.take_burst(10);
        assert_eq!(window.take_waiting("a"), [Ticket(2), Ticket(3)]);
        window.leave(&burst[0]);
        assert_eq!((window.held(), window.held_bytes(), window.in_flight()), (0, 0, 0));
        window.take_in(event(4, Some("a"), false));
        assert_eq!(window.ready(), 1, "the key is free again");
    }

    proptest! {
        /// Random arrivals and answers: order per key holds, two of one key are never out, and nothing is left over.
        #[test]
        fn order_holds_and_the_books_balance(keys in proptest::collection::vec(0_u8..4, 1..80), seed in any::<u64>()) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut window = Window::new(Order::PerKey);
            let mut arriving = keys.iter().enumerate().map(|(seq, key)| event(seq as i64, Some(&key.to_string()), false));
            let (mut out, mut sent): (Vec<Claimed>, Vec<(u8, i64)>) = (Vec::new(), Vec::new());
            loop {
                if rng.bool() && let Some(next) = arriving.next() {
                    window.take_in(next);
                }
                for claimed in window.take_burst(rng.usize(0..3)) {
                    let key = claimed.parcel.envelope.key.clone();
                    prop_assert!(out.iter().all(|other| other.parcel.envelope.key != key));
                    sent.push((keys[claimed.ticket.0 as usize], claimed.ticket.0));
                    out.push(claimed);
                }
                if !out.is_empty() && rng.bool() {
                    let answered = out.swap_remove(rng.usize(..out.len()));
                    window.leave(&answered);
                }
                if sent.len() == keys.len() && out.is_empty() {
                    break;
                }
            }
            for key in 0..4 {
                let order: Vec<_> = sent.iter().filter(|(k, _)| *k == key).map(|(_, seq)| *seq).collect();
                prop_assert!(order.is_sorted());
            }
            prop_assert_eq!((window.held(), window.held_bytes(), window.busy.len()), (0, 0, 0));
        }
    }
}
