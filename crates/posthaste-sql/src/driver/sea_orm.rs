//! sea-orm on any of its databases: `DatabaseTransaction`, `DatabaseConnection`.

use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, SqlErr, TransactionTrait,
};

use super::POSTGRES_STILL_GOOD;
use super::begin::Begin;
use crate::{BoxFuture, Database, Dialect, Result, SqlError, Statement, Tx, Value};

impl Tx for DatabaseTransaction {
    fn dialect(&self) -> Dialect {
        match self.get_database_backend() {
            DbBackend::MySql => Dialect::Mysql,
            DbBackend::Sqlite => Dialect::Sqlite,
            // The list is open; what comes next will say so in its own way.
            _ => Dialect::Postgres,
        }
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>> {
        let values = statement.values.into_iter().map(|value| match value {
            Value::Int(int) => sea_orm::Value::BigInt(int),
            Value::Text(text) => sea_orm::Value::String(text),
            Value::Bytes(bytes) => sea_orm::Value::Bytes(bytes),
        });
        let backend = self.get_database_backend();
        let query = sea_orm::Statement::from_sql_and_values(backend, statement.sql, values);
        Box::pin(async move { Ok(self.execute_raw(query).await.map_err(error)?.rows_affected()) })
    }
}

impl Database for DatabaseConnection {
    type Tx = DatabaseTransaction;

    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>> {
        let connection = self.clone();
        let begin = Begin::by(Box::pin(async move { TransactionTrait::begin(&connection).await }));
        Box::pin(async move { begin.await.map_err(error) })
    }

    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            if Tx::dialect(&tx) == Dialect::Postgres {
                tx.execute_unprepared(POSTGRES_STILL_GOOD).await.map_err(error)?;
            }
            tx.commit().await.map_err(error)
        })
    }
}

fn error(error: DbErr) -> SqlError {
    let duplicate = matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)));
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
