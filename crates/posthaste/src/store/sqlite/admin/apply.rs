//! Carrying out commands: each in steps that share commits with everybody else, each with a record of what it changed.

use std::sync::Arc;

use posthaste_core::admin::{Actor, Applied, Command, Filter, LaneState, Pace};
use posthaste_core::lane::LaneName;
use posthaste_core::review::UNREAD;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use rusqlite::{Connection, OptionalExtension};

use super::change::{self, Change, Step};
use super::inbox;
use super::lanes::{self, KnownLane};
use super::prune::{self, Before, Place};
use super::scan::Stretch;
use crate::store::audit::{Journal, Note};
use crate::store::refusals::{half_removed, no_such_lane};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::cursor::SHARD;

impl SqliteStore {
    pub(super) async fn command(
        &self,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let note = Note::new(filter, &command, by);
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
                let before = self.clock.now().before(age);
                self.skip(filter, before, reason, dry_run, note, pace).await
            }
            Command::Remove { dry_run } => self.remove(filter, dry_run, note).await,
            Command::Prune { delivered_age, dead_age, dry_run } => {
                check_prune(filter)?;
                let now = self.clock.now();
                let before = Before {
                    created: delivered_age.map(|age| now.before(age)),
                    dead: dead_age.map(|age| now.before(age)),
                };
                self.prune(before, dry_run, note, pace).await
            }
            Command::PruneInbox { age, dry_run } => {
                check_prune(filter)?;
                let before = self.clock.now().before(age);
                self.prune_inbox(before, dry_run, note, pace).await
            }
            Command::Rebase { .. } => Err(Error::rejected(
                "a place in a file is a number that means the same wherever the file is; there is nothing to rebase",
            )),
            other => Err(Error::rejected(format!("this store does not know the command {:?}", other.name()))),
        }
    }

    /// The filter's lane, which must be named and exist.
    pub(super) async fn lane_of(&self, filter: &Filter) -> Result<KnownLane> {
        let name = filter
            .lane
            .clone()
            .ok_or_else(|| Error::rejected("this needs a lane; name the one that is meant"))?;
        let known = self.read(lanes::known).await?;
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
        let filter = Arc::new(filter.clone());
        let whole = {
            let filter = Arc::clone(&filter);
            self.read(move |connection, sql| Stretch::of(connection, sql, &filter)).await?
        };
        let most = pace.step(change::STEP_CHANGES_MAX);
        self.in_steps(dry_run, whole.first, note, pace, move |connection, sql, first, now| {
            change::step(connection, sql, &filter, &change, Stretch { first, ..whole }, most, now)
        })
        .await
    }

    async fn prune_inbox(
        &self,
        before: Timestamp,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        self.in_steps(dry_run, inbox::FIRST, note, pace, move |connection, sql, at, now| match now {
            Some(_) => inbox::prune_step(connection, sql, at, before),
            None => inbox::count(connection, sql, before),
        })
        .await
    }

    /// Runs a step again and again until it says that there is no next, or until somebody stops it; each that changes something writes a
    /// record, and the last one in any case.
    pub(super) async fn in_steps<P, F>(
        &self,
        dry_run: bool,
        first: P,
        note: Note,
        pace: &Pace<'_>,
        step: F,
    ) -> Result<Applied>
    where
        P: Send + 'static,
        F: Fn(&Connection, &SqliteSql, P, Option<Timestamp>) -> rusqlite::Result<Step<P>>
            + Send
            + Sync
            + 'static,
    {
        let (step, mut journal) = (Arc::new(step), Journal::new(note));
        let (mut applied, mut from) = (Applied::default(), Some(first));
        while let Some(first) = from {
            let (step, mut records) = (Arc::clone(&step), journal.clone());
            let taken = if dry_run {
                self.read(move |connection, sql| step(connection, sql, first, None)).await?
            } else {
                let work = move |connection: &Connection, sql: &SqliteSql, now| {
                    let taken = step(connection, sql, first, Some(now))?;
                    let done = Applied::new(taken.matched, taken.changed);
                    if let Some((note, applied)) = records.after(done, taken.next.is_none()) {
                        write_note(&note, connection, sql, applied, now)?;
                    }
                    Ok((taken, records))
                };
                let (taken, records) = self.write(work).await?;
                journal = records;
                taken
            };
            applied = sum(applied, &taken);
            from = taken.next;
            if from.is_some() && pace.after(applied).await.is_break() {
                if !dry_run {
                    let (note, applied) = journal.stopped();
                    let write = move |connection: &Connection, sql: &SqliteSql, now| {
                        write_note(&note, connection, sql, applied, now)
                    };
                    self.write(write).await?;
                }
                break;
            }
        }
        Ok(applied)
    }

    async fn set_state(&self, filter: &Filter, state: LaneState, note: Note) -> Result<Applied> {
        let names: Vec<LaneName> = match &filter.lane {
            Some(_) => vec![self.lane_of(filter).await?.name],
            None => self.read(lanes::known).await?.into_iter().map(|lane| lane.name).collect(),
        };
        let is_named = filter.lane.is_some();
        self.write(move |connection, sql, now| {
            let mut statement = connection.prepare_cached(&sql.lane_state)?;
            let mut changed = 0;
            for name in &names {
                changed += statement.execute((name.as_str(), SHARD, state.name(), now.as_micros()))? as u64;
            }
            let applied = Applied::new(changed, changed);
            if changed > 0 || !is_named {
                write_note(&note, connection, sql, applied, now)?;
            }
            Ok(applied)
        })
        .await
        .and_then(|applied| half_removed(filter, applied))
    }

    async fn remove(&self, filter: &Filter, dry_run: bool, note: Note) -> Result<Applied> {
        let name = self.lane_of(filter).await?.name;
        if dry_run {
            let count = move |connection: &Connection, sql: &SqliteSql| {
                connection.query_row(&sql.lane_parked_count, [name.as_str()], |row| row.get::<_, i64>(0))
            };
            return Ok(Applied::new(self.read(count).await?.unsigned_abs(), 0));
        }
        let (clock, lane) = (Arc::clone(&self.clock), name.clone());
        let lanes = self.read(move |connection, sql| lanes::stats(connection, sql, clock.now())).await?;
        let unread = lanes.iter().find(|stats| stats.lane == lane).map_or(0, |stats| stats.unread);
        let note = note.with(UNREAD, unread);
        // Half a lane is none: it is removed to its end.
        let remove = move |connection: &Connection, sql: &SqliteSql, at, now: Option<Timestamp>| {
            if at == REMOVE_BEGINS {
                begin_removal(connection, sql, &name, now.unwrap_or_default())?;
            }
            remove_step(connection, sql, &name)
        };
        self.in_steps(false, REMOVE_BEGINS, note, &Pace::full(), remove).await
    }

    async fn prune(&self, before: Before, dry_run: bool, note: Note, pace: &Pace<'_>) -> Result<Applied> {
        if dry_run {
            let count = move |connection: &Connection, sql: &SqliteSql, after, _| {
                prune::count_step(connection, sql, after, before)
            };
            return self.in_steps(true, 0, note, pace, count).await;
        }
        let rows = pace.step(prune::STEP_ROWS_MAX);
        self.in_steps(false, Place::First, note, pace, move |connection, sql, at, now| {
            prune::step(connection, sql, before, rows, at, now.unwrap_or_default())
        })
        .await
    }
}

/// Where a removal is before its first step.
const REMOVE_BEGINS: i64 = -1;

/// Nobody drives the lane from here on.
fn begin_removal(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let values = (lane.as_str(), SHARD, now.as_micros());
    connection.prepare_cached(&sql.lane_removing)?.execute(values)?;
    connection.prepare_cached(&sql.done_forget)?.execute((lane.as_str(), i64::MAX)).map(drop)
}

/// Removes a part of what the lane has parked, and with the last part the lane.
fn remove_step(connection: &Connection, sql: &SqliteSql, lane: &LaneName) -> rusqlite::Result<Step> {
    let limit = prune::STEP_ROWS_MAX;
    let values = (lane.as_str(), limit as i64);
    let rows = connection.prepare_cached(&sql.lane_parked_delete)?.execute(values)?;
    let count = rows as u64;
    if rows == limit {
        return Ok(Step { matched: count, changed: count, next: Some(0) });
    }
    let mut delete = connection.prepare_cached(&sql.lane_delete)?;
    let epoch: Option<i64> = delete.query_row((lane.as_str(), SHARD), |row| row.get(0)).optional()?;
    if let Some(epoch) = epoch {
        connection.prepare_cached(&sql.epoch_floor_raise)?.execute([epoch])?;
    }
    Ok(Step { matched: count, changed: count, next: None })
}

/// Writes a record, in the transaction of what it is about.
pub(super) fn write_note(
    note: &Note,
    connection: &Connection,
    sql: &SqliteSql,
    applied: Applied,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    connection.prepare_cached(&sql.audit_insert)?.execute((
        now.as_micros(),
        &note.actor,
        &note.via,
        note.command,
        note.filter(),
        count(applied.matched),
        count(applied.changed),
    ))?;
    Ok(())
}

fn sum<P>(so_far: Applied, step: &Step<P>) -> Applied {
    Applied::new(so_far.matched + step.matched, so_far.changed + step.changed)
}

/// Retention is about all lanes and all events.
fn check_prune(filter: &Filter) -> Result<()> {
    if filter.is_empty() {
        return Ok(());
    }
    Err(Error::rejected("a prune takes no filter: it removes what every lane has passed"))
}
