//! rusqlite: `Transaction`, `Savepoint`.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Savepoint, Transaction, params_from_iter};

use super::SQLITE_DUPLICATE;
use crate::{BlockingTx, Dialect, Result, SqlError, Statement, Value};

impl BlockingTx for Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> Result<u64> {
        execute(self, &statement)
    }
}

impl BlockingTx for Savepoint<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> Result<u64> {
        execute(self, &statement)
    }
}

fn execute(connection: &Connection, statement: &Statement) -> Result<u64> {
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(error)?;
    let changed = prepared.execute(params_from_iter(statement.values.iter().map(lent))).map_err(error)?;
    Ok(changed as u64)
}

/// The value as the driver wants it, without a copy of its bytes.
fn lent(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Int(Some(int)) => ValueRef::Integer(*int),
        Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
        Value::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
        Value::Int(None) | Value::Text(None) | Value::Bytes(None) => ValueRef::Null,
    })
}

fn error(error: rusqlite::Error) -> SqlError {
    let code = error.sqlite_error().map(|error| error.extended_code);
    let duplicate = code.is_some_and(|code| SQLITE_DUPLICATE.contains(&code));
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
