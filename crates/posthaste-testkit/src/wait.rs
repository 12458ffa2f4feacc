//! Waiting for facts, with a deadline, instead of for time.

use std::time::Duration;

use crate::law::{LawResult, Verdict};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until this holds; breaks the law if it does not within the time.
pub async fn eventually(within: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> LawResult {
    let deadline = tokio::time::Instant::now() + within;
    while !holds().await {
        if tokio::time::Instant::now() >= deadline {
            return Err(Verdict::broken(format_args!("not within {within:?}: {what}")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Watches that this does not come to hold; breaks the law if it does within the time.
pub async fn never(within: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> LawResult {
    let deadline = tokio::time::Instant::now() + within;
    while tokio::time::Instant::now() < deadline {
        if holds().await {
            return Err(Verdict::broken(format_args!("it happened: {what}")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn eventually_ends_at_its_deadline_and_never_at_the_first_sight() {
        let second = Duration::from_secs(1);
        assert!(eventually(second, "nothing", async || false).await.is_err());
        assert!(eventually(second, "all", async || true).await.is_ok());
        let mut looks = 0;
        let seen = never(second, "the third look", async || {
            looks += 1;
            looks == 3
        });
        assert!(seen.await.is_err());
        assert!(never(second, "nothing", async || false).await.is_ok());
    }
}
