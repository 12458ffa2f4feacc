//! A lane's counters, looked up once.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::Settings;
use crate::lane::LaneName;
use crate::store::{Outcome, Parcel, Settled};
use crate::telemetry::{label, metric};
use crate::time::Clock;

pub(super) struct Meters {
    deliveries: Counter,
    delivered: Counter,
    retry: Counter,
    dead: Counter,
    behind: Counter,
    slow: Counter,
    later: Counter,
    released: Counter,
    deliver: Histogram,
    latency: Histogram,
    claim: Histogram,
    settle: Histogram,
    store_errors: Counter,
    lost: Counter,
    panics: Counter,
    state: Gauge,
    unheld: Gauge,
    in_flight: Gauge,
    clock: Arc<dyn Clock>,
}

/// What [`metric::LANE_STATE`] says.
#[derive(Clone, Copy)]
pub(super) enum State {
    Active = 1,
    Waiting = 2,
    Error = 3,
}

impl Meters {
    pub(super) fn of(lane: &LaneName, settings: &Settings) -> Self {
        let name = lane.as_str().to_owned();
        let settled = |outcome: &'static str| counter!(metric::SETTLED_TOTAL, label::LANE => name.clone(), label::OUTCOME => outcome);
        let store = |operation: &'static str| histogram!(metric::STORE_SECONDS, label::LANE => name.clone(), label::OPERATION => operation);
        Self {
            deliveries: counter!(metric::DELIVERIES_TOTAL, label::LANE => name.clone()),
            delivered: settled("delivered"),
            retry: settled("retry"),
            dead: settled("dead"),
            behind: settled("behind"),
            slow: settled("slow"),
            later: settled("later"),
            released: settled("released"),
            deliver: histogram!(metric::DELIVER_SECONDS, label::LANE => name.clone()),
            latency: histogram!(metric::LATENCY_SECONDS, label::LANE => name.clone()),
            claim: store("claim"),
            settle: store("settle"),
            store_errors: counter!(metric::STORE_ERRORS_TOTAL, label::LANE => name.clone()),
            lost: counter!(metric::LEASES_LOST_TOTAL, label::LANE => name.clone()),
            panics: counter!(metric::PANICS_TOTAL, label::LANE => name.clone()),
            state: gauge!(metric::LANE_STATE, label::LANE => name.clone()),
            unheld: gauge!(metric::LANE_UNHELD_SECONDS, label::LANE => name.clone()),
            in_flight: gauge!(metric::IN_FLIGHT, label::LANE => name),
            clock: Arc::clone(&settings.clock),
        }
    }

    pub(super) fn sent(&self, events: usize, in_flight: usize) {
        self.deliveries.increment(events as u64);
        self.in_flight.set(in_flight as f64);
    }

    pub(super) fn answered(&self, after: Duration, in_flight: usize) {
        self.deliver.record(after.as_secs_f64());
        self.in_flight.set(in_flight as f64);
    }

    /// First deliveries of a burst that were acknowledged; the slowest of them stands for all.
    pub(super) fn acknowledged<'a>(&self, parcels: impl Iterator<Item = &'a Parcel>) {
        let oldest = parcels
            .filter(|parcel| parcel.attempt == 1 && !parcel.replay)
            .map(|parcel| parcel.stored_at)
            .min();
        if let Some(oldest) = oldest {
            self.latency.record(self.clock.now().since(oldest).as_secs_f64());
        }
    }

    pub(super) fn claimed(&self, took: Duration) {
        self.claim.record(took.as_secs_f64());
    }

    pub(super) fn settled(&self, took: Duration) {
        self.settle.record(took.as_secs_f64());
    }

    pub(super) fn recorded(&self, tally: &Tally) {
        self.delivered.increment(tally.delivered);
        self.retry.increment(tally.retry);
        self.dead.increment(tally.dead);
        self.behind.increment(tally.behind);
        self.slow.increment(tally.slow);
        self.later.increment(tally.later);
        self.released.increment(tally.released);
    }

    pub(super) fn store_failed(&self) {
        self.store_errors.increment(1);
    }

    pub(super) fn lost(&self) {
        self.lost.increment(1);
    }

    pub(super) fn panicked(&self) {
        self.panics.increment(1);
    }

    /// For this long neither this relay nor, as far as it knows, another one has had the lane.
    pub(super) fn unheld(&self, since: Duration) {
        self.unheld.set(since.as_secs_f64());
    }

    pub(super) fn state(&self, state: State) {
        self.state.set(f64::from(state as u8));
    }
}

/// How many of each outcome a settle holds.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) delivered: u64,
    pub(super) retry: u64,
    pub(super) dead: u64,
    behind: u64,
    slow: u64,
    pub(super) later: u64,
    released: u64,
}

impl Tally {
    pub(super) fn is_empty(&self) -> bool {
        self.delivered + self.retry + self.dead + self.behind + self.slow + self.later + self.released == 0
    }

    pub(super) fn of(outcomes: &[Settled]) -> Self {
        let mut tally = Self::default();
        for settled in outcomes {
            match settled.outcome {
                Outcome::Delivered => tally.delivered += 1,
                Outcome::Retry { .. } => tally.retry += 1,
                Outcome::Dead { .. } => tally.dead += 1,
                Outcome::Behind => tally.behind += 1,
                Outcome::Slow => tally.slow += 1,
                Outcome::Later { .. } => tally.later += 1,
                Outcome::Released => tally.released += 1,
            }
        }
        tally
    }
}
