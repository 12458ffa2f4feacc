//! Drives a consumer by hand, one event at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::cx::Ground;
use super::worker::Shop;
use crate::Result;
use crate::broker::{Feed, Reason};
use crate::envelope::Envelope;

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stepped {
    /// It was handled and acknowledged.
    Handled,
    /// Its inbox row was there: it was acknowledged.
    Duplicate,
    /// No handler takes its type: it was acknowledged.
    Ignored,
    /// It failed and comes again after this time.
    Retry(Duration),
    /// It comes again after this time, and no attempt was counted.
    Later(Duration),
    /// It is dead.
    Dead(Reason),
}

/// A consumer that handles one event whenever it is asked to; see [`Consumer::steps`](super::Consumer::steps).
pub struct Steps<D: Ground, S> {
    shop: Arc<Shop<D, S>>,
    feed: Box<dyn Feed>,
    /// Kept so that nothing counts as abandoned.
    _abandon: watch::Sender<bool>,
}

impl<D: Ground, S: Send + Sync + 'static> Steps<D, S> {
    pub(super) fn new(shop: Arc<Shop<D, S>>, feed: Box<dyn Feed>, abandon: watch::Sender<bool>) -> Self {
        Self { shop, feed, _abandon: abandon }
    }

    /// Waits for the next event, handles and settles it, and says what became of it; `None` when the broker was closed.
    ///
    /// # Errors
    /// What the broker's feed says.
    pub async fn step(&mut self) -> Result<Option<(Arc<Envelope>, Stepped)>> {
        let Some(delivery) = self.feed.next(1).await?.pop() else { return Ok(None) };
        let envelope = Arc::clone(&delivery.envelope);
        let (mut share, mut finished) = (VecDeque::new(), Vec::new());
        let done = self.shop.handle_one(&envelope, delivery.attempt, &mut share, &mut finished).await;
        let stepped = self.shop.settle(delivery, done, &mut finished).await;
        Ok(Some((envelope, stepped)))
    }
}
