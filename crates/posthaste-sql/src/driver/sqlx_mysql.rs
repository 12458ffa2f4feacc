//! sqlx on MariaDB and MySQL: `MySqlConnection`, `Transaction<'_, MySql>`, `MySqlPool`.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, MySqlPool, Row as _, Transaction};

use super::begin::Begin;
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx, Value};

/// `ER_DUP_ENTRY`.
const DUPLICATE: u16 = 1062;
/// `ER_UNKNOWN_SYSTEM_VARIABLE`.
const NO_SUCH_VARIABLE: u16 = 1193;

/// A connection on which the caller has begun a transaction.
impl Tx for MySqlConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            if statement.values.is_empty() {
                // Not every statement can be prepared.
                let done = sqlx::raw_sql(AssertSqlSafe(statement.sql)).execute(self).await;
                return Ok(done.map_err(error)?.rows_affected());
            }
            let mut query = sqlx::query(AssertSqlSafe(statement.sql));
            for value in statement.values {
                query = match value {
                    Value::Int(int) => query.bind(int),
                    Value::Text(text) => query.bind(text),
                    Value::Bytes(bytes) => query.bind(bytes),
                };
            }
            Ok(query.execute(self).await.map_err(error)?.rows_affected())
        })
    }
}

impl Tx for Transaction<'_, MySql> {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Tx::execute(&mut **self, statement)
    }
}

impl Database for MySqlPool {
    type Tx = Transaction<'static, MySql>;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        Box::pin(async move {
            let connection = self.acquire().await.map_err(error)?;
            Begin::by(Transaction::begin(connection, None)).await.map_err(error)
        })
    }

    fn commit(mut tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            still_open(&mut tx).await?;
            tx.commit().await.map_err(error)
        })
    }
}

/// Fails if the server has ended the transaction.
///
/// A deadlock rolls everything back, and what a caller that swallowed its error does next is committed statement by statement:
/// it would be told that all of it is. MySQL has no word for this question, and goes unasked.
async fn still_open(tx: &mut MySqlConnection) -> Result<()> {
    match sqlx::query("SELECT @@in_transaction").fetch_one(tx).await {
        Ok(row) if row.try_get_unchecked::<i64, _>(0).map_err(error)? == 0 => Err(SqlError::message(
            "the server ended the transaction before its commit, by a deadlock or a statement that commits by itself",
        )),
        Ok(_) => Ok(()),
        Err(failed) if number(&failed) == Some(NO_SUCH_VARIABLE) => Ok(()),
        Err(failed) => Err(error(failed)),
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn error(error: sqlx::Error) -> SqlError {
    let duplicate = number(&error) == Some(DUPLICATE);
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
