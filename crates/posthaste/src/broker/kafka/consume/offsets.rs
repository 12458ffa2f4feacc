//! What a feed knows of one partition: what was taken, what is settled, and what the group may commit.
//!
//! A group's place in a partition is one offset: everything below it is done with. Deliveries are settled in any order, so only the
//! settled prefix is committed. What was settled beyond it is written into the note that Kafka keeps beside a group's offset, as far
//! as that is long enough, together with what is known of crashes: whoever has the partition next hands out only what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Kafka keeps notes of 4096 bytes, unless it is told otherwise.
const NOTE_BYTES_MAX: usize = 4_000;
/// What a note begins with; one that begins otherwise is not ours.
const OURS: &str = "posthaste/1";
/// Events whose crashes a note counts. They are handled one at a time, so there are few.
const TRIALS_MAX: usize = 20;
/// How far beyond the committed offset something may have been handed out that nobody wrote down.
const REACH: i64 = 1_000;
/// A partition that was opened so often and never closed has something in it that may end its consumers. Losing one process costs
/// nobody anything.
const RETURNS_MIN: u32 = 2;

/// What is to be committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Everything below is settled.
    pub(super) offset: i64,
    /// What is known beyond it.
    pub(super) note: String,
}

/// What is known of a partition beside the offset below which everything is settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// How often the partition was opened since it was closed in order, or since everything that was handed out then is settled.
    opened: u32,
    /// Nothing at or beyond this offset was handed out before the last opening.
    reach: i64,
    /// How often handling an event alone began and did not end, by its offset.
    trials: BTreeMap<i64, u32>,
    /// What is settled beyond the committed offset: from, and up to but without.
    done: BTreeMap<i64, i64>,
}

impl Note {
    /// Reads a note; one that others wrote says nothing.
    pub(super) fn read(text: &str) -> Self {
        let mut note = Self::default();
        let mut words = text.split(' ');
        if words.next() != Some(OURS) {
            return note;
        }
        for word in words {
            let Some(kind) = word.chars().next() else { continue };
            let items = word[kind.len_utf8()..].split(',');
            match kind {
                'o' => note.opened = word[1..].parse().unwrap_or(0),
                'r' => note.reach = word[1..].parse().unwrap_or(0),
                't' => note.trials = items.filter_map(|item| pair(item, ':')).collect(),
                'd' => note.done = items.filter_map(|item| pair(item, '-')).collect(),
                _ => {}
            }
        }
        note
    }

    /// How many events are settled beyond the committed offset.
    pub(super) fn settled(&self) -> i64 {
        self.done.iter().map(|(from, to)| to - from).sum()
    }

    fn write(&self) -> String {
        let mut text = format!("{OURS} o{} r{}", self.opened, self.reach);
        for (index, (offset, begun)) in self.trials.iter().take(TRIALS_MAX).enumerate() {
            let _ = write!(text, "{}{offset}:{begun}", if index == 0 { " t" } else { "," });
        }
        for (index, (from, to)) in self.done.iter().enumerate() {
            let item = format!("{}{from}-{to}", if index == 0 { " d" } else { "," });
            if text.len() + item.len() > NOTE_BYTES_MAX {
                // What is left out comes again.
                break;
            }
            text.push_str(&item);
        }
        text
    }
}

fn pair<B: std::str::FromStr>(item: &str, between: char) -> Option<(i64, B)> {
    let (first, second) = item.split_once(between)?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// What an event that was read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// To be handed out; alone and on record, if it may be what ends its consumers.
    New { on_trial: bool },
    /// Settled before, by whoever had the partition, or read before.
    Known,
    /// Before everything that was read: the partition was cut off and written anew.
    Behind,
}

/// One partition, as long as a feed has it.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The offset after the last that was read. Between the first unsettled one and this everything else is settled.
    next: Option<i64>,
    /// What was read and is not settled.
    unsettled: BTreeSet<i64>,
    /// Whether anything was read.
    has_read: bool,
    /// How often the partition was opened and not closed, before.
    returns: u32,
    note: Note,
}

impl Ledger {
    /// Opens a partition where the group was, if it was there at all.
    pub(super) fn open(committed: Option<i64>, note: &str) -> Self {
        let mut note = committed.map(|_| Note::read(note)).unwrap_or_default();
        let base = committed.unwrap_or(0);
        let has_suspects = note.reach > base;
        let returns = if has_suspects { note.opened } else { 0 };
        note.opened = returns.saturating_add(1);
        note.done.retain(|_, to| *to > base);
        Self { next: committed, unsettled: BTreeSet::new(), has_read: false, returns, note }
    }

    /// Takes in what was read. What is missing in between is not in the partition any more, or never was.
    pub(super) fn take(&mut self, offset: i64) -> Taken {
        match self.next {
            Some(next) if offset < next && !self.has_read => {
                // What was committed is of no use: the partition does not reach so far.
                self.note = Note { opened: 1, ..Note::default() };
                self.returns = 0;
            }
            Some(next) if offset < next => {
                let base = self.base().unwrap_or(next);
                return if offset < base { Taken::Behind } else { Taken::Known };
            }
            _ => {}
        }
        self.has_read = true;
        self.next = Some(offset + 1);
        let is_done = self.note.done.range(..=offset).next_back().is_some_and(|(_, to)| *to > offset);
        if !is_done {
            self.unsettled.insert(offset);
        }
        self.note.done.retain(|_, to| *to > offset + 1);
        self.clear_suspects();
        if is_done {
            return Taken::Known;
        }
        let is_suspect = self.returns >= RETURNS_MIN && offset < self.note.reach;
        Taken::New { on_trial: is_suspect || self.note.trials.contains_key(&offset) }
    }

    /// It is done with. Answers whether it was not before.
    pub(super) fn settle(&mut self, offset: i64) -> bool {
        let is_ours = self.unsettled.remove(&offset);
        self.note.trials.remove(&offset);
        self.clear_suspects();
        is_ours
    }

    /// Whether it was taken and is not settled.
    pub(super) fn holds(&self, offset: i64) -> bool {
        self.unsettled.contains(&offset)
    }

    /// Writes down that handling it alone begins. Answers how often it began before and did not end.
    pub(super) fn begin_trial(&mut self, offset: i64) -> u32 {
        if !self.holds(offset) {
            return 0;
        }
        let begun = self.note.trials.entry(offset).or_default();
        let before = *begun;
        *begun = before.saturating_add(1);
        before
    }

    /// Writes down that handling it alone has ended.
    pub(super) fn end_trial(&mut self, offset: i64) {
        if let Some(begun) = self.note.trials.get_mut(&offset) {
            *begun = begun.saturating_sub(1);
            if *begun == 0 {
                self.note.trials.remove(&offset);
            }
        }
    }

    /// It ends in order: what is not settled comes again, and nothing is to blame for that.
    pub(super) fn close(&mut self) {
        self.note.opened = 0;
    }

    /// What may be committed; nothing as long as it is not known where the group begins.
    pub(super) fn place(&self) -> Option<Place> {
        let offset = self.base()?;
        let mut note = self.note.clone();
        if self.returns == 0 {
            note.reach = offset + REACH;
        }
        note.done = self.done();
        Some(Place { offset, note: note.write() })
    }

    /// How far the reading is ahead of what may be committed.
    pub(super) fn gap(&self) -> i64 {
        self.next.zip(self.base()).map_or(0, |(next, base)| next - base)
    }

    /// Everything below is settled.
    fn base(&self) -> Option<i64> {
        self.unsettled.first().copied().or(self.next)
    }

    /// What is settled beyond the first unsettled one.
    fn done(&self) -> BTreeMap<i64, i64> {
        let mut done = BTreeMap::new();
        let mut after = None;
        for offset in self.unsettled.iter().copied().chain(self.next) {
            if let Some(from) = after.filter(|from| *from < offset) {
                done.insert(from, offset);
            }
            after = Some(offset + 1);
        }
        // What was settled before, and was not read yet.
        let next = self.next.unwrap_or(0);
        done.extend(self.note.done.iter().map(|(from, to)| ((*from).max(next), *to)));
        done
    }

    /// Once everything is settled that may have ended a consumer, nothing is suspected any more.
    fn clear_suspects(&mut self) {
        if self.returns > 0 && self.base().is_some_and(|base| base >= self.note.reach) {
            self.returns = 0;
            self.note.opened = self.note.opened.min(1);
        }
    }
}

#[cfg(test)]
mod tests;
