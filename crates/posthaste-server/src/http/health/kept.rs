//! An answer that is used again for a moment, so that questions without a key cannot load whoever is asked.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer is used again.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// The last answer.
pub(super) struct Kept<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Kept<T> {
    /// Asks, unless that was done a moment ago. Whoever comes meanwhile waits for the same answer.
    pub(super) async fn get<F: Future<Output = T>>(&self, ask: impl FnOnce() -> F) -> T {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < KEPT_FOR
        {
            return answer.clone();
        }
        let answer = ask().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_again_for_a_second() {
        let (kept, asked) = (Kept::default(), Cell::new(0));
        let ask = || async {
            asked.set(asked.get() + 1);
            asked.get()
        };
        assert_eq!((kept.get(ask).await, kept.get(ask).await), (1, 1));
        tokio::time::advance(KEPT_FOR).await;
        assert_eq!(kept.get(ask).await, 2);
    }
}
