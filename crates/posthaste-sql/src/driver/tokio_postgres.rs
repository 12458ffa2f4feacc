//! tokio-postgres: `Transaction`.

use std::error::Error as _;

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::POSTGRES_DUPLICATE;
use crate::{BoxFuture, Dialect, Result, SqlError, Statement, Tx, Value};

impl Tx for Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let values = typed(&statement.values);
            self.execute_typed(&statement.sql, &values).await.map_err(error)
        })
    }
}

/// The values with their types. Sent together with the text they need no named statement, which would not be found
/// again behind a pooler in transaction mode, and no round trip that asks for the types.
pub(super) fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values
        .iter()
        .map(|value| -> (&(dyn ToSql + Sync), Type) {
            match value {
                Value::Int(int) => (int, Type::INT8),
                Value::Text(text) => (text, Type::TEXT),
                Value::Bytes(bytes) => (bytes, Type::BYTEA),
            }
        })
        .collect()
}

pub(super) fn error(error: tokio_postgres::Error) -> SqlError {
    let duplicate = error.code().is_some_and(|state| state.code() == POSTGRES_DUPLICATE);
    // By itself it says "db error" and leaves the rest to its cause.
    let message = match (error.as_db_error(), error.source()) {
        (Some(db), _) => db.to_string(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    let error = SqlError::described(message, error);
    if duplicate { error.as_duplicate() } else { error }
}
