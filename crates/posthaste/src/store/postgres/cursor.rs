//! What one lease has read, handed out and not yet recorded: the part of the store that lives in memory.
//!
//! A lane's row says: everything that `tick_a` sees is settled, and, where `tick_b` is set, also what
//! `tick_b` sees up to the number `position`. What one tick sees and an earlier one does not is a window: a
//! fixed set, whatever commits meanwhile. It is read in the order of its numbers: first what committed late,
//! by transaction and number (`window_begin.sql`), then what is new, by primary key in pages
//! (`window_page.sql`). The lease reads on in the next window while the last one is not settled.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_core::lane::{LaneSpec, OnDead, Order};
use posthaste_core::log::held::Held;
use posthaste_core::store::Lease;
use posthaste_core::{Error, Result};

use super::peek::Peek;
use super::probe::Probe;
use super::rhythm::Rhythm;
use super::tick::Tick;

/// The number of a place that stands at the end of its window.
const END: i64 = i64::MAX;

/// What a lease carries.
pub(super) struct Cursor {
    pub(super) spec: LaneSpec,
    /// The run of the relay that took the lease.
    pub(super) run: String,
    pub(super) epoch: i64,
    reading: Mutex<Reading>,
    pub(super) probe: Probe,
    pub(super) rhythm: Rhythm,
    pub(super) peek: Peek,
    /// One claim at a time, and one settle.
    pub(super) claiming: tokio::sync::Mutex<()>,
    pub(super) settling: tokio::sync::Mutex<()>,
}

impl Cursor {
    pub(super) fn new(spec: LaneSpec, run: String, epoch: i64, reading: Reading) -> Self {
        let (claiming, settling) = Default::default();
        let (reading, probe, rhythm) = (Mutex::new(reading), Probe::new(), Rhythm::new());
        Self { spec, run, epoch, reading, probe, rhythm, peek: Peek::new(), claiming, settling }
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

/// What tick `b` sees and tick `a` does not: a fixed set, whatever commits meanwhile.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) a: Arc<Tick>,
    pub(super) b: Arc<Tick>,
}

/// A place as the lane's row says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredPlace {
    pub(super) tick_a: i64,
    pub(super) tick_b: Option<i64>,
    pub(super) position: i64,
}

impl StoredPlace {
    /// Everything that this tick sees is settled.
    pub(super) fn at(tick: i64) -> Self {
        Self { tick_a: tick, tick_b: None, position: 0 }
    }
}

/// A place in this lease: the index of the window, and the number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    window: u64,
    seq: i64,
}

/// The reading position and everything between the place and it.
pub(super) struct Reading {
    /// From the place's window to the one that is read.
    windows: VecDeque<Arc<Window>>,
    /// The how-manieth window of this lease is the first of them.
    first: u64,
    /// Where the last window was read up to; `None`: it was read to its end, or there is none.
    pub(super) read: Option<i64>,
    /// The newest tick that a window ends at.
    pub(super) newest: Arc<Tick>,
    /// The place in the lane's row, and the one that the next settle puts there.
    pub(super) stored: StoredPlace,
    pub(super) reached: StoredPlace,
    place: Place,
    pub(super) held: Held<Place>,
    /// Events beyond the place that were delivered from their row: that stays until the place has passed them.
    pub(super) done: HashSet<i64>,
    /// Whether the last claim found something parked. Only a hint: it spares a claim that would have to be made again.
    pub(super) has_parked: bool,
}

impl Reading {
    /// From a stored place: between two ticks, or at one.
    pub(super) fn from(a: Arc<Tick>, b: Option<Arc<Tick>>, position: i64) -> Self {
        let stored = StoredPlace { tick_a: a.id, tick_b: b.as_ref().map(|b| b.id), position };
        let newest = Arc::clone(b.as_ref().unwrap_or(&a));
        let read = b.is_some().then_some(position);
        let windows = b.into_iter().map(|b| Arc::new(Window { a: Arc::clone(&a), b })).collect();
        Self {
            windows,
            first: 0,
            read,
            newest,
            stored,
            reached: stored,
            place: Place { window: 0, seq: position },
            held: Held::new(),
            done: HashSet::new(),
            has_parked: false,
        }
    }

    /// The window that is read, and up to where; `None`: the next begins with a new tick.
    pub(super) fn window(&self) -> Option<(Arc<Window>, i64)> {
        Some((Arc::clone(self.windows.back()?), self.read?))
    }

    /// Begins to read the window from the newest tick to this one.
    pub(super) fn open(&mut self, window: Arc<Window>) {
        self.newest = Arc::clone(&window.b);
        self.windows.push_back(window);
        self.read = Some(0);
    }

    fn here(&self, seq: i64) -> Place {
        Place { window: self.first + self.windows.len() as u64 - 1, seq }
    }

    /// An event of the window was handed out, or waits to be parked; the place cannot pass it before it is
    /// settled.
    pub(super) fn take(&mut self, seq: i64) {
        self.read_to(seq - 1);
        self.read = Some(seq);
        self.held.taken(seq, self.here(seq));
    }

    /// The window was read up to here.
    pub(super) fn read_to(&mut self, seq: i64) {
        if self.read.is_some_and(|read| seq > read) {
            self.read = Some(seq);
            self.held.passed(self.here(seq));
        }
    }

    /// The window was read to its end.
    pub(super) fn end_window(&mut self) {
        if self.read.take().is_some() {
            self.held.passed(self.here(END));
        }
    }

    /// Moves the place over what is settled without a gap.
    pub(super) fn advance(&mut self) -> Passed {
        let Some(advanced) = self.held.advance() else { return Passed::default() };
        self.place = advanced.place;
        if let Some(window) = self.window_index().and_then(|index| self.windows.get(index)) {
            self.reached = match self.place.seq {
                END => StoredPlace::at(window.b.id),
                position => StoredPlace { tick_a: window.a.id, tick_b: Some(window.b.id), position },
            };
        }
        let delivered = i64::try_from(advanced.delivered).unwrap_or(i64::MAX);
        Passed { delivered, done: advanced.parked.into_iter().filter(|seq| self.done.remove(seq)).collect() }
    }

    /// Where the place's window is among those that are kept; `None`: it was stored and left.
    fn window_index(&self) -> Option<usize> {
        self.place.window.checked_sub(self.first).and_then(|index| usize::try_from(index).ok())
    }

    /// The ticks between which the place moves: a settle holds only on a server that has them all.
    pub(super) fn ticks(&self) -> (Vec<i64>, Vec<String>) {
        let begin = self.windows.front().map_or(&self.newest, |window| &window.a);
        let passed = self.window_index().map_or(0, |index| index + 1);
        let ends = self.windows.iter().take(passed).map(|window| &window.b);
        std::iter::once(begin).chain(ends).map(|tick| (tick.id, tick.token.clone())).unzip()
    }

    /// What was reached is stored: windows before it are not needed any more.
    pub(super) fn is_stored(&mut self, reached: StoredPlace) {
        self.stored = reached;
        let Some(index) = self.window_index() else { return };
        let passed = if self.place.seq == END { index + 1 } else { index }.min(self.windows.len());
        self.windows.drain(..passed);
        self.first += passed as u64;
    }
}

/// What the place passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// How many events that were acknowledged and never parked.
    pub(super) delivered: i64,
    /// Events that were delivered from their row, which may go.
    pub(super) done: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use posthaste_core::store::{Outcome, Settled, Ticket};

    use super::super::snapshot::Snapshot;
    use super::*;

    fn tick(id: i64) -> Arc<Tick> {
        let text = format!("{0}:{0}:", 10 + id);
        let snapshot = Snapshot::parse(&text).unwrap();
        Arc::new(Tick { id, token: format!("t{id}"), text, snapshot, low: 0 })
    }

    fn settle(reading: &mut Reading, seq: i64, outcome: Outcome) {
        reading.held.plan(vec![Settled::new(Ticket(seq), outcome)]);
    }

    #[test]
    fn the_place_moves_through_windows_over_what_is_settled() {
        let mut reading = Reading::from(tick(0), None, 0);
        assert_eq!((reading.advance().delivered, reading.reached), (0, StoredPlace::at(0)));
        reading.open(Arc::new(Window { a: tick(0), b: tick(1) }));
        [5, 6].into_iter().for_each(|seq| reading.take(seq));
        reading.end_window();
        reading.open(Arc::new(Window { a: tick(1), b: tick(4) }));
        reading.take(2);
        settle(&mut reading, 2, Outcome::Delivered);
        assert_eq!(
            (reading.advance().delivered, reading.reached),
            (0, StoredPlace { tick_a: 0, tick_b: Some(1), position: 4 })
        );
        settle(&mut reading, 5, Outcome::Delivered);
        let place = StoredPlace { tick_a: 0, tick_b: Some(1), position: 5 };
        assert_eq!((reading.advance().delivered, reading.reached), (1, place));
        assert_eq!(reading.ticks().0, [0, 1]);
        reading.is_stored(place);
        settle(&mut reading, 6, Outcome::Behind);
        let place = StoredPlace { tick_a: 1, tick_b: Some(4), position: 2 };
        assert_eq!((reading.advance().delivered, reading.reached), (1, place), "6 is parked, 2 counts");
        assert_eq!(reading.ticks().0, [0, 1, 4]);
        reading.is_stored(place);
        reading.end_window();
        assert_eq!((reading.advance().delivered, reading.reached), (0, StoredPlace::at(4)));
        reading.is_stored(StoredPlace::at(4));
        assert_eq!(reading.ticks().0, [4]);
        assert!(reading.window().is_none());
    }

    #[test]
    fn a_row_that_is_done_goes_when_the_place_passes_its_event() {
        let mut reading = Reading::from(tick(0), None, 0);
        reading.open(Arc::new(Window { a: tick(0), b: tick(1) }));
        [5, 6, 7].into_iter().for_each(|seq| reading.take(seq));
        settle(&mut reading, 6, Outcome::Behind);
        settle(&mut reading, 7, Outcome::Behind);
        reading.done.extend([6, 9]);
        assert_eq!(reading.advance(), Passed::default(), "5 is out");
        settle(&mut reading, 5, Outcome::Delivered);
        assert_eq!(reading.advance(), Passed { delivered: 1, done: vec![6] }, "7 is parked, 9 was not read");
        assert_eq!(reading.done, HashSet::from([9]));
    }
}
