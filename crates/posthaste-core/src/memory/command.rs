//! What operators do to the memory backend.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::state::{LaneRow, Parked, ParkedState, State};
use crate::admin::{Actor, Applied, Command, EventState, Filter, LaneState, Seek};
use crate::lane::LaneName;
use crate::review::{AuditEntry, UNREAD, recorded};
use crate::time::Timestamp;
use crate::{Error, Result};

impl State {
    pub(super) fn apply(
        &mut self,
        filter: &Filter,
        command: &Command,
        by: &Actor,
        now: Timestamp,
    ) -> Result<Applied> {
        let unread = self.unread_to_forget(filter, command);
        let applied = match command {
            Command::Redrive { dry_run } => self.redrive(filter, *dry_run, now)?,
            Command::Replay { dry_run } => self.replay(filter, *dry_run, now)?,
            Command::Discard { reason, dry_run } => self.discard(filter, reason, *dry_run, now)?,
            Command::Bury { reason, dry_run } => self.bury(filter, reason, *dry_run, now)?,
            Command::Schedule { at, dry_run } => self.schedule(filter, at.resolve(now), *dry_run, now)?,
            Command::Pause => self.each_lane(filter, |lane| {
                lane.state = LaneState::Paused;
                lane.reason = None;
            })?,
            Command::Resume => self.each_lane(filter, |lane| {
                lane.state = LaneState::Active;
                lane.reason = None;
            })?,
            Command::Seek { to, dry_run } => self.seek(filter, *to, *dry_run)?,
            Command::Skip { age, reason, dry_run } => {
                self.skip(filter, now.before(*age), reason, *dry_run)?
            }
            Command::Remove { dry_run } => self.remove(filter, *dry_run)?,
            Command::Prune { delivered_age, dead_age, dry_run } => {
                self.prune(*delivered_age, *dead_age, *dry_run, now)
            }
            Command::PruneInbox { age, dry_run } => self.prune_inbox(*age, *dry_run, now),
            Command::Erase { dry_run } => self.erase(filter, *dry_run),
            Command::Rebase { .. } => return Err(nothing_to_rebase()),
        };
        if !command.is_dry_run() {
            let mut fields = recorded(filter, command);
            fields.extend(unread.map(|unread| (UNREAD.to_owned(), unread.into())));
            let fields = serde_json::Value::Object(fields).to_string();
            self.write_down(now, by.clone(), command.name(), fields, applied);
        }
        Ok(applied)
    }

    /// How much the lane has not read that this command removes.
    fn unread_to_forget(&self, filter: &Filter, command: &Command) -> Option<usize> {
        let lane = self.lanes.get(filter.lane.as_ref()?)?;
        matches!(command, Command::Remove { .. }).then(|| self.unread(lane).count())
    }

    /// Writes down what was done.
    pub(super) fn write_down(
        &mut self,
        now: Timestamp,
        by: Actor,
        command: &str,
        filter: String,
        applied: Applied,
    ) {
        let id = self.audit.last().map_or(1, |entry| entry.id + 1);
        self.audit.push(AuditEntry::new(id, now, by, command, filter, applied));
    }

    /// The name of the filter's lane, which must exist.
    fn lane_of(&self, filter: &Filter) -> Result<LaneName> {
        self.check_lane(filter)?;
        let name = filter.lane.clone();
        name.ok_or_else(|| Error::rejected("this needs a lane; name the one that is meant"))
    }

    /// The events that the filter means and its lane sees in such a state.
    fn meant(&self, filter: &Filter, lane: &LaneName, is: impl Fn(EventState) -> bool) -> Vec<i64> {
        let lane = &self.lanes[lane];
        self.events
            .iter()
            .filter(|(seq, stored)| self.matches(filter, **seq, stored) && is(lane.view_of(**seq)))
            .map(|(seq, _)| *seq)
            .collect()
    }

    fn redrive(&mut self, filter: &Filter, dry_run: bool, now: Timestamp) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let meant = self.meant(filter, &name, |state| state == EventState::Dead);
        Ok(self.change(&name, &meant, dry_run, now, |lane, seq| {
            let row = lane.parked.get_mut(&seq).expect("a dead event has a row");
            row.state = ParkedState::Retrying;
            row.available_at = Some(now);
            row.attempts = 0;
            row.dead_at = None;
            row.replay = true;
        }))
    }

    fn replay(&mut self, filter: &Filter, dry_run: bool, now: Timestamp) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let meant = self.meant(filter, &name, |state| state == EventState::Delivered);
        let keys: Vec<_> = meant.iter().map(|seq| self.events[seq].envelope.key.clone()).collect();
        let mut keys = keys.into_iter();
        Ok(self.change(&name, &meant, dry_run, now, |lane, seq| {
            let mut row = Parked::new(keys.next().flatten(), ParkedState::Retrying, Some(now));
            row.replay = true;
            // It is taken in once more, so that the totals add up and none falls below zero.
            lane.accepted += 1;
            lane.parked.insert(seq, row);
        }))
    }

    fn discard(&mut self, filter: &Filter, reason: &str, dry_run: bool, now: Timestamp) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let lane = &self.lanes[&name];
        let meant: Vec<i64> = self
            .meant(filter, &name, |state| state == EventState::Dead || state.is_pending())
            .into_iter()
            .filter(|seq| lane.parked.contains_key(seq))
            .collect();
        Ok(self.change(&name, &meant, dry_run, now, |lane, seq| {
            let row = lane.parked.get_mut(&seq).expect("only parked events are meant");
            row.discard("discarded", reason, now);
            lane.discarded += 1;
        }))
    }

    fn bury(&mut self, filter: &Filter, reason: &str, dry_run: bool, now: Timestamp) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let lane = &self.lanes[&name];
        let mut meant = self.meant(filter, &name, EventState::is_pending);
        meant.retain(|seq| lane.parked.contains_key(seq));
        Ok(self.change(&name, &meant, dry_run, now, |lane, seq| {
            let row = lane.parked.get_mut(&seq).expect("only parked events are meant");
            row.discard("buried", reason, now);
            row.state = ParkedState::Dead;
        }))
    }

    fn schedule(&mut self, filter: &Filter, at: Timestamp, dry_run: bool, now: Timestamp) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let is_timed = |state| matches!(state, EventState::Retrying | EventState::Scheduled);
        let meant = self.meant(filter, &name, is_timed);
        Ok(self.change(&name, &meant, dry_run, now, |lane, seq| {
            lane.parked.get_mut(&seq).expect("what waits for a time has a row").available_at = Some(at);
        }))
    }

    /// Does this to the events of a lane, unless it is a dry run; who waited behind one of them may go on.
    fn change(
        &mut self,
        lane: &LaneName,
        meant: &[i64],
        dry_run: bool,
        now: Timestamp,
        mut change: impl FnMut(&mut LaneRow, i64),
    ) -> Applied {
        let matched = meant.len() as u64;
        if dry_run {
            return Applied::new(matched, 0);
        }
        let lane = self.lanes.get_mut(lane).expect("the lane was looked up");
        meant.iter().for_each(|&seq| change(lane, seq));
        lane.promote(now);
        Applied::new(matched, matched)
    }

    fn each_lane(&mut self, filter: &Filter, change: impl Fn(&mut LaneRow)) -> Result<Applied> {
        let names = match &filter.lane {
            Some(_) => vec![self.lane_of(filter)?],
            None => self.lanes.keys().cloned().collect(),
        };
        for name in &names {
            change(self.lanes.get_mut(name).expect("it was looked up"));
        }
        Ok(Applied::new(names.len() as u64, names.len() as u64))
    }

    fn seek(&mut self, filter: &Filter, to: Seek, dry_run: bool) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let passed: BTreeSet<i64> = match to {
            Seek::Beginning => BTreeSet::new(),
            Seek::End => self.events.keys().copied().collect(),
            Seek::Time(at) => self.before(at),
        };
        let lane = self.lanes.get_mut(&name).expect("it was looked up");
        let wanted = self.events.iter().filter(|(_, stored)| lane.spec.wants(&stored.envelope.topic));
        let (mut skipped, mut again) = (0, 0);
        for (seq, _) in wanted {
            // What is parked stays parked, unless the row only says that it was delivered.
            match lane.view_of(*seq) {
                EventState::Pending => skipped += u64::from(passed.contains(seq)),
                EventState::Delivered => again += u64::from(!passed.contains(seq)),
                _ => {}
            }
        }
        if dry_run {
            return Ok(Applied::new(skipped + again, 0));
        }
        lane.passed = passed;
        lane.forget_all_done();
        lane.give_up_unread(skipped);
        lane.stumbles = 0;
        lane.fence();
        Ok(Applied::new(skipped + again, skipped + again))
    }

    fn skip(&mut self, filter: &Filter, before: Timestamp, reason: &str, dry_run: bool) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let old = self.before(before);
        let lane = self.lanes.get_mut(&name).expect("it was looked up");
        let unread: Vec<i64> = old.into_iter().filter(|seq| !lane.passed.contains(seq)).collect();
        let is_wanted =
            |seq: &&i64| !lane.parked.contains_key(seq) && lane.spec.wants(&self.events[seq].envelope.topic);
        let skipped = unread.iter().filter(is_wanted).count() as u64;
        if dry_run || unread.is_empty() {
            return Ok(Applied::new(skipped, 0));
        }
        lane.passed.extend(unread);
        lane.forget_done();
        lane.give_up_unread(skipped);
        lane.reason = Some(crate::redact::clean(reason));
        lane.stumbles = 0;
        lane.fence();
        Ok(Applied::new(skipped, skipped))
    }

    fn remove(&mut self, filter: &Filter, dry_run: bool) -> Result<Applied> {
        let name = self.lane_of(filter)?;
        let is_done = |row: &&Parked| row.state == ParkedState::Done;
        let parked = self.lanes[&name].parked.values().filter(|row| !is_done(row)).count() as u64;
        if dry_run {
            return Ok(Applied::new(parked, 0));
        }
        if let Some(mut lane) = self.lanes.remove(&name) {
            lane.fence();
            self.epoch_floor = self.epoch_floor.max(lane.epoch);
        }
        Ok(Applied::new(parked, parked))
    }

    fn prune(
        &mut self,
        delivered_age: Option<Duration>,
        dead_age: Option<Duration>,
        dry_run: bool,
        now: Timestamp,
    ) -> Applied {
        let ended = dead_age.map_or(Vec::new(), |age| self.ended_before(now.before(age)));
        let ended_seqs: BTreeSet<i64> = ended.iter().map(|(_, seq)| *seq).collect();
        let going: Vec<i64> = self
            .events
            .iter()
            .filter(|(seq, stored)| {
                let old = delivered_age.is_some_and(|age| stored.created_at < now.before(age));
                (old || ended_seqs.contains(seq)) && self.is_done_with(**seq, &ended)
            })
            .map(|(seq, _)| *seq)
            .collect();
        let matched = going.len() as u64;
        if dry_run {
            return Applied::new(matched, 0);
        }
        // What stays keeps its rows: without one it would count as delivered there.
        for (name, seq) in ended.into_iter().filter(|(_, seq)| going.binary_search(seq).is_ok()) {
            let lane = self.lanes.get_mut(&name).expect("the row was found in it");
            if lane.parked.remove(&seq).is_some_and(|row| row.state == ParkedState::Dead) {
                lane.discarded += 1;
            }
            lane.promote(now);
        }
        for seq in going {
            self.events.remove(&seq);
        }
        Applied::new(matched, matched)
    }

    fn prune_inbox(&mut self, age: Duration, dry_run: bool, now: Timestamp) -> Applied {
        let is_old = |handled_at: &Timestamp| *handled_at < now.before(age);
        let matched = self.inbox.values().filter(|at| is_old(at)).count() as u64;
        if dry_run {
            return Applied::new(matched, 0);
        }
        self.inbox.retain(|_, at| !is_old(at));
        Applied::new(matched, matched)
    }

    /// The dead and discarded rows that became so before this time and that their lane's place has passed.
    fn ended_before(&self, time: Timestamp) -> Vec<(LaneName, i64)> {
        let rows = self.lanes.iter().flat_map(|(name, lane)| {
            let ended = |row: &Parked| !row.state.is_waiting() && row.dead_at.is_some_and(|at| at < time);
            let in_lane =
                lane.parked.iter().filter(move |(seq, row)| ended(row) && lane.passed.contains(seq));
            in_lane.map(|(seq, _)| (name.clone(), *seq))
        });
        rows.collect()
    }

    /// Whether every lane has passed this event and none has it parked, once these rows are gone. Without a lane
    /// nobody has read anything, and everything stays.
    fn is_done_with(&self, seq: i64, gone: &[(LaneName, i64)]) -> bool {
        let done = |(name, lane): (&LaneName, &LaneRow)| {
            let parked = lane.parked.contains_key(&seq) && !gone.contains(&(name.clone(), seq));
            lane.passed.contains(&seq) && !parked
        };
        !self.lanes.is_empty() && self.lanes.iter().all(done)
    }

    fn erase(&mut self, filter: &Filter, dry_run: bool) -> Applied {
        let meant: Vec<i64> = self
            .events
            .iter()
            .filter(|(seq, stored)| !stored.erased && self.matches(filter, **seq, stored))
            .map(|(seq, _)| *seq)
            .collect();
        let matched = meant.len() as u64;
        if dry_run {
            return Applied::new(matched, 0);
        }
        for seq in meant {
            let stored = self.events.get_mut(&seq).expect("it matched");
            Arc::make_mut(&mut stored.envelope).payload.clear();
            stored.erased = true;
        }
        Applied::new(matched, matched)
    }
}

fn nothing_to_rebase() -> Error {
    Error::rejected("places in this store are no server's own; there is nothing to rebase")
}
