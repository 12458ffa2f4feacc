//! A transaction of the memory backend, which can commit late.

use posthaste_sql::{BoxFuture, Database, Dialect, SqlError, Statement, Tx};

use super::Memory;
use super::state::Stored;
use super::statement::{InboxRow, Understood, understand};
use crate::envelope::Envelope;
use crate::{Error, Result};

/// A transaction: what it publishes takes its number at once and is seen when it commits; dropped, it never was.
///
/// It is a [`Tx`] too, so that an [`Outbox`](crate::outbox::Outbox) publishes in it as in any other.
pub struct MemoryTx {
    memory: Memory,
    staged: Vec<(i64, Stored)>,
    inbox: Vec<InboxRow>,
    named: Vec<(String, Savepoint)>,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(usize, usize);

impl MemoryTx {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, staged: Vec::new(), inbox: Vec::new(), named: Vec::new() }
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
    fn is_there(&self, event: &Envelope) -> bool {
        let same = |stored: &Stored| stored.envelope.source == event.source && stored.envelope.id == event.id;
        self.staged.iter().any(|(_, stored)| same(stored))
            || self.memory.lock().with_identity(&event.source, &event.id).is_some()
    }

    /// Marks this point.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.staged.len(), self.inbox.len())
    }

    /// Undoes everything since that point; its numbers are never used.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.staged.truncate(savepoint.0);
        self.inbox.truncate(savepoint.1);
    }

    /// Makes everything visible at once.
    ///
    /// # Errors
    /// `Conflict` when another transaction committed one of these ids first; nothing of this one is stored then.
    pub fn commit(self) -> Result<()> {
        let now = self.memory.now();
        let mut state = self.memory.lock();
        for (_, stored) in &self.staged {
            if state.with_identity(&stored.envelope.source, &stored.envelope.id).is_some() {
                return Err(duplicate(&stored.envelope));
            }
        }
        if let Some((consumer, id, _)) = self.inbox.iter().find(|row| state.inbox.contains_key(*row)) {
            return Err(Error::conflict(format!("the event {id:?} was handled by {consumer:?} meanwhile")));
        }
        state.events.extend(self.staged);
        state.inbox.extend(self.inbox.into_iter().map(|row| (row, now)));
        drop(state);
        self.memory.signal.ring();
        Ok(())
    }

    /// Undoes everything; the same as dropping it.
    pub fn rollback(self) {}

    /// Runs a statement, all of it or nothing.
    fn run(&mut self, statement: Statement) -> Result<u64, SqlError> {
        match understand(statement)? {
            Understood::Savepoint(name) => self.named.push((name, self.savepoint())),
            Understood::RollbackTo(name) => {
                let point =
                    self.named.iter().rev().find(|(named, _)| *named == name).map(|(_, point)| *point);
                self.rollback_to(point.ok_or_else(|| SqlError::message(format!("no savepoint {name}")))?);
            }
            Understood::Inbox(rows) => return Ok(self.enter(rows)),
            Understood::Insert { events, once } => {
                let before = self.savepoint();
                return self.insert(events, once).inspect_err(|_| self.rollback_to(before));
            }
        }
        Ok(0)
    }

    /// Writes inbox rows that are not there, as far as this transaction sees. A row that another one has not committed yet
    /// is not waited for: whoever commits second is refused.
    fn enter(&mut self, rows: Vec<InboxRow>) -> u64 {
        let before = self.inbox.len();
        for row in rows {
            if !self.inbox.contains(&row) && !self.memory.lock().inbox.contains_key(&row) {
                self.inbox.push(row);
            }
        }
        (self.inbox.len() - before) as u64
    }

    fn insert(&mut self, events: Vec<Envelope>, once: bool) -> Result<u64, SqlError> {
        let mut rows = 0;
        for event in events {
            let there = self.is_there(&event);
            if there && !once {
                return Err(SqlError::new(duplicate(&event)).as_duplicate());
            }
            if !there {
                self.publish(event).map_err(SqlError::new)?;
                rows += 1;
            }
        }
        Ok(rows)
    }
}

impl Tx for MemoryTx {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, posthaste_sql::Result<u64>> {
        Box::pin(async move { self.run(statement) })
    }
}

impl Database for Memory {
    type Tx = MemoryTx;

    fn begin(&self) -> BoxFuture<'_, posthaste_sql::Result<MemoryTx>> {
        Box::pin(async { Ok(Memory::begin(self)) })
    }

    fn commit(tx: MemoryTx) -> BoxFuture<'static, posthaste_sql::Result<()>> {
        Box::pin(async { tx.commit().map_err(SqlError::new) })
    }
}

fn duplicate(event: &Envelope) -> Error {
    Error::conflict(format!("the event {:?} of source {:?} exists", event.id, event.source))
}
