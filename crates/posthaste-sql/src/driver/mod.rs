//! [`Tx`](crate::Tx), [`BlockingTx`](crate::BlockingTx) and [`Database`](crate::Database) for known drivers, a file each.
//!
//! Every file has the same shape: the transaction, then the pool if the driver has one, then `error`, which says what a
//! driver's error means. None of them retries, sleeps or logs.

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sea-orm"))]
mod begin;
#[cfg(feature = "deadpool-postgres")]
mod deadpool_postgres;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite", feature = "diesel-async"))]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-mysql")]
mod sqlx_mysql;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

#[cfg(feature = "deadpool-postgres")]
pub use deadpool_postgres::PooledTransaction;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
pub use diesel::{DieselBackend, DieselTx};
#[cfg(feature = "diesel-async")]
pub use diesel_async::DieselTransaction;

/// SQLSTATE `unique_violation`.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
const POSTGRES_DUPLICATE: &str = "23505";

/// SQLite's extended codes `SQLITE_CONSTRAINT_PRIMARYKEY` and `SQLITE_CONSTRAINT_UNIQUE`.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
const SQLITE_DUPLICATE: [i32; 2] = [1555, 2067];

/// Fails in a transaction in which an earlier statement failed, and does nothing otherwise.
///
/// Postgres answers the `COMMIT` of a failed transaction with a successful `ROLLBACK`, and no driver tells the two
/// apart. A caller that swallowed an error would be told that its work is committed, so every commit asks first.
#[cfg(any(
    feature = "sqlx-postgres",
    feature = "deadpool-postgres",
    feature = "diesel-async",
    feature = "sea-orm"
))]
const POSTGRES_STILL_GOOD: &str = "SELECT 1";
