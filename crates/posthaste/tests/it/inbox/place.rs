//! A database for one test: the store's tables, a table for effects, and a pool of the driver's.

use std::io::Write as _;
use std::str::FromStr as _;
use std::sync::Arc;

use deadpool_postgres::{Manager, Pool};
use posthaste::admin::{Filter, Page};
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::sql::{Database, Statement, Tx};
use posthaste::store::{StoreOptions, TableOptions, open_table};
use posthaste::table::Profile;
use posthaste_testkit::rig::{Rig, RigClock, RigMaker as _};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tokio_postgres::NoTls;

use crate::mariadb;
use crate::postgres::{PostgresRigs, RIGS};

const EFFECTS: &str = "CREATE TABLE effects (order_id bigint NOT NULL)";
const CONNECTIONS: u32 = 8;

/// Where a test's data is.
pub(crate) struct Place<D> {
    pub(crate) database: D,
    pub(crate) store: Arc<dyn Backend>,
    /// Goes with the data, last.
    _keeper: Box<dyn Send + Sync>,
}

impl<D: Database> Place<D> {
    async fn new(database: D, store: Arc<dyn Backend>, keeper: Box<dyn Send + Sync>) -> Self {
        let place = Self { database, store, _keeper: keeper };
        place.say(EFFECTS).await;
        place
    }

    /// Runs a statement and commits; answers how many rows it changed.
    pub(crate) async fn say(&self, sql: &'static str) -> u64 {
        let mut tx = self.database.begin().await.unwrap();
        let changed = tx.execute(Statement::new(sql, Vec::new())).await.unwrap();
        D::commit(tx).await.unwrap();
        changed
    }

    pub(crate) async fn effects(&self) -> u64 {
        self.say("UPDATE effects SET order_id = order_id").await
    }

    /// Orders that had their effect more than once.
    pub(crate) async fn twice(&self) -> u64 {
        self.say(
            "UPDATE effects SET order_id = order_id WHERE order_id IN \
             (SELECT order_id FROM effects GROUP BY order_id HAVING count(*) > 1)",
        )
        .await
    }

    pub(crate) async fn inbox_rows(&self) -> u64 {
        self.say("UPDATE posthaste_inbox SET source = source").await
    }

    /// How many events were published by handlers.
    pub(crate) async fn outgoing(&self) -> usize {
        self.store.find(&Filter::default(), Page::first(1_000)).await.unwrap().records.len()
    }
}

pub(crate) async fn sqlx_sqlite() -> Place<SqlitePool> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inbox.db");
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    let options = SqliteConnectOptions::new().filename(&file);
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await.unwrap();
    Place::new(pool, store, Box::new(folder)).await
}

pub(crate) async fn sqlx_postgres(server: &PostgresRigs) -> Place<PgPool> {
    let (rig, store, url) = rig(server).await;
    // No cache of named statements: they would not be found again behind a pooler in transaction mode.
    let options = PgConnectOptions::from_str(&url).unwrap().statement_cache_capacity(0);
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await.unwrap();
    Place::new(pool, store, Box::new(rig)).await
}

pub(crate) async fn deadpool_postgres(server: &PostgresRigs) -> Place<Pool> {
    let (rig, store, url) = rig(server).await;
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(CONNECTIONS as usize).build().unwrap();
    Place::new(pool, store, Box::new(rig)).await
}

/// `None`: there is no server, and the trial was said to be skipped.
pub(crate) async fn sqlx_mysql(trial: &str) -> Option<Place<MySqlPool>> {
    if let Some(why) = mariadb::missing() {
        skip(trial, &why);
        return None;
    }
    let scope = mariadb::Scope::new(&mariadb::server().unwrap()).await.unwrap();
    let tables = posthaste_core::sql::mysql_ddl(&TablePrefix::default());
    mariadb::say(&mut mariadb::connect(&scope.url()).await.unwrap(), &tables).await.unwrap();
    let table = TableOptions::new(Profile::open_outbox());
    let store = open_table(&scope.url(), table, StoreOptions::default()).await.unwrap();
    let database = MySqlPool::connect(&scope.url()).await.unwrap();
    // Without the table for effects: a statement that makes one commits by itself there.
    Some(Place { database, store, _keeper: Box::new(scope) })
}

async fn rig(server: &PostgresRigs) -> (Arc<dyn Rig>, Arc<dyn Backend>, String) {
    let rig = server.rig(RigClock::Host).await.unwrap();
    let store = rig.open().await.unwrap();
    // As the owner of the tables: these tests make one of their own, and change ours by hand.
    let url = rig.url().unwrap().replace("://law_server@", "://postgres@");
    (rig, store, url)
}

/// The servers that the environment names. None is a skip, said by name; where everything must run (`CI=true`) it is a
/// failure.
pub(crate) fn servers(test: &str) -> Vec<&'static PostgresRigs> {
    let mut there = Vec::new();
    for server in &RIGS {
        match server.missing() {
            None => there.push(server),
            Some(why) => skip(test, &why),
        }
    }
    there
}

/// Says that a test is skipped; a failure where everything must run.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment what must run")]
pub(crate) fn skip(test: &str, why: &str) {
    assert!(std::env::var("CI").map_or(true, |ci| ci != "true"), "{test}: {why}");
    // Not `eprintln!`, which a passing test swallows: a skip must be seen.
    std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes()).unwrap();
}
