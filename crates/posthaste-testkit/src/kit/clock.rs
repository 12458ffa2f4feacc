//! A clock that follows tokio's, so that one virtual time rules store, broker and consumer.

use std::time::Duration;

use posthaste_core::memory::Memory;
use posthaste_core::time::{Clock, Timestamp};
use tokio::time::Instant;

use crate::rig::start_of_time;

/// Begins at 2026-01-01 and goes as tokio's clock goes: with paused time it stands until a test waits or advances it.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// A clock that begins now; called in a tokio runtime.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let since: Duration = self.0.elapsed();
        start_of_time().after(since)
    }
}

/// An empty store in memory, on tokio's time: a database for consumers and outboxes, and a log that can be looked at.
pub fn store() -> Memory {
    Memory::on(TokioClock::new())
}
