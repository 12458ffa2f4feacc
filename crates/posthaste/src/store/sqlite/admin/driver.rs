//! The commands of the log engine in a SQLite file: each step is a job of the writer, which shares its commit
//! with whatever else is written then.

use std::sync::Arc;

use posthaste_core::admin::{Applied, Command, Filter, Pace, Seek, all_lanes};
use posthaste_core::lane::LaneName;
use posthaste_core::log::question::{Head, KnownLane, Passed, Stretch};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use rusqlite::Connection;

use super::{change, inbox, lanes, prune, remove, scan, seek};
use crate::store::audit::{Journal, Note};
use crate::store::log::driver::{LogDriver, Place, Step, Work, WorkOf};
use crate::store::sqlite::{SqliteStore, log};

/// How many events one step changes, and how many rows it removes: what a commit may hold up others for.
const STEP_MAX: usize = 1_000;

/// What a lane has passed: all events up to a number.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct UpTo(pub(super) i64);

impl Passed for UpTo {
    fn holds(&self, head: &Head) -> bool {
        head.seq <= self.0
    }
}

/// What a command does to a file.
pub(super) type FileWork = WorkOf<SqliteStore>;

impl LogDriver for SqliteStore {
    type Passed = UpTo;
    type Goal = i64;

    async fn check(&self, command: &Command) -> Result<()> {
        match command {
            Command::Rebase { .. } => Err(Error::rejected(
                "a place in a file is a number that means the same wherever the file is; there is nothing to rebase",
            )),
            _ => Ok(()),
        }
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn known_lanes(&self) -> Result<Vec<KnownLane<UpTo>>> {
        self.read(lanes::known).await
    }

    async fn unread(&self, lane: &LaneName) -> Result<u64> {
        Ok(all_lanes(self).await?.iter().find(|stats| stats.lane == *lane).map_or(0, |stats| stats.unread))
    }

    async fn stretch(&self, filter: &Filter) -> Result<Stretch> {
        let filter = filter.clone();
        self.read(move |connection, sql| scan::stretch(connection, sql, &filter)).await
    }

    async fn goal(&self, to: Seek) -> Result<i64> {
        self.read(move |connection, sql| match to {
            Seek::Beginning => log::before_first(connection, sql),
            Seek::Time(time) => log::before(connection, sql, time),
            _ => log::last(connection, sql),
        })
        .await
    }

    async fn count(&self, work: &Arc<FileWork>, at: Place, pace: &Pace<'_>) -> Result<Step> {
        let (work, most) = (Arc::clone(work), pace.step(STEP_MAX));
        self.read(move |connection, sql| count(connection, sql, &work, &at, most)).await
    }

    async fn step(
        &self,
        work: &Arc<FileWork>,
        at: Place,
        pace: &Pace<'_>,
        journal: &mut Journal,
    ) -> Result<Step> {
        let (work, most, mut records) = (Arc::clone(work), pace.step(STEP_MAX), journal.clone());
        let take = move |connection: &Connection, sql: &SqliteSql, now| {
            let step = step(connection, sql, &work, &at, most, now)?;
            if let Some((note, applied)) = work.note(&step, &mut records) {
                write_note(&note, connection, sql, applied, now)?;
            }
            Ok((step, records))
        };
        let (step, records) = self.write(take).await?;
        *journal = records;
        Ok(step)
    }

    async fn write_note(&self, note: Note, applied: Applied) -> Result<()> {
        self.write(move |connection, sql, now| write_note(&note, connection, sql, applied, now)).await
    }
}

/// Counts what one step would change.
fn count(
    connection: &Connection,
    sql: &SqliteSql,
    work: &FileWork,
    at: &Place,
    most: usize,
) -> rusqlite::Result<Step> {
    match work {
        Work::Change { filter, change, stretch } => {
            let found = change::meant(connection, sql, (filter, change), *stretch, at, most)?;
            Ok(Step::counted(found.events.len() as u64, found.next))
        }
        Work::Remove { lane } => remove::count(connection, sql, lane),
        Work::Move(way) => seek::count(connection, sql, way, at),
        Work::CountAgain(way) => seek::count_again(connection, sql, way, at),
        Work::Prune(before) => prune::count(connection, sql, *before, at),
        Work::PruneInbox { before } => inbox::count(connection, sql, *before),
        Work::SetState { .. } | Work::Rebase { .. } => Ok(Step::default()),
    }
}

/// Takes one step.
fn step(
    connection: &Connection,
    sql: &SqliteSql,
    work: &FileWork,
    at: &Place,
    most: usize,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    match work {
        Work::Change { filter, change, stretch } => {
            let found = change::meant(connection, sql, (filter, change), *stretch, at, most)?;
            let changed = change::change(connection, sql, (filter, change), &found.events, now)?;
            Ok(Step { matched: found.events.len() as u64, changed, next: found.next })
        }
        Work::SetState { lanes, state, .. } => lanes::set_state(connection, sql, lanes, *state, now),
        Work::Remove { lane } => remove::step(connection, sql, lane, at, most, now),
        Work::Move(way) => seek::step(connection, sql, way, now),
        Work::Prune(before) => prune::step(connection, sql, *before, most, at, now),
        Work::PruneInbox { before } => inbox::step(connection, sql, at, most, *before),
        Work::CountAgain(_) | Work::Rebase { .. } => Ok(Step::default()),
    }
}

/// Writes a record, in the transaction of what it is about.
fn write_note(
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
