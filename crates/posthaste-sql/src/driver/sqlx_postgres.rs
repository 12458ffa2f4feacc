//! sqlx on Postgres: `PgConnection`, `Transaction<'_, Postgres>`, `PgPool`.

use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};

use super::begin::Begin;
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
            Begin::by(Transaction::begin(connection, None)).await.map_err(error)
        })
    }

    fn commit(mut tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            sqlx::raw_sql(POSTGRES_STILL_GOOD).execute(&mut *tx).await.map_err(error)?;
            tx.commit().await.map_err(error)
        })
    }
}

fn error(error: sqlx::Error) -> SqlError {
    let code = error.as_database_error().and_then(|error| error.code());
    let duplicate = code.is_some_and(|code| code == POSTGRES_DUPLICATE);
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
