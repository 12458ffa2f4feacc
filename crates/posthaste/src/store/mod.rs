//! The stores, and the one place where their URLs are opened.
//!
//! ```no_run
//! # async fn example() -> posthaste::Result<()> {
//! let store = posthaste::store::open("sqlite://posthaste.db").await?;
//! # Ok(()) }
//! ```

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod audit;
mod dedup;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod log;
#[cfg(feature = "mysql")]
mod mysql;
mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod table;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod waiting;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod wishes;

use std::sync::Arc;

use posthaste_core::schema::Backend;
use posthaste_core::{Error, Result};

pub use dedup::open_dedup;
pub use options::{StoreOptions, Synchronous, TableOptions};
pub use posthaste_core::store::*;

/// Opens the store at this URL with the default options: `sqlite://posthaste.db`, `sqlite:///abs/path.db`,
/// `sqlite:posthaste.db?mode=ro`, `postgres://user@host/database`.
///
/// # Errors
/// `Config` for a URL that no store of this build understands, and whatever the store says about its file or server.
pub async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    open_with(url, StoreOptions::default()).await
}

/// Opens the store at this URL.
///
/// # Errors
/// As [`open`].
pub async fn open_with(url: &str, options: StoreOptions) -> Result<Arc<dyn Backend>> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| not_a_store(url))?;
    // Not every build has a store that needs them.
    let _ = (rest, &options);
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::SqliteStore::open(rest, options).await?)),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(Error::config("this build has no SQLite; build it with the feature `sqlite`")),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(postgres::PostgresStore::open(url, options)?)),
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(Error::config("this build has no Postgres; build it with the feature `postgres`"))
        }
        "mysql" | "mariadb" => Err(Error::config(
            "MariaDB and MySQL have no log engine, only outbox tables: write engine = \"table\" under [store]",
        )),
        _ => Err(not_a_store(url)),
    }
}

/// Opens an outbox table that already exists, of somebody else, in the database at this URL. Nothing is ever made or changed in
/// it but the state of its rows.
///
/// # Errors
/// `Config` for a URL that no store of this build understands, and for a profile that makes no sense.
pub async fn open_table(url: &str, table: TableOptions, options: StoreOptions) -> Result<Arc<dyn Backend>> {
    let (scheme, _) = url.split_once(':').ok_or_else(|| not_a_store(url))?;
    // Not every build has a store that needs them.
    let _ = (&table, &options);
    match scheme {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(postgres::table::open(url, table, options)?)),
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let rest = url.split_once(':').map_or("", |(_, rest)| rest);
            Ok(Arc::new(sqlite::table::open(rest, table, options)?))
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(mysql::open(url, table, options)?)),
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => {
            Err(Error::config("this build has no MariaDB; build it with the feature `mysql`"))
        }
        _ => Err(not_a_store(url)),
    }
}

/// The SQL that an outbox table at this URL needs: it makes the table, or adds what the one that is there
/// lacks, in its own types. The owner of the table runs it; nothing here does.
///
/// # Errors
/// As [`open_table`]; `Unavailable` when the database cannot be reached.
pub async fn table_ddl(url: &str, table: TableOptions, options: StoreOptions) -> Result<String> {
    let (scheme, _) = url.split_once(':').ok_or_else(|| not_a_store(url))?;
    // Not every build has a store that needs them.
    let _ = (&table, &options);
    match scheme {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => postgres::table::open(url, table, options)?.ddl().await,
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let rest = url.split_once(':').map_or("", |(_, rest)| rest);
            sqlite::table::open(rest, table, options)?.ddl().await
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => mysql::open(url, table, options)?.ddl().await,
        _ => Err(not_a_store(url)),
    }
}

fn not_a_store(url: &str) -> Error {
    // The text may hold a password in a place where none is expected, so only what stands before the colon is shown.
    let scheme: String = url.split(':').next().unwrap_or_default().chars().take(20).collect();
    Error::config(format!(
        "the store URL that begins with {scheme:?} is not understood; use sqlite://FILE, like sqlite://posthaste.db, \
         or postgres://USER@HOST/DATABASE, or for outbox tables mysql://USER@HOST/DATABASE"
    ))
}
