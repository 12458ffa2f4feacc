//! The operator's side: groups as lanes, dead letters as records.

use super::LocalBroker;
use super::dead::DeadLetter;
use crate::admin::{
    Actor, Admin, Applied, Command, EventState, Facts, Filter, Found, LaneStats, LaneView, Lanes, Pace, Page,
    Record,
};
use crate::{BoxFuture, Error, Result};

impl Admin for LocalBroker {
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        Box::pin(async move {
            let groups = self.groups();
            let stats = groups
                .iter()
                .map(|group| {
                    let mut stats = LaneStats::new(group.name().parse()?);
                    let state = group.lock();
                    stats.accepted = state.totals.accepted;
                    stats.delivered = state.totals.delivered;
                    stats.waiting = state.events as u64;
                    stats.dead = state.totals.dead;
                    stats.discarded = state.totals.discarded;
                    stats.replayed = state.totals.replayed;
                    Ok(stats)
                })
                .collect::<Result<_>>()?;
            Ok(Lanes::page(stats, &page))
        })
    }

    /// Finds dead letters: there is no log, so nothing else can be found.
    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(async move {
            let before = page.after.as_deref().map(str::parse::<i64>).transpose();
            let before = before.map_err(|_| Error::rejected("the page token is not one of this broker"))?;
            let mut letters: Vec<DeadLetter> = self.dead();
            letters
                .retain(|letter| matches(filter, letter) && before.is_none_or(|seq| letter.entry.seq < seq));
            letters.sort_by_key(|letter| std::cmp::Reverse(letter.entry.seq));
            let size = page.size() as usize;
            let mut found = Found::default();
            if letters.len() > size {
                letters.truncate(size);
                found.next = letters.last().map(|letter| letter.entry.seq.to_string());
            }
            found.records =
                letters.iter().map(|letter| record(letter, page.with_payload)).collect::<Result<_>>()?;
            Ok(found)
        })
    }

    /// Redrives and discards dead letters.
    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        _: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move {
            let (redrive, dry_run) = command.on_dead_letters("the local broker")?;
            let chosen = self.choose(filter, dry_run);
            tracing::info!(
                actor = by.name,
                via = by.via,
                command = command.name(),
                letters = chosen.len(),
                "on the local broker"
            );
            let matched = chosen.len() as u64;
            if dry_run {
                return Ok(Applied::new(matched, 0));
            }
            for letter in chosen {
                if redrive { self.redrive(letter) } else { self.inner.give_up(&letter) }
            }
            Ok(Applied::new(matched, matched))
        })
    }
}

impl LocalBroker {
    /// The letters that match, taken out of the buffer unless this is a dry run.
    fn choose(&self, filter: &Filter, dry_run: bool) -> Vec<DeadLetter> {
        let mut letters = self.inner.dead.lock();
        if dry_run {
            return letters.iter().filter(|letter| matches(filter, letter)).cloned().collect();
        }
        let (chosen, kept) = letters.drain(..).partition(|letter| matches(filter, letter));
        *letters = kept;
        Vec::from(chosen)
    }

    fn redrive(&self, letter: DeadLetter) {
        let mut entry = letter.entry;
        (entry.attempt, entry.replay, entry.first_failed_at) = (1, true, None);
        if let Some(group) = self.groups().iter().find(|group| group.name() == letter.group) {
            group.redrive(entry);
        }
    }
}

fn matches(filter: &Filter, letter: &DeadLetter) -> bool {
    filter.lane.as_ref().is_none_or(|lane| lane.as_str() == letter.group)
        && filter.state.is_none_or(|state| state == EventState::Dead)
        && filter.means(&Facts::of(&letter.envelope, letter.entry.taken_in_at))
        && filter.fits_failure(Some(&letter.reason.code), Some(&letter.reason.message))
}

fn record(letter: &DeadLetter, with_payload: bool) -> Result<Record> {
    let mut envelope = (*letter.envelope).clone();
    let bytes = envelope.payload.len() as u64;
    if !with_payload {
        envelope.payload.clear();
    }
    let mut view = LaneView::new(letter.group.parse()?, EventState::Dead);
    view.attempts = letter.attempts;
    view.code = Some(letter.reason.code.clone());
    view.last_error = Some(letter.reason.message.clone());
    view.first_failed_at = Some(letter.first_failed_at);
    view.dead_at = Some(letter.dead_at);
    let mut record = Record::new(letter.entry.seq, envelope, Some(bytes), letter.entry.taken_in_at);
    record.lanes.push(view);
    Ok(record)
}
