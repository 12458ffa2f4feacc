//! The stores, and the one place where their URLs are opened.
//!
//! ```no_run
//! # async fn example() -> posthaste::Result<()> {
//! let store = posthaste::store::open("sqlite://posthaste.db").await?;
//! # Ok(()) }
//! ```

mod options;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::sync::Arc;

use posthaste_core::schema::Backend;
use posthaste_core::{Error, Result};

pub use options::{StoreOptions, Synchronous};
pub use posthaste_core::store::*;

/// Opens the store at this URL with the default options: `sqlite://posthaste.db`, `sqlite:///abs/path.db`,
/// `sqlite:posthaste.db?mode=ro`.
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
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::SqliteStore::open(rest, options).await?)),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => {
            let _ = (rest, options);
            Err(Error::config("this build has no SQLite; build it with the feature `sqlite`"))
        }
        "postgres" | "postgresql" => Err(Error::config(
            "postgres:// is not in this build yet; use sqlite://FILE, like sqlite://posthaste.db",
        )),
        _ => Err(not_a_store(url)),
    }
}

fn not_a_store(url: &str) -> Error {
    // The text may hold a password in a place where none is expected, so only what stands before the colon is shown.
    let scheme: String = url.split(':').next().unwrap_or_default().chars().take(20).collect();
    Error::config(format!(
        "the store URL that begins with {scheme:?} is not understood; use sqlite://FILE, like sqlite://posthaste.db \
         (postgres:// is not in this build yet)"
    ))
}
