//! A store that notes how long its claims and settles take, and passes them on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste::{BoxFuture, Result};
use tokio::time::Instant;

use super::figures::{hundredths, median};

/// How long each call took that brought or recorded something.
#[derive(Default)]
pub(super) struct Times {
    claims: Vec<f64>,
    settles: Vec<f64>,
}

impl Times {
    /// The median claim and the median settle, in milliseconds.
    pub(super) fn medians(&self) -> (f64, f64) {
        (hundredths(median(self.claims.clone())), hundredths(median(self.settles.clone())))
    }

    /// How many settles there were.
    pub(super) fn settles(&self) -> usize {
        self.settles.len()
    }

    /// Adds those of another round.
    pub(super) fn add(&mut self, other: Self) {
        self.claims.extend(other.claims);
        self.settles.extend(other.settles);
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
                self.times().claims.push(millis(start.elapsed()));
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
                self.times().settles.push(millis(start.elapsed()));
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
