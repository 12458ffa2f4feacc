//! sqlx's transactions on SQLite under the laws of publishing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste::schema::Backend;
use posthaste::sql::Tx;
use posthaste::{BoxFuture, Result};
use posthaste_testkit::driver::{DriverRig, DriverRigMaker, DriverTx};
use posthaste_testkit::rig::{AnyClock, Rig as _, RigClock};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::sqlite::{SqliteRig, away};

pub(crate) struct SqlxSqliteDriver;

impl DriverRigMaker for SqlxSqliteDriver {
    fn name(&self) -> &'static str {
        "sqlx-sqlite"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async {
            let file = SqliteRig::new(AnyClock::new(RigClock::Host)).await?;
            let (path, store) = (file.file(), file.open().await?);
            let rig = PoolRig { pool: pool(&path).await?, store, path, _file: Some(file) };
            Ok(Arc::new(rig) as Arc<dyn DriverRig>)
        })
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn DriverRig>>> {
        Box::pin(async move {
            let (path, store) =
                (PathBuf::from(url), posthaste::store::open(&format!("sqlite://{url}")).await?);
            let rig = PoolRig { pool: pool(&path).await?, store, path, _file: None };
            Ok(Arc::new(rig) as Arc<dyn DriverRig>)
        })
    }
}

async fn pool(file: &Path) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new().filename(file);
    SqlitePoolOptions::new().connect_with(options).await.map_err(away)
}

struct PoolRig {
    path: PathBuf,
    /// Goes with whoever made it.
    _file: Option<SqliteRig>,
    pool: SqlitePool,
    store: Arc<dyn Backend>,
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
        Ok(self.path.display().to_string())
    }
}

struct SqlxTx(Transaction<'static, Sqlite>);

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
