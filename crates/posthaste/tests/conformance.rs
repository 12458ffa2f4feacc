//! Every law on every backend: trials are called `<backend>::<law>`.
//!
//! `POSTHASTE_LAWS_ON=memory,sqlite` limits the backends. A backend whose server is not there is skipped by name; with
//! `CI=true`, and if it was asked for by name, that is a failure.

mod conformance {
    pub(crate) mod deadpool_postgres;
    pub(crate) mod kafka;
    pub(crate) mod mariadb;
    pub(crate) mod nats;
    pub(crate) mod postgres;
    pub(crate) mod rabbitmq;
    pub(crate) mod redis;
    pub(crate) mod rusqlite;
    pub(crate) mod sqlite;
    pub(crate) mod sqlx_mysql;
    pub(crate) mod sqlx_postgres;
    pub(crate) mod sqlx_sqlite;
    pub(crate) mod table;
    pub(crate) mod table_mariadb;
    pub(crate) mod table_postgres;
    pub(crate) mod table_sqlite;
}

use std::process::ExitCode;
use std::sync::Arc;

use posthaste_testkit::broker::LocalRigs;
use posthaste_testkit::driver::DriverRigMaker;
use posthaste_testkit::harness;
use posthaste_testkit::memory::{MemoryDriver, MemoryRigs};

fn main() -> ExitCode {
    let [direct, pooled] = conformance::postgres::RIGS;
    let [quorum, classic] = conformance::rabbitmq::RIGS;
    harness::run(
        &[
            Arc::new(MemoryRigs),
            Arc::new(conformance::sqlite::SqliteRigs),
            Arc::new(direct),
            Arc::new(pooled),
            Arc::new(conformance::table_postgres::TablePostgresRigs),
            Arc::new(conformance::table_sqlite::TableSqliteRigs),
            Arc::new(conformance::table_mariadb::TableMariadbRigs),
        ],
        &[
            Arc::new(MemoryDriver),
            Arc::new(conformance::rusqlite::RusqliteDriver),
            Arc::new(conformance::sqlx_sqlite::SqlxSqliteDriver),
            Arc::new(conformance::sqlx_mysql::SqlxMysqlDriver),
        ],
        &[
            Arc::new(MemoryDriver),
            Arc::new(conformance::sqlx_sqlite::SqlxSqliteDriver),
            Arc::new(conformance::sqlx_postgres::SqlxPostgresDriver),
            Arc::new(conformance::sqlx_mysql::SqlxMysqlDriver),
            Arc::new(conformance::deadpool_postgres::DeadpoolPostgresDriver),
        ],
        &[
            Arc::new(LocalRigs),
            Arc::new(quorum),
            Arc::new(classic),
            Arc::new(conformance::nats::NatsRigs),
            Arc::new(conformance::redis::RedisRigs),
            Arc::new(conformance::kafka::KafkaRigs),
        ],
        // A file, so that child processes find it, and no server beside the broker's.
        &(Arc::new(conformance::sqlx_sqlite::SqlxSqliteDriver) as Arc<dyn DriverRigMaker>),
    )
}
