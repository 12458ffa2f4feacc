//! The same scripts through every driver, against real databases.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod database;
mod deadpool_postgres;
mod diesel;
mod diesel_async;
mod postgres;
mod rusqlite;
mod script;
mod sea_orm;
mod sqlx_postgres;
mod sqlx_sqlite;
mod tokio_postgres;

use posthaste_sql::{BlockingTx, Tx};

/// Transactions are passed as trait objects by those who do not care which driver they come from.
fn _dyn(_: &mut dyn Tx, _: &mut dyn BlockingTx) {}
