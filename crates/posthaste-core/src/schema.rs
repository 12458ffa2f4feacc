//! The tables of a store, and the keys of its callers.

use crate::findings::Finding;
use crate::lane::LaneSpec;
use crate::{BoxFuture, Result};

/// Makes and checks the tables; never implicit on a server's database.
pub trait Schema: Send + Sync {
    /// What is there, compared with what this binary wants.
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>>;
    /// Brings the tables to this binary's version; answers the versions that were applied. Safe to call from several
    /// processes at once.
    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>>;
    /// The identity of the open tables. Two processes compare it to find out whether they work on the same
    /// store. `None` where the database has no identity that is strong enough.
    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async { Ok(None) })
    }
    /// Looks for what goes wrong in practice with such tables, their database and its server, where these lanes are to be
    /// driven. Changes nothing and asks each question for a few seconds at most. What [`status`](Schema::status) and
    /// [`lanes`](crate::admin::Admin::lanes) say is not said again.
    fn examine<'a>(&'a self, lanes: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        let _ = lanes;
        Box::pin(async { Vec::new() })
    }
}

/// What is there, compared with what this binary wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaStatus {
    /// The version that is there; `None`: no tables yet.
    pub present: Option<u32>,
    /// The oldest binary's version that may work on what is there.
    pub compatible_from: u32,
    /// The version this binary brings.
    pub wanted: u32,
}

impl SchemaStatus {
    /// What is there, from which version on binaries may use it, and what this binary brings.
    pub fn new(present: Option<u32>, compatible_from: u32, wanted: u32) -> Self {
        Self { present, compatible_from, wanted }
    }

    /// Whether this binary may work on what is there.
    pub fn usable(&self) -> bool {
        self.present.is_some_and(|present| present >= self.wanted) && self.wanted >= self.compatible_from
    }
}

/// The API keys of a store; only their hashes are kept.
pub trait Keyring: Send + Sync {
    /// Adds a key by its hash.
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>>;
    /// The name of the key with this hash, if there is one.
    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>>;
    /// How many keys there are.
    fn count(&self) -> BoxFuture<'_, Result<u64>>;
    /// The hashes of the newest keys, at most `limit` of them. A server proves with a key's hash that it
    /// knows the key.
    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>>;
}

/// Everything a store's file or server can do: what `posthaste::store::open` answers.
pub trait Backend:
    crate::store::Store
    + crate::admin::Admin
    + crate::review::Review
    + crate::publisher::Publisher
    + Schema
    + Keyring
{
}

impl<T> Backend for T where
    T: crate::store::Store
        + crate::admin::Admin
        + crate::review::Review
        + crate::publisher::Publisher
        + Schema
        + Keyring
{
}
