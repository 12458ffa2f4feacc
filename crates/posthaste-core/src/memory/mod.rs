//! The memory backend: the executable model of the seams.
//!
//! It is written to be obviously right, not to be fast: one lock around `state`, sorted maps, and every derived fact
//! derived again each time. The laws run on it like on any other store, and a property test drives it beside a real store
//! and compares what can be observed.
//!
//! Its transactions ([`MemoryTx`]) can commit late: they take their numbers when they publish and become visible when they
//! commit, so a lower number may appear after a higher one. That is why a lane's place is a set here, and why the seam
//! cannot shrink to "everything above this number".

mod backend;
mod claim;
mod command;
mod look;
mod publish;
mod settle;
mod state;
mod statement;
mod tx;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::lane::{LaneName, LaneSpec};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::review::AuditEntry;
use crate::signal::{Listener, Signal};
use crate::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use crate::time::{Clock, SystemClock, Timestamp};
use crate::{BoxFuture, Result};

use state::State;
pub use tx::{MemoryTx, Savepoint};

/// A store in memory; clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> posthaste_core::Result<()> {
/// use posthaste_core::{envelope::Envelope, memory::Memory, publisher::{Published, Publisher}};
/// let store = Memory::new();
/// let published = store.publish(vec![Envelope::new("order.placed", "{}")]).await?;
/// assert_eq!(published, [Published::Now]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
    signal: Signal,
    /// What each lane's last wait had heard, so that a ring between a claim and the next wait is not missed.
    listeners: Arc<Mutex<HashMap<LaneName, Listener>>>,
    payload_bytes_max: usize,
}

impl Memory {
    /// An empty store on the host's clock.
    pub fn new() -> Self {
        Self::on(SystemClock)
    }

    /// An empty store on this clock.
    pub fn on(clock: impl Clock + 'static) -> Self {
        Self {
            state: Arc::default(),
            clock: Arc::new(clock),
            signal: Signal::new(),
            listeners: Arc::default(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }

    /// Rings this bell after every commit, instead of one of its own.
    #[must_use]
    pub fn with_signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// Begins a transaction; dropping it rolls it back.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx::new(self.clone())
    }

    /// What operators did, in order.
    pub fn audit(&self) -> Vec<AuditEntry> {
        self.lock().audit.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it was held left no half-done change that a test should go on with.
        self.state.lock().expect("no change of the model panics half-way")
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn listener(&self, lane: &LaneName) -> Option<Listener> {
        self.listeners.lock().expect("nobody panics while holding it").remove(lane)
    }

    fn keep_listener(&self, lane: &LaneName, listener: Listener) {
        self.listeners.lock().expect("nobody panics while holding it").insert(lane.clone(), listener);
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for Memory {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        // Listens before the first claim, so that no publish between a claim and a wait goes unheard.
        if self.listener(&lane.name).is_none() {
            self.keep_listener(&lane.name, self.signal.listen());
        }
        Box::pin(async move { Ok(self.lock().acquire(lane, owner, self.now())) })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move { self.lock().claim(lease, room, self.now()) })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move { self.lock().settle(lease, outcomes, then, self.now()) })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut listener = self.listener(&lane.name).unwrap_or_else(|| self.signal.listen());
            listener.heard(at_most).await;
            self.keep_listener(&lane.name, listener);
        })
    }
}
