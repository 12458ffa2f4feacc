//! sqlx on Postgres: `PgConnection`, `Transaction<'_, Postgres>`, `PgPool`.

use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};
use tokio::runtime::Handle;

use super::{POSTGRES_DUPLICATE, POSTGRES_STILL_GOOD};
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx, Value};

/// A connection on which the caller has begun a transaction. Without one, sqlx's two round trips per statement may reach
/// different servers behind a pooler in transaction mode.
impl Tx for PgConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        // Not persistent: a named statement would not be found again behind a pooler in transaction mode.
        let mut query = sqlx::query(AssertSqlSafe(statement.sql)).persistent(false);
        for value in statement.values {
            query = match value {
                Value::Int(int) => query.bind(int),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
            };
        }
        Box::pin(async move { Ok(query.execute(self).await.map_err(error)?.rows_affected()) })
    }
}

impl Tx for Transaction<'_, Postgres> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Tx::execute(&mut **self, statement)
    }
}

impl Database for PgPool {
    type Tx = Transaction<'static, Postgres>;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        Box::pin(async move {
            let connection = self.acquire().await.map_err(error)?;
            Begin::on(connection).await.map_err(error)
        })
    }

    fn commit(mut tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            sqlx::raw_sql(POSTGRES_STILL_GOOD).execute(&mut *tx).await.map_err(error)?;
            tx.commit().await.map_err(error)
        })
    }
}

/// A `BEGIN` that is brought to its end even if nobody waits for it any more.
///
/// Dropping sqlx's own future after `BEGIN` was sent puts the connection back into the pool with a transaction open
/// in it, because sqlx counts a transaction only once it stands, and rolls back only what it counted (sqlx 0.9.0,
/// transact-rs/sqlx#4385). Finished in the background instead, it is a transaction like any other, and dropping that
/// rolls it back.
struct Begin {
    /// `None` once it has answered.
    begin: Option<BoxFuture<'static, sqlx::Result<Transaction<'static, Postgres>>>>,
    runtime: Handle,
}

impl Begin {
    fn on(connection: PoolConnection<Postgres>) -> Self {
        Self { begin: Some(Transaction::begin(connection, None)), runtime: Handle::current() }
    }
}

impl Future for Begin {
    type Output = sqlx::Result<Transaction<'static, Postgres>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let begin = self.begin.as_mut().expect("a future is not polled again after it has answered");
        let answer = std::task::ready!(begin.as_mut().poll(cx));
        self.begin = None;
        Poll::Ready(answer)
    }
}

impl Drop for Begin {
    fn drop(&mut self) {
        if let Some(begin) = self.begin.take() {
            // Entered, because the connection's way back into its pool is a task too, also if this runtime is ending.
            let _entered = self.runtime.enter();
            drop(self.runtime.spawn(async move { drop(begin.await) }));
        }
    }
}

fn error(error: sqlx::Error) -> SqlError {
    let code = error.as_database_error().and_then(|error| error.code());
    let duplicate = code.is_some_and(|code| code == POSTGRES_DUPLICATE);
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
