//! Whether a lane is in somebody's hands, as far as this relay can tell.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::heartbeat::Heartbeat;
use crate::lane::LaneName;

/// A lane without a lease for this number of leases, and for this time at least, is in trouble. A restart of
/// the database or a takeover is shorter.
const LEASES_PATIENCE: u32 = 3;
const PATIENCE_MIN: Duration = Duration::from_secs(10);

/// What a relay knows about who has a lane; clones share it.
///
/// The process is alive while a lane waits for its store, so a [`Heartbeat`] does not show this: it is for
/// readiness, metrics and alerts.
#[derive(Clone, Debug)]
pub struct Tenure {
    lane: LaneName,
    /// Beats while this relay holds the lane, and when the store says that another one does.
    held: Heartbeat,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    has_been_held: bool,
    refused: bool,
}

/// Why nobody seems to drive a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The store is not as it must be. The relay asks again and goes on by itself once that is fixed.
    Refused,
    /// For this long the store has neither given the lane to this relay nor said that another one has it.
    NoLease(Duration),
}

impl Tenure {
    pub(super) fn new(lane: LaneName, lease: Duration) -> Self {
        let patience = lease.saturating_mul(LEASES_PATIENCE).max(PATIENCE_MIN);
        let held = Heartbeat::new(format!("lease of lane {lane}"), patience);
        Self { lane, held, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane.
    pub fn lane(&self) -> &LaneName {
        &self.lane
    }

    /// What keeps the lane from being driven, if anything does.
    pub fn trouble(&self) -> Option<Trouble> {
        if self.known().refused {
            return Some(Trouble::Refused);
        }
        self.held.is_late().then(|| Trouble::NoLease(self.held.age()))
    }

    /// How long ago somebody last had the lane, as far as this relay knows.
    pub(super) fn age(&self) -> Duration {
        self.held.age()
    }

    /// This relay has the lane.
    pub(super) fn hold(&self) {
        self.held.beat();
    }

    /// The store answered: this relay has the lane, or another one.
    pub(super) fn answered(&self) {
        self.held.beat();
        *self.known() = Known { has_been_held: true, refused: false };
    }

    /// The store cannot be used as it is.
    pub(super) fn refused(&self) {
        self.known().refused = true;
    }

    /// Whether the store was as it must be at least once.
    pub(super) fn has_been_held(&self) -> bool {
        self.known().has_been_held
    }

    /// The relay ends, and nobody waits for this lane here.
    pub(super) fn end(&self) {
        self.held.end();
        self.known().refused = false;
    }
}
