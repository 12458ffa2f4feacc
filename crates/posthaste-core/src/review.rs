//! Looking back at a store: what operators and relays changed, and what events died of.
//!
//! Every step of a command leaves its own record, in the transaction of the step. One record in the last step
//! would be missing for a command that was interrupted. Nobody changes a record later; on Postgres neither
//! relays nor operators have the right to. [`AuditPicker`] adds the steps of a command up to one line.

mod dead;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::admin::{Actor, Applied, Command, CommandKind, Filter, Page, Subject};
use crate::time::Timestamp;
use crate::{BoxFuture, Error, Result};

pub use dead::{DeadCodes, DeadGroup};

/// The words of the record: the names of all commands, [`REDEFINE`] and [`KEY_ADD`].
pub const VERBS: [&str; CommandKind::ALL.len() + 2] = {
    let mut verbs = [REDEFINE; CommandKind::ALL.len() + 2];
    verbs[CommandKind::ALL.len() + 1] = KEY_ADD;
    let mut index = 0;
    while index < CommandKind::ALL.len() {
        verbs[index] = CommandKind::ALL[index].name;
        index += 1;
    }
    verbs
};
/// A relay drives a lane with other topics, another order or another way with dead events than the one before.
pub const REDEFINE: &str = "redefine";
/// Somebody made an API key.
pub const KEY_ADD: &str = "key-add";

/// In the record of a removed lane: how much it had not read, at most.
pub const UNREAD: &str = "unread_at_most";
/// In the records of a command that took several steps: the same in all of them.
pub const RUN: &str = "run";
/// In each of these records but that of the last step: the how-manieth it is.
pub const PART: &str = "part";
/// In the record of the last step: how many records there are.
pub const PARTS: &str = "parts";

/// A new value of [`RUN`], which no other command on these pages has.
pub fn new_run() -> String {
    format!("{:012x}", fastrand::u64(..) >> 16)
}

/// How many records a page looks at; a page that found little says where to go on.
const LOOKED_AT_MAX: usize = 20_000;
/// How far the times of neighbours in the record may be out of order, by clocks that differ or are set back.
const SKEW: Duration = Duration::from_secs(300);

/// Looks back at a store, and keeps the record of what was done beside it.
pub trait Review: Send + Sync {
    /// What was changed and by whom, the newest first, a page at a time.
    ///
    /// # Errors
    /// `Rejected` from a store that keeps no record, and for a page that is not one of this store.
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        let _ = (filter, page);
        Box::pin(async {
            Err(Error::rejected(
                "this store keeps no record of commands; the log of whoever gave them has it",
            ))
        })
    }

    /// Writes down a command that was carried out elsewhere: on the dead letters of a broker. Number and time of the record are the
    /// store's own. Answers whether there is a place for it.
    ///
    /// # Errors
    /// What the store says.
    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        let _ = entry;
        Box::pin(async { Ok(false) })
    }

    /// How many events died of what, in the filter's lane or in all: counted by the code of their failure, each with when it was
    /// first and last seen and an example. Looks at no more than [`DeadCodes::EVENTS_MAX`] of a lane.
    ///
    /// # Errors
    /// `Rejected` for a filter that asks for more than [`DeadCodes::question`] takes, and from a store that has no codes.
    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        let _ = filter;
        Box::pin(async { Err(Error::rejected("this store has no codes; list its dead events one by one")) })
    }
}

/// Which records; every field that is set must match.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuditFilter {
    /// By this actor.
    pub actor: Option<String>,
    /// Of this command: one of [`VERBS`].
    pub verb: Option<String>,
    /// Written at or after.
    pub since: Option<Timestamp>,
    /// Also commands that found nothing to change. One that moved or removed a lane always changed something.
    pub with_unchanged: bool,
}

impl AuditFilter {
    fn means(&self, entry: &AuditEntry) -> bool {
        self.actor.as_ref().is_none_or(|actor| *actor == entry.actor.name)
            && self.verb.as_ref().is_none_or(|verb| *verb == entry.command)
            && self.since.is_none_or(|since| entry.at >= since)
            && (self.with_unchanged
                || entry.applied.changed > 0
                || entry.was_stopped()
                || entry.run().is_some()
                || is_of_lanes(&entry.command))
    }
}

/// Whether a command changes a lane also where no event is changed.
fn is_of_lanes(command: &str) -> bool {
    CommandKind::named(command).is_some_and(|kind| kind.subject != Subject::Events)
}

/// One thing that was done to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Counts up; not every number need be there.
    pub id: i64,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it, and from where.
    pub actor: Actor,
    /// What: one of [`VERBS`].
    pub command: String,
    /// To which events or lanes and with which settings, as a JSON object. A command that took several steps has a record of each step
    /// that changed something, written with it: all have the same [`RUN`], and the last one [`PARTS`]. A page shows them as one, with
    /// what the newest says and the sum of all; one that says [`PART`] is of a command that did not end, or has not ended yet.
    pub filter: String,
    /// To how many.
    pub applied: Applied,
}

impl AuditEntry {
    /// A record with this number.
    pub fn new(
        id: i64,
        at: Timestamp,
        actor: Actor,
        command: impl Into<String>,
        filter: impl Into<String>,
        applied: Applied,
    ) -> Self {
        Self { id, at, actor, command: command.into(), filter: filter.into(), applied }
    }

    /// What the records of one command that took several steps have in common.
    pub fn run(&self) -> Option<String> {
        // Most records have none: they need not be read for that.
        if !self.filter.contains("\"run\":") {
            return None;
        }
        let fields: Value = serde_json::from_str(&self.filter).ok()?;
        Some(fields.get(RUN)?.as_str()?.to_owned())
    }

    /// Whether it is the end of a command that somebody stopped: it belongs to the records before it, also if nothing was changed since.
    pub fn was_stopped(&self) -> bool {
        self.filter.contains("\"stopped\":true")
    }
}

/// A page of records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Audited {
    /// The records, the newest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins, if there may be one.
    pub next: Option<String>,
}

/// Picks a page out of records that are shown to it, the newest first; for those who implement [`Review`].
#[derive(Debug)]
pub struct AuditPicker {
    filter: AuditFilter,
    size: usize,
    looked_at: usize,
    last_seen: i64,
    picked: Audited,
    /// Which of the picked records each run is.
    runs: HashMap<String, usize>,
}

impl AuditPicker {
    /// Picks this page.
    ///
    /// # Errors
    /// `Rejected` when the page does not begin where one ended.
    pub fn new(filter: &AuditFilter, page: &Page) -> Result<Self> {
        let last_seen = match &page.after {
            Some(token) => token
                .parse()
                .map_err(|_| Error::rejected(format!("{token:?} is not a page of this store")))?,
            None => i64::MAX,
        };
        let size = page.size() as usize;
        let (picked, runs) = Default::default();
        Ok(Self { filter: filter.clone(), size, looked_at: 0, last_seen, picked, runs })
    }

    /// The number below which the next record to be shown is.
    pub fn below(&self) -> i64 {
        self.last_seen
    }

    /// Looks at the next record; breaks when it has seen enough.
    pub fn see(&mut self, entry: AuditEntry) -> ControlFlow<()> {
        if self.filter.since.is_some_and(|since| entry.at < since.before(SKEW)) {
            return ControlFlow::Break(());
        }
        let is_meant = self.filter.means(&entry);
        let run = entry.run().filter(|_| is_meant);
        let whole = run.as_ref().and_then(|run| self.runs.get(run)).copied();
        let is_full = is_meant && whole.is_none() && self.picked.entries.len() == self.size;
        if self.looked_at == LOOKED_AT_MAX || is_full {
            self.picked.next = Some(self.last_seen.to_string());
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        self.last_seen = entry.id;
        match whole.and_then(|whole| self.picked.entries.get_mut(whole)) {
            Some(whole) => {
                whole.applied.matched += entry.applied.matched;
                whole.applied.changed += entry.applied.changed;
            }
            None if is_meant => {
                self.runs.extend(run.map(|run| (run, self.picked.entries.len())));
                self.picked.entries.push(entry);
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    /// What was picked.
    pub fn picked(self) -> Audited {
        self.picked
    }
}

/// What the record says about a command: the filter's fields and what the command is told.
pub fn recorded(filter: &Filter, command: &Command) -> Map<String, Value> {
    let mut fields = filter.given();
    fields.extend(command.told());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: i64, minute: i64, actor: &str, command: &str, changed: u64) -> AuditEntry {
        let at = Timestamp::from_micros(minute * 60_000_000);
        AuditEntry::new(id, at, Actor::new(actor, "cli"), command, "{}", Applied::new(changed, changed))
    }

    /// The numbers of a page, and where the next begins.
    fn page(
        filter: &AuditFilter,
        size: u32,
        after: Option<&str>,
        entries: &[AuditEntry],
    ) -> (Vec<i64>, Option<String>) {
        let mut page = Page::first(size);
        page.after = after.map(str::to_owned);
        let mut picker = AuditPicker::new(filter, &page).unwrap();
        let below = picker.below();
        for entry in entries.iter().filter(|entry| entry.id < below) {
            if picker.see(entry.clone()).is_break() {
                break;
            }
        }
        let picked = picker.picked();
        (picked.entries.iter().map(|entry| entry.id).collect(), picked.next)
    }

    #[test]
    fn pages_hold_what_is_meant_and_say_where_to_go_on() {
        let entries = [
            entry(5, 50, "eve", "prune", 0),
            entry(4, 40, "eve", "redrive", 2),
            entry(3, 30, "bob", "pause", 1),
            entry(2, 20, "eve", "pause", 1),
            entry(1, 10, "bob", "redrive", 3),
        ];
        let all = AuditFilter::default();
        assert_eq!(page(&all, 2, None, &entries), (vec![4, 3], Some("3".to_owned())));
        assert_eq!(page(&all, 2, Some("3"), &entries), (vec![2, 1], None));
        let everything = AuditFilter { with_unchanged: true, ..AuditFilter::default() };
        assert_eq!(page(&everything, 9, None, &entries), (vec![5, 4, 3, 2, 1], None));
        let by_eve = AuditFilter { actor: Some("eve".to_owned()), ..AuditFilter::default() };
        assert_eq!(page(&by_eve, 9, None, &entries).0, [4, 2]);
        let pauses = AuditFilter { verb: Some("pause".to_owned()), ..AuditFilter::default() };
        assert_eq!(page(&pauses, 9, None, &entries).0, [3, 2]);
        let since = Some(Timestamp::from_micros(20 * 60_000_000));
        let late = AuditFilter { since, ..AuditFilter::default() };
        assert_eq!(page(&late, 9, None, &entries).0, [4, 3, 2]);
        let mut stopped = entry(8, 80, "eve", "redrive", 0);
        stopped.filter = r#"{"stopped":true}"#.to_owned();
        assert_eq!(page(&all, 9, None, &[stopped]).0, [8], "the end of a command that was stopped is shown");
        let removed = [entry(7, 70, "eve", "remove", 0)];
        assert_eq!(page(&all, 9, None, &removed).0, [7], "an empty lane that was removed is a change");
        assert!(AuditPicker::new(&all, &Page { after: Some("x".to_owned()), ..Page::first(1) }).is_err());
    }

    #[test]
    fn the_records_of_one_command_are_one_with_their_sum() {
        let part = |id, changed, fields: &str| {
            let mut entry = entry(id, id, "eve", "redrive", changed);
            entry.filter = fields.to_owned();
            entry
        };
        let entries = [
            part(6, 0, r#"{"parts":3,"run":"a"}"#),
            part(5, 2, r#"{"part":2,"run":"b"}"#),
            part(4, 30, r#"{"part":2,"run":"a"}"#),
            entry(3, 3, "bob", "pause", 1),
            part(2, 10, r#"{"part":1,"run":"a"}"#),
            part(1, 1, r#"{"part":1,"run":"b"}"#),
        ];
        let picked = |size: u32| {
            let mut picker = AuditPicker::new(&AuditFilter::default(), &Page::first(size)).unwrap();
            let broke = entries.iter().find(|entry| picker.see((*entry).clone()).is_break());
            let picked = picker.picked();
            assert_eq!(broke.is_some(), picked.next.is_some());
            let of = |entry: &AuditEntry| (entry.id, entry.applied.changed);
            (picked.entries.iter().map(of).collect::<Vec<_>>(), picked.next)
        };
        assert_eq!(picked(3), (vec![(6, 40), (5, 3), (3, 1)], None));
        assert_eq!(picked(2), (vec![(6, 30), (5, 2)], Some("4".to_owned())), "the rest is on the next page");
    }

    #[test]
    fn a_page_ends_after_so_much_work_and_the_next_goes_on() {
        let entries: Vec<_> = (1..=30_000).rev().map(|id| entry(id, id, "eve", "prune", 0)).collect();
        let filter = AuditFilter::default();
        let (found, next) = page(&filter, 10, None, &entries);
        assert_eq!((found.len(), next.as_deref()), (0, Some("10001")));
        assert_eq!(page(&filter, 10, next.as_deref(), &entries), (vec![], None));
    }
}
