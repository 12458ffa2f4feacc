//! What a command leaves in the record: rows of a table that the owner of the database made for it, or else a line in the log.

use posthaste_core::Error;
use posthaste_core::admin::{Actor, Applied, Command, Filter};
use posthaste_core::review::AuditEntry;
use posthaste_core::telemetry::AUDIT_TARGET;

use crate::store::audit::{Journal, Note};

/// The records of one command on a table, which is done in steps.
#[derive(Clone, Debug)]
pub(in crate::store) struct Ledger {
    note: Note,
    journal: Journal,
    /// Whether the database has a table for it.
    is_kept: bool,
    /// A step that changed fewer rows is the last of its kind,
    rows: u64,
    /// and no other kind comes after it.
    is_last_kind: bool,
    /// After so many it is done, whatever comes meanwhile.
    enough: Option<u64>,
    so_far: u64,
}

impl Ledger {
    pub(super) fn new(filter: &Filter, command: &Command, by: &Actor, is_kept: bool) -> Self {
        let note = Note::new(filter, command, by);
        let journal = Journal::new(note.clone());
        Self { note, journal, is_kept, rows: 0, is_last_kind: true, enough: None, so_far: 0 }
    }

    /// Steps change at most so many rows from here on.
    pub(super) fn by(&mut self, rows: u32, is_last_kind: bool) {
        (self.rows, self.is_last_kind) = (u64::from(rows), is_last_kind);
    }

    /// It ends with so many.
    pub(super) fn enough(&mut self, rows: u64) {
        self.enough = Some(rows);
    }

    /// What was done so far.
    pub(super) fn applied(&self) -> Applied {
        Applied::new(self.so_far, self.so_far)
    }

    /// Whether no step comes after one that changed so many.
    pub(super) fn is_over(&self, step: u64) -> bool {
        step < self.rows || self.enough.is_some_and(|enough| self.so_far >= enough)
    }

    /// What is to be written in the transaction of a step that changed so many, if anything.
    pub(in crate::store) fn after(&mut self, step: u64) -> Option<AuditEntry> {
        self.so_far += step;
        let is_last = self.is_last_kind && self.is_over(step);
        let (note, applied) = self.journal.after(Applied::new(step, step), is_last)?;
        self.is_kept.then(|| note.entry(applied))
    }

    /// The record that is still to be written when somebody stopped the command, or when it was a step that failed.
    pub(super) fn broken_off(&mut self, why: Option<&Error>) -> Option<AuditEntry> {
        let (note, applied) = match why {
            Some(error) => self.journal.failed(&error.to_string()),
            None => self.journal.stopped(),
        };
        self.is_kept.then(|| note.entry(applied))
    }

    /// Says in the log what the record does not have: who gave which command, and what it did.
    pub(super) fn say(&self, why: &str, failed: Option<&Error>) {
        let (note, changed) = (&self.note, self.so_far);
        let failed = failed.map(ToString::to_string);
        tracing::info!(
            target: AUDIT_TARGET,
            actor = note.actor,
            via = note.via,
            verb = note.command,
            filter = %note.filter(),
            changed,
            failed,
            "an operator's command; {why}"
        );
    }

    /// Says before its first step who gave a command that nothing else records: one that is broken off is not one that nobody gave.
    pub(super) fn say_begun_unless_kept(&self, command: &Command) {
        if !self.is_kept && !is_upkeep(command) {
            self.say("it begins", None);
        }
    }

    /// Says so if there is no other record; upkeep that changed nothing is not worth a word.
    pub(super) fn say_unless_kept(&self, command: &Command, prefix: &str, failed: Option<&Error>) {
        let is_nothing = is_upkeep(command) && self.so_far == 0 && failed.is_none();
        if !self.is_kept && !is_nothing {
            let why = format!(
                "the database has no table {prefix}audit to keep it in, which posthaste migrate print --audit shows"
            );
            self.say(&why, failed);
        }
    }
}

fn is_upkeep(command: &Command) -> bool {
    matches!(command, Command::Prune { .. } | Command::PruneInbox { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let command = Command::Redrive { dry_run: false };
        let mut ledger = Ledger::new(&Filter::default(), &command, &Actor::new("eve", "cli"), true);
        ledger.by(5, true);
        ledger
    }

    #[test]
    fn every_step_leaves_a_record_and_a_failure_too() {
        let mut done = ledger();
        assert_eq!(done.after(5).unwrap().applied.changed, 5);
        assert_eq!(done.after(5).unwrap().applied.changed, 5);
        let last = done.after(1).unwrap();
        assert_eq!(last.applied.changed, 1);
        assert!(last.filter.contains("\"parts\":3"), "{}", last.filter);
        let mut broken = ledger();
        broken.after(5);
        broken.after(5);
        let entry = broken.broken_off(Some(&Error::unavailable("cut"))).unwrap();
        assert_eq!(entry.applied.changed, 0, "what was done is recorded");
        assert!(entry.was_stopped() && entry.filter.contains("cut"), "{}", entry.filter);
        assert_eq!(broken.applied().changed, 10);
    }

    #[test]
    fn two_kinds_are_one_command() {
        let mut prune = ledger();
        prune.by(5, false);
        assert!(prune.after(0).is_none(), "nothing was removed yet, and more comes");
        prune.by(5, true);
        assert_eq!(prune.after(3).unwrap().applied.changed, 3);
    }
}
