//! Publishers that carry their transaction.

use posthaste_sql::Tx;

use super::{Entries, Entry, Outbox};
use crate::Result;
use crate::publish::Publish;

/// A publisher bound to a transaction; made by [`Outbox::bind`].
pub struct Bound<'a, T: Tx + ?Sized> {
    outbox: &'a Outbox,
    tx: &'a mut T,
}

impl<'a, T: Tx + ?Sized> Bound<'a, T> {
    pub(super) fn new(outbox: &'a Outbox, tx: &'a mut T) -> Self {
        Self { outbox, tx }
    }

    /// Stores one event; see [`Outbox::publish`].
    ///
    /// # Errors
    /// As [`Outbox::publish`].
    pub async fn publish(&mut self, what: impl Into<Publish>) -> Result<Entry> {
        self.outbox.publish(self.tx, what).await
    }

    /// Stores many; see [`Outbox::publish_all`].
    ///
    /// # Errors
    /// As [`Outbox::publish_all`].
    pub async fn publish_all<P: Into<Publish>>(
        &mut self,
        events: impl IntoIterator<Item = P>,
    ) -> Result<Entries> {
        self.outbox.publish_all(self.tx, events).await
    }
}

/// What the closure of [`Outbox::transaction`] has published so far.
///
/// The closure holds the transaction itself, so these are kept until it returns and are then stored in its transaction, in
/// their order, together.
#[derive(Debug, Default)]
pub struct Pending {
    events: Vec<Publish>,
}

impl Pending {
    /// Stores this event when the closure returns `Ok`.
    pub fn publish(&mut self, what: impl Into<Publish>) {
        self.events.push(what.into());
    }

    pub(super) fn into_events(self) -> Vec<Publish> {
        self.events
    }
}
