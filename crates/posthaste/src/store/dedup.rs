//! Stores as idempotency records for consumers whose effects are elsewhere.

use std::sync::Arc;

use posthaste_core::Result;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use posthaste_core::consumer::Finished;
use posthaste_core::consumer::{Dedup, MemoryDedup};

use super::{StoreOptions, not_a_store};

/// The names of a record's states in the tables.
#[cfg(feature = "sqlite")]
pub(super) const IN_PROGRESS: &str = "in_progress";
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const PROCESSED: &str = "processed";
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
const FAILED: &str = "failed";
/// A longer message is cut.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
const ERROR_BYTES_MAX: usize = 1_024;

/// The state and the message to store for how processing ended.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn ended(end: &Finished) -> (&'static str, Option<&str>) {
    match end {
        Finished::Failed(why) => {
            let mut cut = why.len().min(ERROR_BYTES_MAX);
            while !why.is_char_boundary(cut) {
                cut -= 1;
            }
            // Postgres stores no text with a NUL.
            let text = why[..cut].split('\0').next();
            (FAILED, text)
        }
        _ => (PROCESSED, None),
    }
}

/// Opens the store at this URL for the idempotency records of [`Idempotent`](posthaste_core::consumer::Idempotent):
/// `sqlite:` and `postgres:` as [`open`](super::open) takes them, `mysql:` with the tables that `posthaste migrate print` shows,
/// `redis:` and `rediss:` as a [broker's URL](crate::broker::open), or `memory:` for one process.
///
/// Tables must be there: [`migrate`](posthaste_core::schema::Schema::migrate) the store first on a server.
///
/// # Errors
/// As [`open`](super::open).
pub async fn open_dedup(url: &str, options: StoreOptions) -> Result<Arc<dyn Dedup>> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| not_a_store(url))?;
    // Not every build has a store that needs them.
    let _ = (rest, &options);
    match scheme {
        "memory" => Ok(Arc::new(MemoryDedup::new())),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(super::sqlite::SqliteStore::open(rest, options).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(super::postgres::PostgresStore::open(url, options)?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(super::mysql::MysqlDedup::open(url, &options)?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => {
            Ok(Arc::new(crate::broker::redis::RedisDedup::at(url)?.on(Arc::clone(&options.clock))))
        }
        _ => Err(not_a_store(url)),
    }
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters_and_at_a_nul() {
        let long = Finished::Failed("ü".repeat(ERROR_BYTES_MAX));
        let (state, text) = ended(&long);
        assert_eq!((state, text.map(str::len)), (FAILED, Some(ERROR_BYTES_MAX)));
        let odd = format!("x{}", "ü".repeat(ERROR_BYTES_MAX));
        assert_eq!(ended(&Finished::Failed(odd)).1.map(str::len), Some(ERROR_BYTES_MAX - 1));
        assert_eq!(ended(&Finished::Failed("no\0more".into())).1, Some("no"));
        assert_eq!(ended(&Finished::Processed), (PROCESSED, None));
    }
}
