//! A limit on how many events are handled at once, also across consumers.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::failure::Failure;
use super::middleware::{Call, Middleware, Next};
use crate::BoxFuture;

/// Middleware that lets only so many handlers run at once; clones share the limit, so that several consumers can.
///
/// A consumer's own limit is its number of workers.
#[derive(Clone, Debug)]
pub struct Limit(Arc<Semaphore>);

impl Limit {
    /// So many at once; at least one.
    pub fn to(handlers: usize) -> Self {
        Self(Arc::new(Semaphore::new(handlers.clamp(1, Semaphore::MAX_PERMITS))))
    }
}

impl Middleware for Limit {
    fn around<'a>(&'a self, call: Call, next: Next<'a>) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let _turn = self.0.acquire().await.expect("it is never closed");
            next.run(call).await
        })
    }
}
