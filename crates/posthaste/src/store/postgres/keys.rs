//! The API keys, by their hashes.

use posthaste_core::schema::Keyring;
use posthaste_core::{BoxFuture, Error, ErrorKind, Result};

use super::PostgresStore;
use super::error::explain;
use super::value::args;

impl Keyring for PostgresStore {
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.connections.watched(async move {
            let client = self.client().await?;
            let added = client.execute_typed(&self.sql.api_key_insert, &args![name, hash.as_slice()]).await;
            added.map(drop).map_err(explain).map_err(|error| match error.kind() {
                ErrorKind::Conflict => Error::conflict(format!("an API key with the name {name:?} exists")),
                _ => error,
            })
        }))
    }

    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(self.connections.watched(async move {
            let client = self.client().await?;
            let row = client.query_typed_opt(&self.sql.api_key_name, &args![hash.as_slice()]).await;
            row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(explain)
        }))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.connections.watched(async move {
            let client = self.client().await?;
            let row = client.query_typed_one(&self.sql.api_key_count, &[]).await;
            row.and_then(|row| row.try_get::<_, i64>(0)).map(i64::unsigned_abs).map_err(explain)
        }))
    }

    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        Box::pin(self.connections.watched(async move {
            let client = self.client().await?;
            let rows = client.query_typed(&self.sql.api_key_hashes, &args![i64::from(limit)]).await;
            let hashes = rows.map_err(explain)?.into_iter().map(|row| {
                let hash: &[u8] = row.try_get(0).map_err(explain)?;
                hash.try_into().map_err(|_| Error::corrupt("the hash of an API key has not 32 bytes"))
            });
            hashes.collect()
        }))
    }
}
