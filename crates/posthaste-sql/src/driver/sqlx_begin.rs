//! How sqlx begins a transaction on a server, without leaving one open.

use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::pool::PoolConnection;
use sqlx::{Database, Transaction};
use tokio::runtime::Handle;

use crate::BoxFuture;

/// A `BEGIN` that is brought to its end even if nobody waits for it any more.
///
/// Dropping sqlx's own future after `BEGIN` was sent puts the connection back into the pool with a transaction open
/// in it, because sqlx counts a transaction only once it stands, and rolls back only what it counted (sqlx 0.9.0,
/// transact-rs/sqlx#4385). Finished in the background instead, it is a transaction like any other, and dropping that
/// rolls it back.
pub(super) struct Begin<DB: Database> {
    /// `None` once it has answered.
    begin: Option<BoxFuture<'static, sqlx::Result<Transaction<'static, DB>>>>,
    runtime: Handle,
}

impl<DB: Database> Begin<DB> {
    pub(super) fn on(connection: PoolConnection<DB>) -> Self {
        Self { begin: Some(Transaction::begin(connection, None)), runtime: Handle::current() }
    }
}

impl<DB: Database> Future for Begin<DB> {
    type Output = sqlx::Result<Transaction<'static, DB>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let begin = self.begin.as_mut().expect("a future is not polled again after it has answered");
        let answer = std::task::ready!(begin.as_mut().poll(cx));
        self.begin = None;
        Poll::Ready(answer)
    }
}

impl<DB: Database> Drop for Begin<DB> {
    fn drop(&mut self) {
        if let Some(begin) = self.begin.take() {
            // Entered, because the connection's way back into its pool is a task too, also if this runtime is ending.
            let _entered = self.runtime.enter();
            drop(self.runtime.spawn(async move { drop(begin.await) }));
        }
    }
}
