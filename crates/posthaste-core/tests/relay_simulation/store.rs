//! A memory store behind a bad line: slow, failing before or after the deed, or never answering.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::lane::LaneSpec;
use posthaste_core::memory::Memory;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::time::{Clock, Timestamp};
use posthaste_core::{BoxFuture, Error, Result};
use tokio::time::{Instant, sleep};

/// Tokio's clock as a store's.
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).after(self.0.elapsed())
    }
}

pub(crate) struct BadLine {
    inner: Memory,
    rng: Mutex<fastrand::Rng>,
    /// Every way there or back takes up to so many milliseconds.
    lag_max: u64,
    pub(crate) bad: AtomicBool,
    pub(crate) calls: AtomicU64,
}

impl BadLine {
    pub(crate) fn new(inner: Memory, seed: u64) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let lag_max = [0, 0, 30, 250][rng.usize(0..4)];
        let rng = Mutex::new(rng);
        Arc::new(Self { inner, rng, lag_max, bad: AtomicBool::new(false), calls: AtomicU64::new(0) })
    }

    /// Something that may go wrong on the way there or back.
    async fn trouble(&self) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !self.bad.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (chance, span, lag) = {
            let mut rng = self.rng.lock().unwrap();
            (rng.u32(0..1_000), rng.u64(1..4_000), rng.u64(0..=self.lag_max))
        };
        sleep(Duration::from_millis(lag)).await;
        match chance {
            0..4 => std::future::pending().await,
            4..16 => sleep(Duration::from_millis(span)).await,
            16..200 => sleep(Duration::from_millis(span % 40)).await,
            200..215 => return Err(Error::unavailable("the line is bad")),
            _ => {}
        }
        Ok(())
    }
}

impl Store for BadLine {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            self.trouble().await?;
            let lease = self.inner.acquire(lane, owner).await;
            self.trouble().await?;
            lease
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            self.trouble().await?;
            let claimed = self.inner.claim(lease, room).await;
            self.trouble().await?;
            claimed
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            self.trouble().await?;
            let standing = self.inner.settle(lease, outcomes, then).await;
            self.trouble().await?;
            standing
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.inner.wait(lane, at_most)
    }
}
