//! How soon a lane looks for something new after its last look.
//!
//! A look that finds something makes a tick, a transaction of its own. While events come one by one, a look
//! for each of them would cost the server more than the events themselves. So a lane gathers: it looks again
//! after a few milliseconds, and finds several events at once. Where the last look found many, the lane is
//! behind and does not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// From one look to the next while events trickle in, and while the last look found nothing.
const AFTER_FEW: Duration = Duration::from_millis(8);
const AFTER_NONE: Duration = Duration::from_millis(4);
/// A stretch of the log with at most this number of events counts as few.
pub(super) const FEW: usize = 100;

/// When a lane looked, and how much it found.
pub(super) struct Rhythm(Mutex<Looks>);

struct Looks {
    /// When the last look began; `None`: there was none under this lease.
    last: Option<Instant>,
    /// How many events were read since.
    read: usize,
}

impl Rhythm {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Looks { last: None, read: 0 }))
    }

    fn looks_so_far(&self) -> MutexGuard<'_, Looks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look begins.
    pub(super) fn looks(&self) {
        *self.looks_so_far() = Looks { last: Some(Instant::now()), read: 0 };
    }

    /// This number of events was read.
    pub(super) fn read(&self, events: usize) {
        self.looks_so_far().read += events;
    }

    /// Whether the last look found few events or none, so that the next one will probably too.
    pub(super) fn expects_few(&self) -> bool {
        let looks = self.looks_so_far();
        looks.last.is_some() && looks.read <= FEW
    }

    /// Waits until the next look may begin.
    pub(super) async fn gather(&self) {
        let next = {
            let Looks { last, read } = *self.looks_so_far();
            let pause = match read {
                0 => AFTER_NONE,
                1..=FEW => AFTER_FEW,
                _ => return,
            };
            last.map(|last| last + pause)
        };
        if let Some(next) = next {
            sleep_until(next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long the next look waits after one that found this number of events.
    async fn pause_after(events: usize) -> Duration {
        let (rhythm, begun) = (Rhythm::new(), Instant::now());
        rhythm.looks();
        rhythm.read(events);
        rhythm.gather().await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_gathers_events_that_trickle_in_and_not_those_of_a_backlog() {
        assert_eq!(pause_after(0).await, AFTER_NONE);
        assert_eq!(pause_after(1).await, AFTER_FEW);
        assert_eq!(pause_after(FEW).await, AFTER_FEW);
        assert_eq!(pause_after(FEW + 1).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_look_of_a_lease_does_not_wait() {
        let begun = Instant::now();
        Rhythm::new().gather().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(!Rhythm::new().expects_few(), "nobody knows yet");
    }
}
