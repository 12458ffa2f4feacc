//! Wakes the lanes of this process when something was published in it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// An in-process bell: whoever commits rings it, whoever waits for work hears it.
///
/// Clones share one bell. It carries no data and may ring for nothing; work is always found by asking the store.
#[derive(Clone, Debug)]
pub struct Signal(Arc<watch::Sender<u64>>);

impl Signal {
    /// A bell that nobody has rung.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Wakes everybody who waits.
    pub fn ring(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Begins to listen: what rings from now on is heard by [`Listener::heard`], even if nobody waits at that moment.
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self::new()
    }
}

/// Somebody who hears the bell. A clone has heard what the original has heard.
#[derive(Clone, Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Returns at the next ring since the last call (at once if it has rung meanwhile), or when the time is over.
    pub async fn heard(&mut self, at_most: Duration) {
        // An error means that the bell is gone: nobody can ring any more, so only time is left to wait for.
        let rang = async {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let _ = tokio::time::timeout(at_most, rang).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_ring_before_the_wait_is_not_missed() {
        let signal = Signal::new();
        let mut listener = signal.listen();
        signal.ring();
        let start = Instant::now();
        listener.heard(Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        listener.heard(Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(60), "one ring wakes once");
    }
}
