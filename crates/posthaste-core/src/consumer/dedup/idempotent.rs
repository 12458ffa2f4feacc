//! Wraps any handler so that it runs once per event, as far as a [`Dedup`] store can tell.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;

use super::{Begun, Dedup, DedupKey, Finished, Token};
use crate::consumer::failure::Failure;
use crate::consumer::middleware::{Call, Middleware, Next};
use crate::telemetry::{field, label, metric};
use crate::{BoxFuture, Error};

/// After so long an event in progress is taken over, unless configured.
const ABANDONED_AFTER: Duration = Duration::from_secs(300);
/// So long an event waits when the store is away; no attempt is counted.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Middleware that asks a [`Dedup`] store before each event and tells it after.
///
/// ```
/// # use std::sync::Arc;
/// use posthaste_core::consumer::{Consumer, Idempotent, MemoryDedup};
/// let store = Arc::new(MemoryDedup::new());
/// let consumer = Consumer::named("mailer").around(Idempotent::by(store));
/// ```
pub struct Idempotent {
    store: Arc<dyn Dedup>,
    abandoned_after: Duration,
    store_pause: Duration,
}

impl Idempotent {
    /// Runs handlers once per event, as this store remembers.
    pub fn by(store: Arc<dyn Dedup>) -> Self {
        Self { store, abandoned_after: ABANDONED_AFTER, store_pause: STORE_PAUSE }
    }

    /// Takes over what has been in progress for so long; longer than the consumer's timeout.
    #[must_use]
    pub fn abandoned_after(mut self, span: Duration) -> Self {
        self.abandoned_after = span;
        self
    }

    /// Waits so long before it asks a store again that was away.
    #[must_use]
    pub fn store_pause(mut self, pause: Duration) -> Self {
        self.store_pause = pause;
        self
    }

    fn store_failed(&self, error: Error) -> Failure {
        let error = error.during("ask the idempotency store");
        tracing::warn!({ field::ERROR } = %error, "the handler was not run; the event waits");
        Failure::later(self.store_pause).code("idempotency store")
    }

    async fn finish(&self, key: &DedupKey, token: &Token, end: Finished) -> Result<(), Failure> {
        match self.store.finish(key, token, end).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let id = key.event_id.as_str();
                tracing::warn!(
                    { field::EVENT_ID } = id,
                    "was taken over while it was processed; it may have had its effect twice"
                );
                Ok(())
            }
            Err(error) => Err(Failure::retry(error.during("record that the event was processed"))),
        }
    }
}

impl Middleware for Idempotent {
    fn around<'a>(&'a self, call: Call, next: Next<'a>) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let key = DedupKey::of(&call.consumer, &call.envelope);
            let token = match self.store.begin(&key, self.abandoned_after).await {
                Err(error) => return Err(self.store_failed(error)),
                Ok(Begun::Busy(after)) => return Err(Failure::later(after).code("in progress")),
                Ok(Begun::New(token) | Begun::TakenOver(token)) => token,
                Ok(Begun::Before) => {
                    counter!(metric::CONSUMER_SKIPPED_TOTAL, label::CONSUMER => key.consumer, label::TOPIC => call.envelope.topic.clone())
                        .increment(1);
                    return Ok(());
                }
            };
            // A handler that is dropped in between (a timeout, a stop) leaves the record in progress: it may have had its effect.
            match next.run(call).await {
                Ok(()) => self.finish(&key, &token, Finished::Processed).await,
                Err(failure) => {
                    let why = failure.reason().message;
                    // The failure is what counts; a record that stays in progress only delays the next attempt.
                    let _ = self.finish(&key, &token, Finished::Failed(why)).await;
                    Err(failure)
                }
            }
        })
    }
}
