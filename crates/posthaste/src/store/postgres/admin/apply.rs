//! Carrying out commands: each in steps of a short transaction, each with a record of what it changed.

use std::ops::ControlFlow;

use posthaste_core::admin::{Actor, Applied, Command, Filter, LaneState, Pace};
use posthaste_core::lane::LaneName;
use posthaste_core::review::UNREAD;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Transaction};

use super::change::{self, Change, Step};
use super::inbox;
use super::lanes::{self, KnownLane};
use super::prune::{self, Before, Place};
use super::scan::Stretch;
use crate::store::audit::{Journal, Note};
use crate::store::postgres::acquire::hold_events;
use crate::store::postgres::cursor::SHARD;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, check, commit, rows};
use crate::store::refusals::{half_removed, no_such_lane};

impl PostgresStore {
    pub(super) async fn command(
        &self,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let note = Note::new(filter, &command, by);
        if reads_ids(&command)
            && let Some(moved) = check::moved(&*self.client().await?, &self.sql, self.prefix.as_str()).await?
        {
            return Err(moved);
        }
        match command {
            Command::Redrive { dry_run } => self.change(filter, Change::Redrive, dry_run, note, pace).await,
            Command::Replay { dry_run } => self.change(filter, Change::Replay, dry_run, note, pace).await,
            Command::Discard { reason, dry_run } => {
                self.change(filter, Change::Discard { reason }, dry_run, note, pace).await
            }
            Command::Bury { reason, dry_run } => {
                self.change(filter, Change::Bury { reason }, dry_run, note, pace).await
            }
            Command::Schedule { at, dry_run } => {
                self.change(filter, Change::Schedule { at }, dry_run, note, pace).await
            }
            Command::Erase { dry_run } => self.change(filter, Change::Erase, dry_run, note, pace).await,
            Command::Pause => self.set_state(filter, LaneState::Paused, note).await,
            Command::Resume => self.set_state(filter, LaneState::Active, note).await,
            Command::Seek { to, dry_run } => self.seek(filter, to, dry_run, note, pace).await,
            Command::Skip { age, reason, dry_run } => {
                let before = self.now().await?.before(age);
                self.skip(filter, before, &reason, dry_run, note, pace).await
            }
            Command::Remove { dry_run } => self.remove(filter, dry_run, note).await,
            Command::Prune { delivered_age, dead_age, dry_run } => {
                check_prune(filter)?;
                let now = self.now().await?;
                let before = Before {
                    created: delivered_age.map(|age| now.before(age)),
                    dead: dead_age.map(|age| now.before(age)),
                };
                self.prune(before, dry_run, note, pace).await
            }
            Command::PruneInbox { age, dry_run } => {
                check_prune(filter)?;
                let before = self.now().await?.before(age);
                self.prune_inbox(before, dry_run, note, pace).await
            }
            Command::Rebase { upgraded, dry_run } => self.rebase(filter, upgraded, dry_run, note).await,
            other => Err(Error::rejected(format!("this store does not know the command {:?}", other.name()))),
        }
    }

    pub(in crate::store::postgres) async fn now(&self) -> Result<Timestamp> {
        let row = self.client().await?.query_typed_one(&self.sql.now, &[]).await.map_err(explain)?;
        rows::time(&row, 0).map_err(explain)
    }

    /// The filter's lane, which must be named and exist.
    pub(super) async fn lane_of(&self, filter: &Filter) -> Result<KnownLane> {
        let name = filter
            .lane
            .clone()
            .ok_or_else(|| Error::rejected("this needs a lane; name the one that is meant"))?;
        let known = lanes::known(&*self.client().await?, &self.sql).await.map_err(explain)?;
        known.into_iter().find(|lane| lane.name == name).ok_or_else(|| no_such_lane(&name))
    }

    async fn change(
        &self,
        filter: &Filter,
        change: Change,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        if !matches!(change, Change::Erase) || filter.lane.is_some() {
            self.lane_of(filter).await?;
        }
        let whole = Stretch::of(&*self.client().await?, &self.sql, filter).await.map_err(explain)?;
        let (mut applied, mut from) = (Applied::default(), Some(whole.first));
        let mut journal = (!dry_run).then(|| Journal::new(note));
        while let Some(first) = from {
            let stretch = Stretch { first, ..whole };
            let step = self.change_step(filter, &change, stretch, pace, journal.as_mut()).await?;
            applied = sum(applied, step);
            from = step.next;
            if from.is_some() && pace.after(applied).await.is_break() {
                self.stop_here(journal.as_mut()).await?;
                break;
            }
        }
        Ok(applied)
    }

    /// Leaves in the record what the steps did before somebody stopped them; of a dry run nothing.
    pub(super) async fn stop_here(&self, journal: Option<&mut Journal>) -> Result<()> {
        let Some((note, applied)) = journal.map(Journal::stopped) else { return Ok(()) };
        let client = self.client().await?;
        insert_note(&client, &self.sql.audit_insert, &note, applied).await.map_err(explain)
    }

    /// One step in its own transaction, which begins with the lock of the lane's row: settles wait, and what was found
    /// does not change before it is changed. Without a journal it only counts.
    async fn change_step(
        &self,
        filter: &Filter,
        change: &Change,
        stretch: Stretch,
        pace: &Pace<'_>,
        journal: Option<&mut Journal>,
    ) -> Result<Step> {
        let mut client = self.client().await?;
        let (sql, most) = (&self.sql, pace.step(change::STEP_EVENTS_MAX));
        let Some(journal) = journal else {
            let (meant, next) =
                change::meant(&client, sql, filter, change, stretch, most).await.map_err(explain)?;
            return Ok(Step { matched: meant.len() as u64, changed: 0, next });
        };
        let lane = filter.lane.as_ref().map_or("", |lane| lane.as_str());
        let tx = begin(&mut client).await?;
        if matches!(change, Change::Replay) {
            hold_events(&tx, sql).await.map_err(explain)?;
        }
        let locked = tx.query_typed_opt(&sql.lane_lock, &args![lane, SHARD]).await.map_err(explain)?;
        let now = locked.map(|row| rows::time(&row, 0)).transpose().map_err(explain)?.unwrap_or_default();
        let (meant, next) =
            change::meant(tx.client(), sql, filter, change, stretch, most).await.map_err(explain)?;
        let changed = change::change(&tx, sql, lane, change, &meant, now).await.map_err(explain)?;
        let step = Step { matched: meant.len() as u64, changed, next };
        self.write_down(tx.client(), journal, step).await?;
        commit(tx).await?;
        Ok(step)
    }

    /// Writes what this step leaves in the record, on the connection of its transaction.
    pub(super) async fn write_down(&self, client: &Client, journal: &mut Journal, step: Step) -> Result<()> {
        let done = Applied::new(step.matched, step.changed);
        if let Some((note, applied)) = journal.after(done, step.next.is_none()) {
            insert_note(client, &self.sql.audit_insert, &note, applied).await.map_err(explain)?;
        }
        Ok(())
    }

    async fn set_state(&self, filter: &Filter, state: LaneState, note: Note) -> Result<Applied> {
        let names: Vec<LaneName> = match &filter.lane {
            Some(_) => vec![self.lane_of(filter).await?.name],
            None => {
                let known = lanes::known(&*self.client().await?, &self.sql).await.map_err(explain)?;
                known.into_iter().map(|lane| lane.name).collect()
            }
        };
        let mut client = self.client().await?;
        let tx = begin(&mut client).await?;
        let mut changed = 0;
        for name in &names {
            changed += tx
                .execute_typed(&self.sql.lane_state, &args![name.as_str(), SHARD, state.name()])
                .await
                .map_err(explain)?;
        }
        let applied = half_removed(filter, Applied::new(changed, changed))?;
        insert_note(tx.client(), &self.sql.audit_insert, &note, applied).await.map_err(explain)?;
        commit(tx).await?;
        Ok(applied)
    }

    async fn remove(&self, filter: &Filter, dry_run: bool, note: Note) -> Result<Applied> {
        let lane = self.lane_of(filter).await?.name;
        let name = lane.as_str();
        let mut client = self.client().await?;
        if dry_run {
            let row = client.query_typed_one(&self.sql.lane_parked_count, &args![name]).await;
            let count: i64 = row.and_then(|row| row.try_get(0)).map_err(explain)?;
            return Ok(Applied::new(count.unsigned_abs(), 0));
        }
        let known = lanes::stats(&client, &self.sql).await.map_err(explain)?;
        let unread = known.iter().find(|stats| stats.lane == lane).map_or(0, |stats| stats.unread);
        let (mut applied, mut journal) = (Applied::default(), Journal::new(note).with(UNREAD, unread));
        let mut is_begun = false;
        loop {
            let tx = begin(&mut client).await?;
            if !std::mem::replace(&mut is_begun, true) {
                let values = args![name, SHARD];
                tx.execute_typed(&self.sql.lane_removing, &values).await.map_err(explain)?;
                tx.execute_typed(&self.sql.done_forget_all, &args![name]).await.map_err(explain)?;
            }
            let step = self.remove_step(&tx, name).await.map_err(explain)?;
            self.write_down(tx.client(), &mut journal, step).await?;
            commit(tx).await?;
            applied = sum(applied, step);
            if step.next.is_none() {
                return Ok(applied);
            }
        }
    }

    /// Removes a part of what the lane has parked, and with the last part the lane.
    async fn remove_step(&self, tx: &Transaction<'_>, lane: &str) -> Db<Step> {
        let limit = prune::STEP_ROWS_MAX;
        let rows = tx.execute_typed(&self.sql.lane_parked_delete, &args![lane, limit]).await?;
        if rows == limit.unsigned_abs() {
            return Ok(Step { matched: rows, changed: rows, next: Some(0) });
        }
        if let Some(row) = tx.query_typed_opt(&self.sql.lane_delete, &args![lane, SHARD]).await? {
            let epoch: i64 = row.try_get(0)?;
            tx.execute_typed(&self.sql.epoch_floor_raise, &args![epoch]).await?;
        }
        Ok(Step { matched: rows, changed: rows, next: None })
    }

    /// First what is over in all lanes, with what they have of it; then what is old; then ticks.
    async fn prune(&self, before: Before, dry_run: bool, note: Note, pace: &Pace<'_>) -> Result<Applied> {
        let (mut applied, mut journal) = (Applied::default(), Journal::new(note));
        let rows = i64::try_from(pace.step(prune::STEP_ROWS_MAX as usize)).unwrap_or(prune::STEP_ROWS_MAX);
        if let (Some(dead), false) = (before.dead, dry_run) {
            let over = self.prune_over(dead, rows, &mut journal, pace).await?;
            applied = match over {
                ControlFlow::Continue(applied) => applied,
                ControlFlow::Break(applied) => return Ok(applied),
            };
        }
        let mut client = self.client().await?;
        let (first, last) = prune::stretch(&client, &self.sql, before).await.map_err(explain)?;
        let (mut from, mut is_recorded) = ((first < last).then_some(first), false);
        while let Some(after) = from {
            let step = match before.created {
                _ if dry_run => prune::count_step(&client, &self.sql, after, last, before).await,
                Some(created) => {
                    let tx = begin(&mut client).await?;
                    let step = prune::events_step(&tx, &self.sql, (after, last), rows, created).await;
                    let step = step.map_err(explain)?;
                    self.write_down(tx.client(), &mut journal, step).await?;
                    commit(tx).await?;
                    is_recorded = step.next.is_none();
                    Ok(step)
                }
                None => break,
            };
            let step = step.map_err(explain)?;
            applied = sum(applied, step);
            from = step.next;
            if from.is_some() && pace.after(applied).await.is_break() {
                self.stop_here((!dry_run).then_some(&mut journal)).await?;
                return Ok(applied);
            }
        }
        if !dry_run {
            while {
                let tx = begin(&mut client).await?;
                let has_more = prune::ticks_step(&tx, &self.sql).await.map_err(explain)?;
                commit(tx).await?;
                has_more
            } {}
            // The last step has left the record, if there was one.
            if !is_recorded {
                self.write_down(&client, &mut journal, Step::default()).await?;
            }
        }
        Ok(applied)
    }

    async fn prune_inbox(
        &self,
        before: Timestamp,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let mut client = self.client().await?;
        if dry_run {
            let matched = inbox::count(&client, &self.sql, before).await.map_err(explain)?;
            return Ok(Applied::new(matched, 0));
        }
        let (mut applied, mut journal, mut from) =
            (Applied::default(), Journal::new(note), Some(inbox::FIRST));
        while let Some(at) = from {
            let tx = begin(&mut client).await?;
            let step = inbox::prune_step(&tx, &self.sql, at, before).await.map_err(explain)?;
            self.write_down(tx.client(), &mut journal, step).await?;
            commit(tx).await?;
            applied = sum(applied, step);
            from = step.next;
            if from.is_some() && pace.after(applied).await.is_break() {
                self.stop_here(Some(&mut journal)).await?;
                break;
            }
        }
        Ok(applied)
    }

    /// What is dead or discarded for too long, lane by lane; breaks when somebody stopped it.
    async fn prune_over(
        &self,
        dead: Timestamp,
        rows: i64,
        journal: &mut Journal,
        pace: &Pace<'_>,
    ) -> Result<ControlFlow<Applied, Applied>> {
        let mut client = self.client().await?;
        let mut applied = Applied::default();
        for lane in lanes::known(&client, &self.sql).await.map_err(explain)? {
            let mut from = Some(Place::FIRST);
            while let Some(place) = from {
                let tx = begin(&mut client).await?;
                let step = prune::over_step(&tx, &self.sql, lane.name.as_str(), dead, place, rows).await;
                let (gone, next) = step.map_err(explain)?;
                let step = Step { matched: gone, changed: gone, next: Some(0) };
                self.write_down(tx.client(), journal, step).await?;
                commit(tx).await?;
                applied = sum(applied, step);
                from = next;
                if from.is_some() && pace.after(applied).await.is_break() {
                    self.stop_here(Some(journal)).await?;
                    return Ok(ControlFlow::Break(applied));
                }
            }
        }
        Ok(ControlFlow::Continue(applied))
    }
}

/// Records who did what.
pub(super) async fn insert_note(client: &Client, text: &str, note: &Note, applied: Applied) -> Db<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (matched, changed) = (count(applied.matched), count(applied.changed));
    client
        .execute_typed(text, &args![note.actor, note.via, note.command, note.filter(), matched, changed])
        .await
        .map(drop)
}

/// Whether a command goes by what ticks see: in a database that was moved they seem to see what was never delivered.
fn reads_ids(command: &Command) -> bool {
    !matches!(
        command,
        Command::Pause
            | Command::Resume
            | Command::Remove { .. }
            | Command::Discard { .. }
            | Command::Bury { .. }
            | Command::Schedule { .. }
            | Command::Erase { .. }
            | Command::Rebase { .. }
    )
}

pub(super) fn sum(so_far: Applied, step: Step) -> Applied {
    Applied::new(so_far.matched + step.matched, so_far.changed + step.changed)
}

/// Retention is about all lanes and all events.
fn check_prune(filter: &Filter) -> Result<()> {
    if filter.is_empty() {
        return Ok(());
    }
    Err(Error::rejected("a prune takes no filter: it removes what every lane has passed"))
}
