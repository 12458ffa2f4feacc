//! The commands of the log engine on a Postgres server: each step is a short transaction.

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::admin::{Applied, Command, Filter, Pace, Seek, all_lanes};
use posthaste_core::lane::LaneName;
use posthaste_core::log::question::{KnownLane, Stretch};
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::lanes::{self, Passed};
use super::seek::{self, Goal};
use super::{change, inbox, prune, remove, scan};
use crate::store::audit::{Journal, Note};
use crate::store::log::driver::{LogDriver, Place, Step, Work, WorkOf};
use crate::store::log::refusals::no_such_lane;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, check, commit, rows};

/// What a command does on a server.
type ServerWork = WorkOf<PostgresStore>;

impl LogDriver for PostgresStore {
    type Passed = Passed;
    type Goal = Goal;

    async fn check(&self, command: &Command) -> Result<()> {
        if !reads_ids(command) {
            return Ok(());
        }
        let client = self.client().await?;
        check::moved(&client, &self.sql, self.prefix.as_str()).await?.map_or(Ok(()), Err)
    }

    async fn now(&self) -> Result<Timestamp> {
        let row = self.client().await?.query_typed_one(&self.sql.now, &[]).await.map_err(explain)?;
        rows::time(&row, 0).map_err(explain)
    }

    async fn known_lanes(&self) -> Result<Vec<KnownLane<Passed>>> {
        lanes::known(&*self.client().await?, &self.sql).await.map_err(explain)
    }

    async fn unread(&self, lane: &LaneName) -> Result<u64> {
        Ok(all_lanes(self).await?.iter().find(|stats| stats.lane == *lane).map_or(0, |stats| stats.unread))
    }

    async fn stretch(&self, filter: &Filter) -> Result<Stretch> {
        scan::stretch(&*self.client().await?, &self.sql, filter).await.map_err(explain)
    }

    async fn goal(&self, to: Seek) -> Result<Goal> {
        seek::goal(&*self.client().await?, &self.sql, to).await
    }

    async fn count(&self, work: &Arc<ServerWork>, at: Place, pace: &Pace<'_>) -> Result<Step> {
        let (mut client, sql) = (self.client().await?, &self.sql);
        let counted = match &**work {
            Work::Change { filter, change, stretch } => {
                let most = pace.step(change::STEP_EVENTS_MAX);
                let meant = change::meant(&client, sql, (filter, change), *stretch, &at, most).await;
                meant.map(|meant| Step::counted(meant.events.len() as u64, meant.next))
            }
            Work::Remove { lane } => remove::count(&client, sql, lane).await,
            Work::Move(way) => seek::count(&client, sql, way, &at).await,
            Work::CountAgain(way) => seek::count_again(&client, sql, way, &at).await,
            Work::Prune(before) => prune::count(&client, sql, *before, &at).await,
            Work::PruneInbox { before } => inbox::count(&client, sql, *before).await,
            Work::Rebase { upgraded } => return self.count_rebase(&mut client, *upgraded).await,
            Work::SetState { .. } => Ok(Step::default()),
        };
        counted.map_err(explain)
    }

    async fn step(
        &self,
        work: &Arc<ServerWork>,
        at: Place,
        pace: &Pace<'_>,
        journal: &mut Journal,
    ) -> Result<Step> {
        let mut client = self.client().await?;
        let tx = begin(&mut client).await?;
        let step = self.step_in(&tx, work, &at, pace).await?;
        if let Some((note, applied)) = work.note(&step, journal) {
            insert_note(tx.client(), &self.sql.audit_insert, &note, applied).await.map_err(explain)?;
        }
        commit(tx).await?;
        Ok(step)
    }

    async fn write_note(&self, note: Note, applied: Applied) -> Result<()> {
        let client = self.client().await?;
        insert_note(&client, &self.sql.audit_insert, &note, applied).await.map_err(explain)
    }
}

impl PostgresStore {
    async fn step_in(
        &self,
        tx: &Transaction<'_>,
        work: &ServerWork,
        at: &Place,
        pace: &Pace<'_>,
    ) -> Result<Step> {
        let sql = &self.sql;
        let step = match work {
            Work::Change { filter, change, stretch } => {
                let most = pace.step(change::STEP_EVENTS_MAX);
                change::step(tx, sql, (filter, change), *stretch, at, most).await
            }
            Work::SetState { lanes, state, .. } => lanes::set_state(tx, sql, lanes, *state).await,
            Work::Remove { lane } => remove::step(tx, sql, lane, at).await,
            Work::Move(way) => {
                let step = seek::step(tx, sql, way).await.map_err(explain)?;
                return step.ok_or_else(|| no_such_lane(&way.lane.name));
            }
            Work::Prune(before) => {
                let most = pace.step(prune::STEP_ROWS_MAX as usize);
                prune::step(tx, sql, *before, most, at).await
            }
            Work::PruneInbox { before } => inbox::step(tx, sql, at, *before).await,
            Work::Rebase { upgraded } => return self.rebase(tx, *upgraded).await,
            Work::CountAgain(_) => Ok(Step::default()),
        };
        step.map_err(explain)
    }
}

/// Records who did what.
async fn insert_note(client: &Client, text: &str, note: &Note, applied: Applied) -> Db<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (matched, changed) = (count(applied.matched), count(applied.changed));
    client
        .execute_typed(text, &args![note.actor, note.via, note.command, note.filter(), matched, changed])
        .await
        .map(drop)
}

/// Whether a command goes by what ticks see: in a database that was moved they seem to see what was never
/// delivered.
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
