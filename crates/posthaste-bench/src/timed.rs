//! A store that notes how long its claims and settles take, and passes them on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste::{BoxFuture, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::figures::{hundredths, median};

/// How long each call took that brought or recorded something, of one round or of all.
#[derive(Default)]
pub(super) struct Times {
    claims: Spans,
    settles: Spans,
}

/// Milliseconds, in the order of the calls.
#[derive(Default)]
struct Spans {
    all: Vec<f64>,
    /// Those of every round with which the first tenth of its backlog went.
    first: Vec<f64>,
    /// And the last.
    last: Vec<f64>,
}

impl Times {
    /// Adds those of a round.
    pub(super) fn add(&mut self, round: Self) {
        self.claims.add(round.claims.all);
        self.settles.add(round.settles.all);
    }

    /// How many settles there were.
    pub(super) fn settles(&self) -> usize {
        self.settles.all.len()
    }

    /// The medians: of all, and with how much of the backlog was left. One round goes through all sizes of it, so that these can be
    /// compared, where two runs differ by the machine's pace.
    pub(super) fn facts(&self) -> Vec<(&'static str, Value)> {
        let of = |spans: &[f64]| json!(hundredths(median(spans.to_vec())));
        vec![
            ("claim_ms", of(&self.claims.all)),
            ("claim_ms_first_tenth", of(&self.claims.first)),
            ("claim_ms_last_tenth", of(&self.claims.last)),
            ("settle_ms", of(&self.settles.all)),
            ("settle_ms_first_tenth", of(&self.settles.first)),
            ("settle_ms_last_tenth", of(&self.settles.last)),
        ]
    }

    /// The median claim and the median settle.
    pub(super) fn medians(&self) -> (f64, f64) {
        (hundredths(median(self.claims.all.clone())), hundredths(median(self.settles.all.clone())))
    }
}

impl Spans {
    fn add(&mut self, round: Vec<f64>) {
        let tenth = round.len().div_ceil(10);
        self.first.extend(round.iter().take(tenth));
        self.last.extend(round.iter().rev().take(tenth));
        self.all.extend(round);
    }
}

pub(super) struct Timed {
    inner: Arc<dyn Store>,
    times: Mutex<Times>,
}

impl Timed {
    pub(super) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, times: Mutex::default() }
    }

    /// How many claims brought something.
    pub(super) fn claims(&self) -> usize {
        self.times().claims.all.len()
    }

    pub(super) fn take(&self) -> Times {
        std::mem::take(&mut *self.times())
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Timed {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.inner.acquire(lane, owner)
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            let start = Instant::now();
            let claimed = self.inner.claim(lease, room).await?;
            if !claimed.is_empty() {
                self.times().claims.all.push(millis(start.elapsed()));
            }
            Ok(claimed)
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            let (start, is_empty) = (Instant::now(), outcomes.is_empty());
            let standing = self.inner.settle(lease, outcomes, then).await?;
            if !is_empty {
                self.times().settles.all.push(millis(start.elapsed()));
            }
            Ok(standing)
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.inner.wait(lane, at_most)
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_its_first_and_its_last_tenth() {
        let mut times = Times::default();
        for slower in [0.0, 100.0] {
            let all = (1..=20).map(|n| f64::from(n) + slower).collect();
            times.add(Times { claims: Spans { all, ..Spans::default() }, ..Times::default() });
        }
        assert_eq!(times.claims.first, [1.0, 2.0, 101.0, 102.0]);
        assert_eq!(times.claims.last, [20.0, 19.0, 120.0, 119.0]);
        assert_eq!((times.claims.all.len(), times.settles()), (40, 0));
    }
}
