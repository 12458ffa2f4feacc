//! Whether a consumer takes events now.

use tokio::sync::watch;

/// Tells whether a consumer has its feed open; clones tell the same. For a health check, and for tests.
#[derive(Clone, Debug)]
pub struct Readiness(watch::Receiver<bool>);

impl Readiness {
    /// Whether it takes events now.
    pub fn is_ready(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it takes events; answers `false` if it ended before it did.
    pub async fn ready(&mut self) -> bool {
        self.0.wait_for(|ready| *ready).await.is_ok()
    }

    /// Waits until it takes none; answers `false` if it ended before.
    pub async fn lost(&mut self) -> bool {
        self.0.wait_for(|ready| !*ready).await.is_ok()
    }
}

/// Where the consumer says it.
#[derive(Debug)]
pub(super) struct Ready(watch::Sender<bool>);

impl Ready {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn set(&self, ready: bool) {
        self.0.send_replace(ready);
    }

    pub(super) fn subscribe(&self) -> Readiness {
        Readiness(self.0.subscribe())
    }
}
