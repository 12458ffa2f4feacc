//! What one lease has read, handed out and not yet recorded: the part of the store that lives in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_core::lane::{LaneSpec, OnDead, Order};
use posthaste_core::log::held::Held;
use posthaste_core::store::Lease;
use posthaste_core::{Error, Result};

/// What a lease carries.
pub(super) struct Cursor {
    pub(super) spec: LaneSpec,
    /// The run of the relay that took the lease.
    pub(super) run: String,
    pub(super) epoch: i64,
    reading: Mutex<Reading>,
}

impl Cursor {
    pub(super) fn new(spec: LaneSpec, run: String, epoch: i64, reading: Reading) -> Self {
        Self { spec, run, epoch, reading: Mutex::new(reading) }
    }

    /// The cursor of a lease that this kind of store gave out.
    pub(super) fn of(lease: &Lease) -> Result<Arc<Self>> {
        lease
            .cursor::<Arc<Self>>()
            .cloned()
            .ok_or_else(|| Error::config(format!("the lease on lane {} is of another store", lease.lane())))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Reading> {
        // After a panic in the middle of a change it is marked as broken, so what it holds does no harm.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lane(&self) -> &str {
        self.spec.name.as_str()
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.spec.order == Order::PerKey
    }

    pub(super) fn blocks_on_dead(&self) -> bool {
        self.spec.on_dead == OnDead::Block
    }
}

/// The reading position and everything between the place and it.
pub(super) struct Reading {
    /// Up to where the log was read.
    pub(super) read: i64,
    /// The place that is stored.
    pub(super) place: i64,
    /// How many rows may stay until the place has passed what was delivered from them.
    pub(super) done: i64,
    pub(super) held: Held<i64>,
}

impl Reading {
    pub(super) fn from(position: i64, done: i64) -> Self {
        Self { read: position, place: position, done, held: Held::new() }
    }

    /// An event of the log was handed out, or waits to be parked; the place cannot pass it before it is
    /// settled.
    pub(super) fn take(&mut self, seq: i64) {
        self.read_to(seq - 1);
        self.read = seq;
        self.held.taken(seq, seq);
    }

    /// The log was read up to here.
    pub(super) fn read_to(&mut self, seq: i64) {
        if seq > self.read {
            self.read = seq;
            self.held.passed(seq);
        }
    }

    /// Moves the place over what is settled without a gap; answers how many acknowledged events it passed.
    pub(super) fn advance(&mut self) -> u64 {
        let Some(advanced) = self.held.advance() else { return 0 };
        self.place = advanced.place;
        advanced.delivered
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::store::{Outcome, Settled, Ticket};

    use super::*;

    fn answer(reading: &mut Reading, outcomes: impl IntoIterator<Item = (i64, Outcome)>) -> u64 {
        let settled = outcomes.into_iter().map(|(seq, outcome)| Settled::new(Ticket(seq), outcome));
        reading.held.plan(settled.collect());
        reading.advance()
    }

    #[test]
    fn only_acknowledged_events_count_when_the_place_passes() {
        let mut reading = Reading::from(10, 0);
        [11, 12, 14].into_iter().for_each(|seq| reading.take(seq));
        reading.read_to(20);
        let some = [(12, Outcome::Behind), (14, Outcome::Delivered)];
        assert_eq!((answer(&mut reading, some), reading.place), (0, 10), "11 is out");
        let rest = [(11, Outcome::Delivered)];
        assert_eq!((answer(&mut reading, rest), reading.place), (2, 20), "12 is parked");
        reading.take(23);
        assert_eq!((reading.advance(), reading.place), (0, 22), "what nobody wanted holds up nothing");
        assert_eq!((answer(&mut reading, [(23, Outcome::Delivered)]), reading.place), (1, 23));
        reading.read_to(25);
        assert_eq!((reading.advance(), reading.place), (0, 25), "nothing of it was wanted");
    }
}
