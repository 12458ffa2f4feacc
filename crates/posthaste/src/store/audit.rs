//! The record of who did what.

use posthaste_core::admin::{Actor, Applied, Command, Filter};
use posthaste_core::review::{AuditEntry, recorded};
use posthaste_core::time::Timestamp;
use serde_json::{Map, Value};

/// Who gave which command about what; how much it did is known at its last step.
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

    fn part(&self, part: &str) -> Self {
        let mut note = self.clone();
        note.fields.insert("part".to_owned(), part.into());
        note
    }
}

/// The records of a command that is done in steps, each in a transaction of its own.
///
/// The first step leaves one with itself, so that a command that is broken off is not one that nobody gave; the last step leaves
/// one about all others. A record is never changed: what two of them count adds up.
#[derive(Clone, Debug)]
pub(in crate::store) struct Journal {
    note: Note,
    /// What was done since the last record.
    unrecorded: Applied,
    has_begun: bool,
}

impl Journal {
    pub(in crate::store) fn new(note: Note) -> Self {
        Self { note, unrecorded: Applied::default(), has_begun: false }
    }

    /// What is to be written in the transaction of this step, if anything.
    pub(in crate::store) fn after(&mut self, step: Applied, is_last: bool) -> Option<(Note, Applied)> {
        self.unrecorded.matched += step.matched;
        self.unrecorded.changed += step.changed;
        let note = match (self.has_begun, is_last) {
            (false, true) => self.note.clone(),
            (true, true) => self.note.part("rest"),
            (false, false) if self.unrecorded.changed > 0 => self.note.part("first"),
            _ => return None,
        };
        self.has_begun = true;
        Some((note, std::mem::take(&mut self.unrecorded)))
    }

    /// What is to be written when somebody stopped it between two steps.
    pub(in crate::store) fn stopped(&mut self) -> (Note, Applied) {
        self.broken_off(None)
    }

    /// What is to be written when a step failed.
    pub(in crate::store) fn failed(&mut self, why: &str) -> (Note, Applied) {
        self.broken_off(Some(why))
    }

    fn broken_off(&mut self, why: Option<&str>) -> (Note, Applied) {
        let mut note = if self.has_begun { self.note.part("rest") } else { self.note.clone() };
        note.fields.insert("stopped".to_owned(), true.into());
        note.fields.extend(why.map(|why| ("failed".to_owned(), why.into())));
        self.has_begun = true;
        (note, std::mem::take(&mut self.unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written after each of these steps.
    fn written(steps: &[u64]) -> Vec<Option<(Option<String>, u64)>> {
        let by = Actor::new("eve", "cli");
        let note = Note::new(&Filter::default(), &Command::Redrive { dry_run: false }, &by);
        let mut journal = Journal::new(note);
        let part = |note: &Note| note.fields.get("part").and_then(|part| part.as_str()).map(str::to_owned);
        let last = steps.len() - 1;
        let steps = steps.iter().enumerate();
        steps
            .map(|(n, count)| {
                let entry = journal.after(Applied::new(*count, *count), n == last);
                entry.map(|(note, applied)| (part(&note), applied.changed))
            })
            .collect()
    }

    #[test]
    fn the_first_change_is_recorded_with_itself_and_all_add_up() {
        let first = |count| Some((Some("first".to_owned()), count));
        let rest = |count| Some((Some("rest".to_owned()), count));
        assert_eq!(written(&[7]), [Some((None, 7))]);
        assert_eq!(written(&[5, 3]), [first(5), rest(3)]);
        assert_eq!(written(&[5, 3, 2, 0]), [first(5), None, None, rest(5)]);
        assert_eq!(written(&[0, 3, 2]), [None, first(3), rest(2)], "nothing was changed before");
        assert_eq!(written(&[0, 0]), [None, Some((None, 0))]);
    }
}
