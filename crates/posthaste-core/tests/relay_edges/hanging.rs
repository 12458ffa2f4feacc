//! A memory store that does not answer when a test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_core::lane::LaneSpec;
use posthaste_core::memory::Memory;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::{BoxFuture, Error, Result};

/// A memory store whose verbs can hang.
pub(crate) struct Hanging {
    pub(crate) inner: Memory,
    pub(crate) acquire_hangs: AtomicBool,
    pub(crate) claim_hangs: AtomicBool,
    /// Its answer takes a second.
    pub(crate) claim_is_late: AtomicBool,
    pub(crate) next_claim_fails: AtomicBool,
    /// The store is not as it must be: acquire and claim fail with `Config`.
    pub(crate) is_unusable: AtomicBool,
    pub(crate) settle_hangs: AtomicBool,
    /// It takes half a second to get there.
    pub(crate) settle_is_slow: AtomicBool,
}

impl Hanging {
    pub(crate) fn on(inner: Memory) -> Self {
        let no = || AtomicBool::new(false);
        Self {
            inner,
            acquire_hangs: no(),
            claim_hangs: no(),
            claim_is_late: no(),
            next_claim_fails: no(),
            is_unusable: no(),
            settle_hangs: no(),
            settle_is_slow: no(),
        }
    }
}

impl Hanging {
    fn usable(&self) -> Result<()> {
        if self.is_unusable.load(Ordering::SeqCst) {
            return Err(Error::config("somebody changed the store"));
        }
        Ok(())
    }
}

pub(crate) fn acquire_hangs(store: &Hanging) -> &AtomicBool {
    &store.acquire_hangs
}

pub(crate) fn claim_hangs(store: &Hanging) -> &AtomicBool {
    &store.claim_hangs
}

pub(crate) fn settle_hangs(store: &Hanging) -> &AtomicBool {
    &store.settle_hangs
}

async fn unless(hangs: &AtomicBool) {
    if hangs.load(Ordering::SeqCst) {
        std::future::pending().await
    }
}

impl Store for Hanging {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            unless(&self.acquire_hangs).await;
            self.usable()?;
            self.inner.acquire(lane, owner).await
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            unless(&self.claim_hangs).await;
            self.usable()?;
            if self.next_claim_fails.swap(false, Ordering::SeqCst) {
                return Err(Error::unavailable("for once"));
            }
            let claimed = self.inner.claim(lease, room).await;
            if self.claim_is_late.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
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
            unless(&self.settle_hangs).await;
            if self.settle_is_slow.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            self.inner.settle(lease, outcomes, then).await
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.inner.wait(lane, at_most)
    }
}
