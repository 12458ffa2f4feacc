//! Idempotency for handlers whose effects are elsewhere: a record per event and consumer, kept in a store.
//!
//! ```text
//!             begin                      finish(Processed)
//!  (nothing) ───────► in_progress(token) ─────────────────► processed        begin: Before, the handler is not run
//!                       │        ▲   └── finish(Failed) ──► failed           begin: as if nothing were there
//!                       └────────┘
//!            begin after `abandoned_after`: taken over with a new token; the old token finishes nothing
//! ```
//!
//! It narrows the window in which an effect can happen twice to a crash between the effect and `finish`. A handler that
//! writes to a database should use the inbox instead, which closes that window.

mod idempotent;
mod memory;

use std::time::Duration;

pub use idempotent::Idempotent;
pub use memory::MemoryDedup;

use crate::envelope::Envelope;
use crate::{BoxFuture, Result};

/// Remembers which events a consumer has processed.
pub trait Dedup: Send + Sync {
    /// Records that this event is being processed, unless it is or was: one statement, so that of two who begin at once one
    /// is told [`Begun::Busy`].
    ///
    /// An event that is in progress for longer than `abandoned_after` is taken over.
    ///
    /// # Errors
    /// `Unavailable` when the store is away. The handler is then not run, and the event is tried again.
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>>;

    /// Records how it ended. With a token that is no longer the record's, nothing is recorded and the answer is `false`.
    ///
    /// # Errors
    /// `Unavailable` when the store is away; the record then stays in progress until it is taken over.
    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>>;

    /// Forgets at most `rows_max` records that ended longer ago than this, and answers how many.
    ///
    /// # Errors
    /// `Unavailable` when the store is away.
    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>>;
}

/// What a record is about: one event at one consumer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DedupKey {
    /// The consumer's name.
    pub consumer: String,
    /// The event's source.
    pub source: String,
    /// The event's id.
    pub event_id: String,
}

impl DedupKey {
    /// This event at this consumer.
    pub fn of(consumer: &str, event: &Envelope) -> Self {
        Self { consumer: consumer.to_owned(), source: event.source.clone(), event_id: event.id.clone() }
    }
}

/// The right to finish a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub String);

impl Token {
    /// A token that nobody has.
    pub fn fresh() -> Self {
        Self(crate::envelope::fresh_id())
    }
}

/// What a begin found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begun {
    /// Nothing, or a failure: it is ours to process.
    New(Token),
    /// Somebody began it long ago and never finished: it is ours now.
    TakenOver(Token),
    /// It was processed before: nothing is left to do.
    Before,
    /// Somebody is at it, and can be taken over after this time.
    Busy(Duration),
}

/// How processing ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finished {
    /// It had its effect.
    Processed,
    /// It had none, and why.
    Failed(String),
}
