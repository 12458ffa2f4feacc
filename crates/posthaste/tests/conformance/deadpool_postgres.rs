//! deadpool-postgres under the laws of consumers, in a database of its own.

use std::sync::Arc;

use deadpool_postgres::{Manager, Pool};
use posthaste::schema::Backend;
use posthaste::sql::{Database, Tx};
use posthaste::{BoxFuture, Result};
use posthaste_testkit::driver::{DriverRig, DriverRigMaker, DriverTx};
use posthaste_testkit::rig::{Rig, RigClock, RigMaker as _};
use tokio_postgres::NoTls;

use super::postgres::RIGS;
use super::sqlite::away;

pub(crate) struct DeadpoolPostgresDriver;

impl DriverRigMaker for DeadpoolPostgresDriver {
    fn name(&self) -> &'static str {
        "deadpool-postgres"
    }

    fn missing(&self) -> Option<String> {
        RIGS[0].missing()
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async {
            let scope = RIGS[0].rig(RigClock::Host).await?;
            let url = scope.url().map_err(posthaste::Error::config)?;
            let (pool, store) = (pool(&url)?, scope.open().await?);
            Ok(Arc::new(PoolRig { pool, store, url, _scope: Some(scope) }) as Arc<dyn DriverRig>)
        })
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn DriverRig>>> {
        Box::pin(async move {
            let (pool, store) = (pool(url)?, posthaste::store::open(url).await?);
            Ok(Arc::new(PoolRig { pool, store, url: url.to_owned(), _scope: None }) as Arc<dyn DriverRig>)
        })
    }
}

fn pool(url: &str) -> Result<Pool> {
    let config = url.parse().map_err(away)?;
    Pool::builder(Manager::new(config, NoTls)).max_size(8).build().map_err(away)
}

struct PoolRig {
    pool: Pool,
    store: Arc<dyn Backend>,
    url: String,
    /// Goes with whoever made it.
    _scope: Option<Arc<dyn Rig>>,
}

impl DriverRig for PoolRig {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn DriverTx>>> {
        Box::pin(async {
            let tx = Database::begin(&self.pool).await.map_err(away)?;
            Ok(Box::new(PooledTx(tx)) as Box<dyn DriverTx>)
        })
    }

    fn store(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.store)
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.url.clone())
    }
}

struct PooledTx(<Pool as Database>::Tx);

impl DriverTx for PooledTx {
    fn tx(&mut self) -> &mut dyn Tx {
        &mut self.0
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { <Pool as Database>::commit(self.0).await.map_err(away) })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        // Dropping it rolls it back.
        drop(self);
        Box::pin(async { Ok(()) })
    }
}
