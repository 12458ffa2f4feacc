//! Any driver's transactions behind one type, so that a law is written once.

use std::sync::Arc;

use posthaste_sql::{BoxFuture, Database, Dialect, SqlError, Statement, Tx};

use crate::driver::{DriverRig, DriverTx};

/// A rig's database as a [`Database`].
#[derive(Clone)]
pub struct AnyDatabase(Arc<dyn DriverRig>);

impl AnyDatabase {
    /// The database of this rig.
    pub fn of(rig: Arc<dyn DriverRig>) -> Self {
        Self(rig)
    }
}

/// A transaction of some driver.
pub struct AnyTx {
    tx: Box<dyn DriverTx>,
    dialect: Dialect,
}

impl Tx for AnyTx {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, posthaste_sql::Result<u64>> {
        self.tx.tx().execute(statement)
    }
}

impl Database for AnyDatabase {
    type Tx = AnyTx;

    fn begin(&self) -> BoxFuture<'_, posthaste_sql::Result<AnyTx>> {
        Box::pin(async {
            let mut tx = self.0.begin().await.map_err(SqlError::new)?;
            let dialect = tx.tx().dialect();
            Ok(AnyTx { tx, dialect })
        })
    }

    fn commit(tx: AnyTx) -> BoxFuture<'static, posthaste_sql::Result<()>> {
        Box::pin(async { tx.tx.commit().await.map_err(SqlError::new) })
    }
}
