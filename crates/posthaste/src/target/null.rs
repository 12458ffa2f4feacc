//! `null:`: takes everything and keeps nothing; for measuring and for trying out.

use futures_util::stream;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Result};

/// Acknowledges every event at once.
#[derive(Debug)]
pub struct NullTarget {
    capabilities: Capabilities,
}

impl NullTarget {
    /// A target that takes everything.
    pub fn new() -> Self {
        Self { capabilities: Capabilities::sink() }
    }
}

impl Default for NullTarget {
    fn default() -> Self {
        Self::new()
    }
}

impl Target for NullTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        Box::pin(stream::iter((0..burst.len()).map(Answer::delivered)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use posthaste_core::envelope::Envelope;
    use posthaste_core::time::Timestamp;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_parcel_is_acknowledged_once() {
        let parcel = |_| Parcel::new(Arc::new(Envelope::new("a", "{}")), 1, false, Timestamp::default());
        let target = NullTarget::new();
        let answers: Vec<_> = target.deliver((0..3).map(parcel).collect()).collect().await;
        assert_eq!(answers.iter().map(|answer| answer.index).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(answers.iter().all(|answer| answer.result.is_ok()));
    }
}
