//! The three traits a driver can have.

use std::future::Future;
use std::pin::Pin;

use crate::{Dialect, Result, Statement};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs one row-changing statement inside a transaction that somebody else began and will end.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that Posthaste can publish in",
    label = "not a transaction",
    note = "pass `&mut tx`, where `tx` comes from sqlx, tokio-postgres, deadpool-postgres, diesel-async or sea-orm, and enable the feature of that name",
    note = "rusqlite and diesel block: use `publish_blocking` with a `Transaction` or `DieselTx`"
)]
pub trait Tx: Send {
    /// Which SQL this transaction speaks.
    fn dialect(&self) -> Dialect;
    /// Runs the statement and answers how many rows it changed.
    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, Result<u64>>;
}

/// The same for blocking drivers, whose transactions are often not `Send` and so cannot be a [`Tx`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking transaction that Posthaste can publish in",
    label = "not a blocking transaction",
    note = "pass `&mut tx`, where `tx` is a `rusqlite::Transaction` or a `DieselTx` around diesel's connection, and enable the feature `rusqlite`, `diesel-postgres` or `diesel-sqlite`"
)]
pub trait BlockingTx {
    /// Which SQL this transaction speaks.
    fn dialect(&self) -> Dialect;
    /// Runs the statement and answers how many rows it changed.
    fn execute(&mut self, statement: Statement) -> Result<u64>;
}

/// A pool that begins transactions which own their connection; dropping one rolls it back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database pool that Posthaste knows",
    note = "sqlx's `PgPool`, `MySqlPool` and `SqlitePool` and the `Pool` of deadpool-postgres and of diesel-async's deadpool are, and sea-orm's `DatabaseConnection`; each behind the feature of its name"
)]
pub trait Database: Clone + Send + Sync + 'static {
    /// The transaction this pool begins.
    type Tx: Tx + 'static;
    /// Begins a transaction on a connection of its own.
    ///
    /// # Guarantees
    /// Dropping the future at any point leaves no open transaction behind.
    fn begin(&self) -> BoxFuture<'_, Result<Self::Tx>>;
    /// Commits. Taken by value: a transaction ends once.
    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<()>>;
}
