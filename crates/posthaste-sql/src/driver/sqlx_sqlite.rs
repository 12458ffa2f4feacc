//! sqlx on SQLite: `SqliteConnection`, `Transaction<'_, Sqlite>`, `SqlitePool`.

use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::SQLITE_DUPLICATE;
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx, Value};

impl Tx for SqliteConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        let mut query = sqlx::query(AssertSqlSafe(statement.sql));
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

impl Tx for Transaction<'_, Sqlite> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Tx::execute(&mut **self, statement)
    }
}

impl Database for SqlitePool {
    type Tx = Transaction<'static, Sqlite>;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        // Immediate: a transaction that reads first and writes later is refused at once (SQLITE_BUSY, whatever the
        // busy timeout) if somebody wrote in between. One that says at its start that it will write waits its turn.
        Box::pin(async move { self.begin_with("BEGIN IMMEDIATE").await.map_err(error) })
    }

    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { tx.commit().await.map_err(error) })
    }
}

fn error(error: sqlx::Error) -> SqlError {
    let code = error.as_database_error().and_then(|error| error.code()?.parse().ok());
    let duplicate = code.is_some_and(|code| SQLITE_DUPLICATE.contains(&code));
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
