//! sqlx on Postgres under the laws of consumers, in a database of its own.

use std::str::FromStr as _;
use std::sync::Arc;

use posthaste::schema::Backend;
use posthaste::sql::Tx;
use posthaste::{BoxFuture, Result};
use posthaste_testkit::driver::{DriverRig, DriverRigMaker, DriverTx};
use posthaste_testkit::rig::{Rig, RigClock, RigMaker as _};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};

use super::postgres::RIGS;
use super::sqlite::away;

pub(crate) struct SqlxPostgresDriver;

impl DriverRigMaker for SqlxPostgresDriver {
    fn name(&self) -> &'static str {
        "sqlx-postgres"
    }

    fn missing(&self) -> Option<String> {
        RIGS[0].missing()
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async {
            let scope = RIGS[0].rig(RigClock::Host).await?;
            let url = scope.url().map_err(posthaste::Error::config)?;
            let store = scope.open().await?;
            Ok(Arc::new(PoolRig { pool: pool(&url).await?, store, url, _scope: Some(scope) })
                as Arc<dyn DriverRig>)
        })
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn DriverRig>>> {
        Box::pin(async move {
            let (pool, store) = (pool(url).await?, posthaste::store::open(url).await?);
            Ok(Arc::new(PoolRig { pool, store, url: url.to_owned(), _scope: None }) as Arc<dyn DriverRig>)
        })
    }
}

async fn pool(url: &str) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(url).map_err(away)?;
    PgPoolOptions::new().max_connections(8).connect_with(options).await.map_err(away)
}

struct PoolRig {
    pool: PgPool,
    store: Arc<dyn Backend>,
    url: String,
    /// Goes with whoever made it.
    _scope: Option<Arc<dyn Rig>>,
}

impl DriverRig for PoolRig {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn DriverTx>>> {
        Box::pin(async {
            let tx = self.pool.begin().await.map_err(away)?;
            Ok(Box::new(SqlxTx(tx)) as Box<dyn DriverTx>)
        })
    }

    fn store(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.store)
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.url.clone())
    }
}

struct SqlxTx(Transaction<'static, Postgres>);

impl DriverTx for SqlxTx {
    fn tx(&mut self) -> &mut dyn Tx {
        &mut self.0
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { self.0.commit().await.map_err(away) })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { self.0.rollback().await.map_err(away) })
    }
}
