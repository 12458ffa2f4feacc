//! The record of who did what.

use posthaste_core::admin::{Actor, Applied, Command, Filter};
use posthaste_core::review::{AuditEntry, PART, PARTS, RUN, new_run, recorded};
use posthaste_core::time::Timestamp;
use serde_json::{Map, Value};

/// Who gave which command about what.
#[derive(Clone, Debug)]
pub(in crate::store) struct Note {
    pub(in crate::store) actor: String,
    pub(in crate::store) via: String,
    pub(in crate::store) command: &'static str,
    fields: Map<String, Value>,
}

impl Note {
    pub(in crate::store) fn new(filter: &Filter, command: &Command, by: &Actor) -> Self {
        Self {
            actor: by.name.clone(),
            via: by.via.clone(),
            command: command.name(),
            fields: recorded(filter, command),
        }
    }

    /// What the column `filter` says.
    pub(in crate::store) fn filter(&self) -> String {
        Value::Object(self.fields.clone()).to_string()
    }

    /// The record itself; its number and its time are the store's.
    pub(in crate::store) fn entry(&self, applied: Applied) -> AuditEntry {
        let by = Actor::new(&self.actor, &self.via);
        AuditEntry::new(0, Timestamp::default(), by, self.command, self.filter(), applied)
    }

    /// The same with another field.
    pub(in crate::store) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

/// The records of a command that is done in steps, each in a transaction of its own.
///
/// Every step that changes something leaves one with itself, so that what was done is recorded whenever and however the command is broken
/// off. A record is never changed: what they count adds up, and a reader sees them as one.
#[derive(Clone, Debug)]
pub(in crate::store) struct Journal {
    note: Note,
    run: String,
    /// What matched since the last record.
    unrecorded: Applied,
    records: u64,
}

impl Journal {
    pub(in crate::store) fn new(note: Note) -> Self {
        Self { note, run: new_run(), unrecorded: Applied::default(), records: 0 }
    }

    /// The same where every record has this field too.
    pub(in crate::store) fn with(self, name: &str, value: impl Into<Value>) -> Self {
        Self { note: self.note.with(name, value), ..self }
    }

    /// What is to be written in the transaction of this step, if anything.
    pub(in crate::store) fn after(&mut self, step: Applied, is_last: bool) -> Option<(Note, Applied)> {
        self.unrecorded.matched += step.matched;
        self.unrecorded.changed += step.changed;
        if !is_last && self.unrecorded.changed == 0 {
            return None;
        }
        Some(self.record(if is_last { PARTS } else { PART }))
    }

    /// What is to be written when somebody stopped it between two steps.
    pub(in crate::store) fn stopped(&mut self) -> (Note, Applied) {
        let (note, applied) = self.record(PARTS);
        (note.with("stopped", true), applied)
    }

    /// What is to be written when a step failed.
    pub(in crate::store) fn failed(&mut self, why: &str) -> (Note, Applied) {
        let (note, applied) = self.stopped();
        (note.with("failed", why), applied)
    }

    /// The next record; one that is the only one is not numbered.
    fn record(&mut self, number: &str) -> (Note, Applied) {
        self.records += 1;
        let note = match (number, self.records) {
            (PARTS, 1) => self.note.clone(),
            _ => self.note.clone().with(RUN, self.run.as_str()).with(number, self.records),
        };
        (note, std::mem::take(&mut self.unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let by = Actor::new("eve", "cli");
        Journal::new(Note::new(&Filter::default(), &Command::Redrive { dry_run: false }, &by))
    }

    /// Which part it is and of how many, and how much it counts.
    type Told = (Option<u64>, Option<u64>, u64);

    fn told((note, applied): (Note, Applied)) -> Told {
        let number = |name: &str| note.fields.get(name).and_then(Value::as_u64);
        assert_eq!(note.fields.contains_key(RUN), number(PART).or(number(PARTS)).is_some());
        (number(PART), number(PARTS), applied.changed)
    }

    /// What is written after each of these steps.
    fn written(steps: &[u64]) -> Vec<Option<Told>> {
        let (mut journal, last) = (journal(), steps.len() - 1);
        let steps = steps.iter().enumerate();
        steps.map(|(n, count)| journal.after(Applied::new(*count, *count), n == last).map(told)).collect()
    }

    #[test]
    fn every_step_that_changes_something_is_recorded_with_itself() {
        let part = |part, count| Some((Some(part), None, count));
        let last = |parts, count| Some((None, Some(parts), count));
        assert_eq!(written(&[7]), [Some((None, None, 7))]);
        assert_eq!(written(&[5, 3]), [part(1, 5), last(2, 3)]);
        assert_eq!(written(&[5, 0, 3, 2, 0]), [part(1, 5), None, part(2, 3), part(3, 2), last(4, 0)]);
        assert_eq!(written(&[0, 3, 2]), [None, part(1, 3), last(2, 2)], "nothing was changed before");
        assert_eq!(written(&[0, 0]), [None, Some((None, None, 0))]);
    }

    #[test]
    fn a_command_that_is_stopped_says_so() {
        let mut journal = journal();
        journal.after(Applied::new(5, 5), false);
        let (note, applied) = journal.stopped();
        assert_eq!(note.fields["stopped"], true);
        assert_eq!(told((note, applied)), (None, Some(2), 0));
    }
}
