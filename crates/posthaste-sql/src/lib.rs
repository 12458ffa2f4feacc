//! The seam between Posthaste and a transaction that somebody else began and will end.
//!
//! Publishing an event is one `INSERT` in the caller's own transaction. So all that Posthaste asks of a driver is: run
//! this statement, tell me how many rows it changed. SQL is data here ([`Statement`]), which is why the same publish
//! works in sqlx, tokio-postgres, diesel, sea-orm, rusqlite, or a driver this crate has never heard of: implement [`Tx`] (or
//! [`BlockingTx`]) for it, or take a [`Statement`] apart and run it by hand.
//!
//! The implementations for known drivers live beside the traits because of Rust's orphan rule, each behind a feature
//! of the same name; none is on by default.

mod driver;
mod error;
mod fault;
mod statement;
mod tx;

#[cfg(feature = "diesel-async")]
pub use driver::DieselTransaction;
#[cfg(feature = "deadpool-postgres")]
pub use driver::PooledTransaction;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
pub use driver::{DieselBackend, DieselTx};
pub use error::SqlError;
pub use fault::Fault;
pub use statement::{Dialect, Statement, Value};
pub use tx::{BlockingTx, BoxFuture, Database, Tx};

/// What an operation on somebody's transaction answers.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;
