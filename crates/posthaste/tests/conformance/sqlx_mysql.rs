//! sqlx on MariaDB under the laws of publishing and of consumers, in a database of its own: events go into an outbox table.

use std::sync::Arc;

use posthaste::outbox::Outbox;
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::sql::Tx;
use posthaste::store::{StoreOptions, open_table};
use posthaste::{BoxFuture, Result};
use posthaste_testkit::driver::{DriverRig, DriverRigMaker, DriverTx};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{MySql, MySqlPool, Transaction};

use super::mariadb::{Scope, away, connect, missing, say, server};
use super::table::options;
use super::table_mariadb::MAKE;

pub(crate) struct SqlxMysqlDriver;

impl DriverRigMaker for SqlxMysqlDriver {
    fn name(&self) -> &'static str {
        "sqlx-mysql"
    }

    fn missing(&self) -> Option<String> {
        missing()
    }

    fn exempt(&self, law: &str) -> Option<&'static str> {
        match law {
            "a_delay_is_counted_on_the_databases_clock" => {
                Some("an outbox table has no column for when an event expires")
            }
            "a_lane_into_a_consumer_has_each_effect_once" => {
                Some("a row has one state: a table has one lane, of all its rows")
            }
            _ => None,
        }
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async {
            let scope = Scope::new(&server().unwrap_or_default()).await?;
            let mut connection = connect(&scope.url()).await?;
            say(&mut connection, MAKE).await?;
            say(&mut connection, &posthaste_core::sql::mysql_ddl(&TablePrefix::default())).await?;
            rig(scope.url(), Some(scope)).await
        })
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn DriverRig>>> {
        Box::pin(rig(url.to_owned(), None))
    }
}

async fn rig(url: String, scope: Option<Scope>) -> Result<Arc<dyn DriverRig>> {
    let pool = MySqlPoolOptions::new().max_connections(8).connect(&url).await.map_err(away)?;
    let store = open_table(&url, options(), StoreOptions::default()).await?;
    Ok(Arc::new(PoolRig { pool, store, url, _scope: scope }))
}

struct PoolRig {
    pool: MySqlPool,
    store: Arc<dyn Backend>,
    url: String,
    /// Goes with whoever made it.
    _scope: Option<Scope>,
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

    fn outbox(&self) -> Outbox {
        Outbox::new("/law").table(&options().profile)
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.url.clone())
    }
}

struct SqlxTx(Transaction<'static, MySql>);

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
