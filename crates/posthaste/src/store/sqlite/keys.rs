//! The API keys, by their hashes.

use posthaste_core::schema::Keyring;
use posthaste_core::{BoxFuture, Error, ErrorKind, Result};
use rusqlite::OptionalExtension;

use super::SqliteStore;

impl Keyring for SqliteStore {
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        let (owned, hash) = (name.to_owned(), *hash);
        Box::pin(async move {
            let added = self.write(move |connection, sql, now| {
                let mut statement = connection.prepare_cached(&sql.api_key_insert)?;
                statement.execute((owned, hash, now.as_micros())).map(drop)
            });
            added.await.map_err(|error| match error.kind() {
                ErrorKind::Rejected => Error::conflict(format!("an API key with the name {name:?} exists")),
                _ => error,
            })
        })
    }

    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        let hash = *hash;
        Box::pin(self.read(move |connection, sql| {
            connection.prepare_cached(&sql.api_key_name)?.query_row([hash], |row| row.get(0)).optional()
        }))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.read(|connection, sql| {
            let count: i64 = connection.query_row(&sql.api_key_count, [], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        }))
    }

    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        Box::pin(self.read(move |connection, sql| {
            connection.prepare_cached(&sql.api_key_hashes)?.query_map([limit], |row| row.get(0))?.collect()
        }))
    }
}
