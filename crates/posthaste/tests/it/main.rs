//! The integration tests of this crate, in one binary: each one would link every client by itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod certificates;
mod examples;
mod inbox;
mod kafka;
#[path = "../conformance/mariadb.rs"]
mod mariadb;
mod mariadb_tls;
mod model;
mod nats;
mod otel;
#[path = "../conformance/postgres.rs"]
mod postgres;
mod postgres_access;
mod postgres_administered;
mod postgres_failover;
mod postgres_faults;
mod postgres_plans;
mod rabbitmq_consume;
mod rabbitmq_target;
mod redis_consume;
mod redis_target;
mod sending;
mod sql_sqlite;
#[path = "../conformance/sqlite.rs"]
mod sqlite;
mod sqlite_faults;
mod sqlite_plans;
mod sqlite_store;
mod table_rows;
