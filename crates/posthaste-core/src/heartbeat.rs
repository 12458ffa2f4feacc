//! Whether a loop turns: it says so at every turn, and somebody else sees when it last did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Says that it is not waited for any more.
const ENDED: u64 = u64::MAX;

/// The heartbeat of one loop; clones share it.
///
/// ```
/// # use posthaste_core::heartbeat::Heartbeat;
/// # use std::time::Duration;
/// let heartbeat = Heartbeat::new("lane main", Duration::from_secs(60));
/// heartbeat.beat(); // at every turn
/// assert!(!heartbeat.is_late()); // by whoever watches
/// ```
#[derive(Clone, Debug)]
pub struct Heartbeat {
    name: Arc<str>,
    patience: Duration,
    began: Instant,
    /// When it last beat, in milliseconds since it began.
    last_ms: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Of a loop that goes by this name and turns more often than this, whatever it waits for. It counts as just having turned.
    pub fn new(name: impl Into<Arc<str>>, patience: Duration) -> Self {
        Self { name: name.into(), patience, began: Instant::now(), last_ms: Arc::default() }
    }

    /// The same heartbeat, for somebody who has this much patience.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The loop turns.
    pub fn beat(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// The loop ended as it was meant to: it is late no more.
    pub fn end(&self) {
        self.last_ms.store(ENDED, Ordering::Relaxed);
    }

    /// How long ago it last turned; zero if it ended.
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)))
    }

    /// Whether it has not turned for longer than anything that it waits for can take.
    pub fn is_late(&self) -> bool {
        self.age() > self.patience
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(ENDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_turn_for_too_long_is_late_until_it_turns_or_ends() {
        let heartbeat = Heartbeat::new("lane main", Duration::from_secs(60));
        let watched = heartbeat.clone();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!watched.is_late());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(watched.is_late() && !watched.clone().patience(Duration::from_secs(90)).is_late());
        heartbeat.beat();
        assert_eq!((watched.is_late(), watched.age()), (false, Duration::ZERO));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(watched.is_late());
        heartbeat.end();
        assert!(!watched.is_late());
    }
}
