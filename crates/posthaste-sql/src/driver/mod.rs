//! [`Tx`](crate::Tx), [`BlockingTx`](crate::BlockingTx) and [`Database`](crate::Database) for known drivers, a file each.
//!
//! Every file has the same shape: the transaction, then the pool if the driver has one, then `error`, which says what a
//! driver's error means. None of them retries, sleeps or logs.

#[cfg(feature = "deadpool-postgres")]
mod deadpool_postgres;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql"))]
mod sqlx_begin;
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

/// SQLSTATE `unique_violation`.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
const POSTGRES_DUPLICATE: &str = "23505";

/// SQLite's extended codes `SQLITE_CONSTRAINT_PRIMARYKEY` and `SQLITE_CONSTRAINT_UNIQUE`.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
const SQLITE_DUPLICATE: [i32; 2] = [1555, 2067];

/// Fails in a transaction in which an earlier statement failed, and does nothing otherwise.
///
/// Postgres answers the `COMMIT` of a failed transaction with a successful `ROLLBACK`, and neither driver tells the
/// two apart. A caller that swallowed an error would be told that its work is committed, so every commit asks first.
#[cfg(any(feature = "sqlx-postgres", feature = "deadpool-postgres"))]
const POSTGRES_STILL_GOOD: &str = "SELECT 1";
