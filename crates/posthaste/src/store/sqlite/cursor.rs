//! What one lease has read, handed out and not yet recorded: the part of the store that lives in memory.
//!
//! A claim and a settle may run at once. A claim copies what it needs *before* its snapshot begins, and a settle changes
//! these parts only *after* its commit: so whatever a claim does not find here, it finds in the file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_core::lane::{LaneSpec, OnDead, Order};
use posthaste_core::settled::SettledPrefix;
use posthaste_core::store::{Lease, Ticket};
use posthaste_core::{Error, Result};

/// Shards other than this come later; the column is there.
pub(super) const SHARD: i64 = 0;

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

/// A place in the log, and how many events of it this lease had handed out or set aside up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: i64,
    pub(super) taken: u64,
}

/// The reading position and everything between the place and it.
pub(super) struct Reading {
    /// Up to where the log was read.
    pub(super) read: i64,
    /// The place that is stored.
    pub(super) place: Place,
    /// Events of the log that were handed out or set aside, in their order.
    pub(super) prefix: SettledPrefix<Place>,
    taken: u64,
    /// Events of the log beyond the place that a parked row speaks for: they do not count when the place passes them.
    pub(super) aside: BTreeSet<i64>,
    /// How many rows may stay until the place has passed what was delivered from them.
    pub(super) done: i64,
    /// Parked events that are handed out, or that the next settle changes: claims pass over them.
    pub(super) out: Arc<HashSet<i64>>,
    /// What the next settle records although it was not handed out.
    pub(super) to_park: Vec<ToPark>,
    /// How often each key stands in `to_park` as behind.
    pub(super) keys_behind: Arc<HashMap<String, usize>>,
    /// Whether the last claim gave something to parked events.
    pub(super) parked_had_it: bool,
    /// A settle failed: what is here may not be what is stored.
    pub(super) is_broken: bool,
}

impl Reading {
    pub(super) fn from(position: i64, done: i64) -> Self {
        Self {
            read: position,
            place: Place { seq: position, taken: 0 },
            prefix: SettledPrefix::new(),
            taken: 0,
            aside: BTreeSet::new(),
            done,
            out: Arc::default(),
            to_park: Vec::new(),
            keys_behind: Arc::default(),
            parked_had_it: false,
            is_broken: false,
        }
    }

    /// An event of the log was handed out, or waits in `to_park`; the place cannot pass it before it is settled.
    pub(super) fn take(&mut self, seq: i64) {
        self.read_to(seq - 1);
        self.read = seq;
        self.taken += 1;
        self.prefix.handed(Ticket(seq), Place { seq, taken: self.taken });
    }

    /// The log was read up to here.
    pub(super) fn read_to(&mut self, seq: i64) {
        if seq > self.read {
            self.read = seq;
            self.prefix.passed(Place { seq, taken: self.taken });
        }
    }

    /// Moves the place over what is settled without a gap; answers how many acknowledged events it passed.
    pub(super) fn advance(&mut self) -> u64 {
        let Some(place) = self.prefix.advance() else { return 0 };
        let beyond = self.aside.split_off(&place.seq.saturating_add(1));
        let passed_aside = std::mem::replace(&mut self.aside, beyond).len() as u64;
        let taken = place.taken - self.place.taken;
        self.place = place;
        taken - passed_aside
    }
}

/// An event that a claim met and did not hand out.
pub(super) struct ToPark {
    pub(super) seq: i64,
    pub(super) why: Why,
    /// Whether it has a parked row already.
    pub(super) is_parked: bool,
}

/// Why it was not handed out.
pub(super) enum Why {
    /// Not before this time.
    Scheduled { at: i64 },
    /// An earlier event of this key is parked.
    Behind { key: String },
    /// It is not worth delivering any more.
    Expired,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledged_events_count_when_the_place_passes() {
        let mut reading = Reading::from(10, 0);
        [11, 12, 14].into_iter().for_each(|seq| reading.take(seq));
        reading.read_to(20);
        for seq in [12, 14] {
            reading.prefix.settle(Ticket(seq));
        }
        reading.aside.insert(12);
        assert_eq!((reading.advance(), reading.place.seq), (0, 10), "11 is out");
        reading.prefix.settle(Ticket(11));
        assert_eq!((reading.advance(), reading.place.seq), (2, 20), "12 is parked");
        reading.take(23);
        assert_eq!((reading.advance(), reading.place.seq), (0, 22), "what nobody wanted holds up nothing");
        reading.prefix.settle(Ticket(23));
        assert_eq!((reading.advance(), reading.place.seq), (1, 23));
        assert!(reading.aside.is_empty());
        reading.read_to(25);
        assert_eq!((reading.advance(), reading.place.seq), (0, 25), "nothing of it was wanted");
    }
}
