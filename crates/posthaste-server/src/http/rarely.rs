//! Log lines about what strangers can cause as often as they like: at most one per minute, with the number
//! since the last one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(60);

/// Counts what happens, and says when a line is due.
#[derive(Debug, Default)]
pub(super) struct Rarely(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    last_line: Option<Instant>,
    count: u64,
}

impl Rarely {
    /// Counts once more. Answers the number since the last line when the next line is due: the first time,
    /// and then when a minute has passed.
    pub(super) fn count(&self) -> Option<u64> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.count += 1;
        if since.last_line.is_some_and(|at| at.elapsed() < EVERY) {
            return None;
        }
        since.last_line = Some(Instant::now());
        Some(std::mem::take(&mut since.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_due_at_once_and_then_once_per_minute_with_the_number_since() {
        let rarely = Rarely::default();
        assert_eq!(rarely.count(), Some(1));
        for _ in 0..5 {
            assert_eq!(rarely.count(), None);
        }
        tokio::time::advance(EVERY).await;
        assert_eq!(rarely.count(), Some(6));
        assert_eq!(rarely.count(), None);
    }
}
