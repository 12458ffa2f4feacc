//! What makes the memory backend a whole [`Backend`](crate::schema::Backend): a schema that is always there, and keys.

use super::Memory;
use crate::schema::{Keyring, Schema, SchemaStatus};
use crate::{BoxFuture, Error, Result};

const VERSION: u32 = 1;

impl Schema for Memory {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(async { Ok(SchemaStatus::new(Some(VERSION), VERSION, VERSION)) })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Keyring for Memory {
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut state = self.lock();
            if state.keys.contains_key(hash) {
                return Err(Error::conflict(format!("the key {name:?} exists")));
            }
            state.keys.insert(*hash, name.to_owned());
            Ok(())
        })
    }

    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move { Ok(self.lock().keys.get(hash).cloned()) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { Ok(self.lock().keys.len() as u64) })
    }

    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        Box::pin(async move { Ok(self.lock().keys.keys().take(limit as usize).copied().collect()) })
    }
}
