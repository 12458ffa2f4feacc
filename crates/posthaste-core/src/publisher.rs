//! Publishing in a transaction of the store's own: what REST and the command line use.
//!
//! A [`Tx`](posthaste_sql::Tx) runs one statement in a transaction of the caller. A [`Publisher`] has a whole
//! transaction of its own. Only that lets a store compare the contents of a duplicate and share one commit
//! between callers, so these are two seams.

use crate::envelope::Envelope;
use crate::{BoxFuture, Result};

/// Publishes where there is no caller's transaction.
pub trait Publisher: Send + Sync {
    /// Stores these events, all or none, and answers after the commit, in their order.
    ///
    /// Publishes of concurrent callers share commits. Publishing an event twice is no mistake: same source, id and
    /// contents answer [`Published::Before`].
    ///
    /// # Errors
    /// `Conflict` when the same source and id exist with other contents; nothing is stored then. `TooLarge` and
    /// `Rejected` as [`Envelope::check`] says.
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>>;
}

/// What became of one published event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Published {
    /// It is stored.
    Now,
    /// It was there already, with the same contents.
    Before,
}
