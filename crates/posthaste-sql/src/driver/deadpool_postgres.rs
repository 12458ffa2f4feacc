//! deadpool-postgres: `Transaction`, and `Pool` with a transaction that owns its connection.
//!
//! A consumer's batch is one transaction whose handlers run one after another, so each answer that a handler
//! waits for costs the batch a round trip. [`PooledTransaction::send`] does not wait. A statement that fails
//! makes the commit fail, and the consumer finds the event by halving the batch.

use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use deadpool_postgres::{Object, Pool, Transaction};
use tokio_postgres::Client;

use super::POSTGRES_STILL_GOOD;
use super::tokio_postgres::{error, typed};
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx};

impl Tx for Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        // The transaction inside, which this one dereferences to.
        Tx::execute(&mut **self, statement)
    }
}

/// A transaction that owns the pooled connection it runs on; dropping it rolls back and gives the connection back.
///
/// The driver's own transaction borrows its connection, so it cannot be handed around together with it.
pub struct PooledTransaction {
    /// `None` only while it is dropped.
    connection: Option<Object>,
    open: bool,
    /// Something was asked through us and not answered yet.
    is_asking: bool,
}

impl PooledTransaction {
    /// Lends the connection for the caller's own statements; what they do belongs to this transaction.
    pub fn client(&self) -> &Client {
        self.connection.as_ref().expect("the connection is only taken when this is dropped")
    }

    /// Sends a statement and does not wait for its answer, so that many travel together.
    ///
    /// # Guarantees
    /// If it fails, so does everything after it in this transaction, and so does the commit.
    /// # Errors
    /// That it could not be sent.
    pub fn send(&mut self, statement: &Statement) -> Result<()> {
        let values = typed(&statement.values);
        let sending = pin!(self.client().execute_typed(&statement.sql, &values));
        // The driver sends a request when its future is first polled, and drops the answer if nobody waits for it.
        match sending.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(failed)) => Err(error(failed)),
            _ => Ok(()),
        }
    }

    async fn commit(&mut self) -> Result<()> {
        // One round trip: the first statement that fails ends the text.
        let commit = format!("{POSTGRES_STILL_GOOD}; COMMIT");
        self.is_asking = true;
        let answer = self.client().batch_execute(&commit).await;
        self.is_asking = false;
        answer.map_err(error)?;
        self.open = false;
        Ok(())
    }
}

impl Tx for PooledTransaction {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let values = typed(&statement.values);
            self.is_asking = true;
            let answer = self.client().execute_typed(&statement.sql, &values).await;
            self.is_asking = false;
            answer.map_err(error)
        })
    }
}

impl Drop for PooledTransaction {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Whoever gave up waiting for an answer may have found a connection that is cut and does not know it: the next one
        // to come must not wait on it too.
        if self.open && (self.is_asking || !rollback_is_on_its_way(&connection)) {
            // Out of the pool and closed: the server rolls back by itself.
            drop(Object::take(connection));
        }
    }
}

/// Puts a `ROLLBACK` into the connection's queue, in front of everything that its next user will ask.
///
/// The driver sends a request when its future is first polled, and drops the answer if nobody waits for it.
fn rollback_is_on_its_way(client: &Client) -> bool {
    let rollback = pin!(client.batch_execute("ROLLBACK"));
    !matches!(rollback.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_)))
}

impl fmt::Debug for PooledTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledTransaction").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Database for Pool {
    type Tx = PooledTransaction;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        Box::pin(async move {
            let connection = self.get().await.map_err(SqlError::new)?;
            // Open before `BEGIN` is sent: if this future is dropped while it waits, the transaction is rolled back.
            let mut tx = PooledTransaction { connection: Some(connection), open: true, is_asking: true };
            tx.client().batch_execute("BEGIN").await.map_err(error)?;
            tx.is_asking = false;
            Ok(tx)
        })
    }

    fn commit(mut tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { tx.commit().await })
    }
}
