//! A transaction of the memory backend, which can commit late.

use super::Memory;
use super::state::Stored;
use crate::envelope::Envelope;
use crate::{Error, Result};

/// A transaction: what it publishes takes its number at once and is seen when it commits; dropped, it never was.
pub struct MemoryTx {
    memory: Memory,
    staged: Vec<(i64, Stored)>,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(usize);

impl MemoryTx {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, staged: Vec::new() }
    }

    /// Publishes an event in this transaction.
    ///
    /// # Errors
    /// As [`Envelope::check`] says; `Conflict` when its source and id exist, with whatever contents.
    pub fn publish(&mut self, event: Envelope) -> Result<()> {
        event.check(self.memory.payload_bytes_max)?;
        if self.is_there(&event) {
            return Err(duplicate(&event));
        }
        let stored = Stored::taken_in(event, self.memory.now());
        let seq = self.memory.lock().take_seq();
        self.staged.push((seq, stored));
        Ok(())
    }

    /// Whether an event with this source and id is there, as far as this transaction sees.
    pub fn is_there(&self, event: &Envelope) -> bool {
        let staged = self
            .staged
            .iter()
            .any(|(_, stored)| stored.envelope.source == event.source && stored.envelope.id == event.id);
        staged || self.memory.lock().with_identity(&event.source, &event.id).is_some()
    }

    /// Marks this point.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.staged.len())
    }

    /// Undoes everything since that point; its numbers are never used.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.staged.truncate(savepoint.0);
    }

    /// Makes everything visible at once.
    ///
    /// # Errors
    /// `Conflict` when another transaction committed one of these ids first; nothing of this one is stored then.
    pub fn commit(self) -> Result<()> {
        let mut state = self.memory.lock();
        for (_, stored) in &self.staged {
            if state.with_identity(&stored.envelope.source, &stored.envelope.id).is_some() {
                return Err(duplicate(&stored.envelope));
            }
        }
        state.events.extend(self.staged);
        drop(state);
        self.memory.signal.ring();
        Ok(())
    }

    /// Undoes everything; the same as dropping it.
    pub fn rollback(self) {}
}

fn duplicate(event: &Envelope) -> Error {
    Error::conflict(format!("the event {:?} of source {:?} exists", event.id, event.source))
}
