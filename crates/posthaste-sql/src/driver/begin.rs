//! How a transaction is begun on a server, without leaving one open.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::BoxFuture;

/// A `BEGIN` that is brought to its end even if nobody waits for it any more.
///
/// Dropping sqlx's own future after `BEGIN` was sent puts the connection back into the pool with a transaction open
/// in it, because sqlx counts a transaction only once it stands, and rolls back only what it counted (sqlx 0.9.0,
/// transact-rs/sqlx#4385). Finished in the background instead, it is a transaction like any other, and dropping that
/// rolls it back.
pub(super) struct Begin<T: Send + 'static> {
    /// `None` once it has answered.
    begin: Option<BoxFuture<'static, T>>,
    runtime: Handle,
}

impl<T: Send + 'static> Begin<T> {
    pub(super) fn by(begin: BoxFuture<'static, T>) -> Self {
        Self { begin: Some(begin), runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for Begin<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let begin = self.begin.as_mut().expect("a future is not polled again after it has answered");
        let answer = std::task::ready!(begin.as_mut().poll(cx));
        self.begin = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Begin<T> {
    fn drop(&mut self) {
        if let Some(begin) = self.begin.take() {
            // Entered, because the connection's way back into its pool is a task too, also if this runtime is ending.
            let _entered = self.runtime.enter();
            drop(self.runtime.spawn(async move { drop(begin.await) }));
        }
    }
}
