//! What a backend provides to be held to the store laws.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::schema::Backend;
use posthaste_core::time::{Clock, ManualClock, SystemClock, Timestamp};
use posthaste_core::{BoxFuture, Result};

/// One scope of a backend (a fresh memory store, a file of its own), as the laws see it.
///
/// Dropping it leaves nothing behind.
pub trait Rig: Send + Sync {
    /// What this backend can do; laws that need more are skipped with the reason.
    fn can(&self) -> RigCan;

    /// Opens the store on this scope's data, as a second process would: it shares nothing with one opened before but what
    /// is stored.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>>;

    /// Where another process finds the same data, for [`RigMaker::open_url`]; or why none can.
    fn url(&self) -> std::result::Result<String, &'static str>;

    /// Begins a producer's transaction beside the store, on a connection of its own.
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>>;

    /// Moves the store's clock on, if it is a manual one.
    fn pass(&self, span: Duration);

    /// What the store's clock says.
    fn now(&self) -> Timestamp;
}

/// What a backend can do, as far as not every backend can.
#[derive(Clone, Copy, Debug)]
pub struct RigCan {
    /// Two transactions can be open at once, and the one that began first can commit last; otherwise why not.
    pub overlap: std::result::Result<(), &'static str>,
    /// A publish through one opened store wakes a wait on another; otherwise why not.
    pub wake_across: std::result::Result<(), &'static str>,
}

/// A producer's transaction.
pub trait RigTx: Send {
    /// Publishes in it.
    fn publish(&mut self, event: Envelope) -> BoxFuture<'_, Result<()>>;
    /// Sets a savepoint.
    fn savepoint(&mut self) -> BoxFuture<'_, Result<()>>;
    /// Undoes everything since the last savepoint.
    fn rollback_to_savepoint(&mut self) -> BoxFuture<'_, Result<()>>;
    /// Commits.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
    /// Rolls back.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// Which clock a rig's store runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RigClock {
    /// One that stands still until [`Rig::pass`] moves it.
    Manual,
    /// The host's; for laws with a running relay.
    Host,
}

/// The clock of a rig: manual or the host's, as one value.
#[derive(Clone)]
pub enum AnyClock {
    /// Stands still until it is moved.
    Manual(ManualClock),
    /// The host's.
    Host,
}

impl AnyClock {
    /// A clock of this kind; a manual one begins at [`start_of_time`].
    pub fn new(kind: RigClock) -> Self {
        match kind {
            RigClock::Manual => Self::Manual(ManualClock::at(start_of_time())),
            RigClock::Host => Self::Host,
        }
    }

    /// Moves it on, if it can be moved.
    pub fn pass(&self, span: Duration) {
        if let Self::Manual(clock) = self {
            clock.advance(span);
        }
    }
}

impl Clock for AnyClock {
    fn now(&self) -> Timestamp {
        match self {
            Self::Manual(clock) => clock.now(),
            Self::Host => SystemClock.now(),
        }
    }

    fn is_host(&self) -> bool {
        matches!(self, Self::Host)
    }
}

/// Opens a fresh [`Rig`] for every law.
pub trait RigMaker: Send + Sync {
    /// What the backend is called in the names of trials.
    fn name(&self) -> &'static str;
    /// Why it cannot be had here, if so: the variable that would name its server is not set.
    fn missing(&self) -> Option<String>;
    /// Why a law is not about this backend, if so: what it promises is another backend's nature. The trial is skipped with that.
    fn exempt(&self, law: &str) -> Option<&'static str> {
        let _ = law;
        None
    }
    /// Whether its stores lease rows and not lanes, and so obey the laws of that.
    fn leases_rows(&self) -> bool {
        false
    }
    /// Opens the data at what [`Rig::url`] said, on the host's clock.
    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>>;
    /// A fresh scope.
    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>>;
}

/// Where the clock of a rig with a clock of its own begins: 2026-01-01.
pub fn start_of_time() -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000)
}
