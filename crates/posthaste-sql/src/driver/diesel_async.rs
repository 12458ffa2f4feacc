//! diesel-async on Postgres: `AsyncPgConnection`, and `Pool` with a transaction that owns its connection.

use std::fmt;
use std::time::Duration;

use diesel::pg::Pg;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
    TransactionManager as _,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::POSTGRES_STILL_GOOD;
use super::diesel::{bound, error};
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx};

/// How long the connection of a dropped transaction may take to roll back before it is closed.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection on which the caller has begun a transaction, as inside of `connection.transaction(async |connection| …)`.
impl Tx for AsyncPgConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        let query = bound!(statement, Pg);
        Box::pin(async move { Ok(query.execute(self).await.map_err(error)? as u64) })
    }
}

/// The same from a pool.
impl Tx for Object<AsyncPgConnection> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Tx::execute(&mut **self, statement)
    }
}

/// A transaction that owns the pooled connection it runs on; dropping it rolls back and gives the connection back.
///
/// diesel's own transactions are closures on a borrowed connection, so they cannot be handed around.
pub struct DieselTransaction {
    /// `None` only while it is dropped.
    connection: Option<Object<AsyncPgConnection>>,
    open: bool,
    /// Something was asked through us and not answered yet.
    is_asking: bool,
}

impl DieselTransaction {
    /// Lends the connection for the caller's own queries; what they do belongs to this transaction.
    pub fn connection(&mut self) -> &mut AsyncPgConnection {
        self.connection.as_mut().expect("the connection is only taken when this is dropped")
    }

    async fn begin(&mut self) -> Result<()> {
        self.is_asking = true;
        let answer = AnsiTransactionManager::begin_transaction(self.connection()).await;
        self.is_asking = false;
        answer.map_err(error)
    }

    async fn commit(&mut self) -> Result<()> {
        self.is_asking = true;
        let connection = self.connection();
        let answer = match connection.batch_execute(POSTGRES_STILL_GOOD).await {
            Ok(()) => AnsiTransactionManager::commit_transaction(connection).await,
            Err(failed) => Err(failed),
        };
        self.is_asking = false;
        answer.map_err(error)?;
        self.open = false;
        Ok(())
    }
}

impl Tx for DieselTransaction {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            self.is_asking = true;
            let answer = Tx::execute(self.connection(), statement).await;
            self.is_asking = false;
            answer
        })
    }
}

impl Drop for DieselTransaction {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if !self.open {
            return;
        }
        // Whoever gave up waiting for an answer may have found a connection that is cut and does not know it.
        match Handle::try_current() {
            Ok(runtime) if !self.is_asking => drop(runtime.spawn(roll_back(connection))),
            // Out of the pool and closed: the server rolls back by itself.
            _ => drop(Object::take(connection)),
        }
    }
}

/// Rolls back and gives the connection back to its pool; one that cannot do so in time is closed.
async fn roll_back(mut connection: Object<AsyncPgConnection>) {
    let rolling_back = AnsiTransactionManager::rollback_transaction(&mut *connection);
    if !matches!(timeout(ROLLBACK_TIMEOUT, rolling_back).await, Ok(Ok(()))) {
        drop(Object::take(connection));
    }
}

impl fmt::Debug for DieselTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselTransaction").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Database for Pool<AsyncPgConnection> {
    type Tx = DieselTransaction;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        Box::pin(async move {
            let connection = self.get().await.map_err(SqlError::new)?;
            // Open before `BEGIN` is sent: if this future is dropped while it waits, the transaction is rolled back.
            let mut tx = DieselTransaction { connection: Some(connection), open: true, is_asking: true };
            tx.begin().await?;
            Ok(tx)
        })
    }

    fn commit(mut tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { tx.commit().await })
    }
}
