//! What operators do with the rows of a table, in steps, and the record of it.

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::admin::{Actor, Applied, Command, EventState, Filter, Pace};
use posthaste_core::review::AuditEntry;
use posthaste_core::table::Column;
use posthaste_core::time::Timestamp;

use super::cannot;
use super::cursor::said;
use super::driver::{Driver, Question, Terminal, Wish};
use super::engine::Table;
use super::ledger::Ledger;
use super::look::{BURIED, DISCARDED};

/// How many rows one statement of a command removes.
const STEP_ROWS: u32 = 1_000;
/// How many rows one statement of a change takes: more, as each looks for the earliest of those that are left.
pub(super) const AGAIN_ROWS: u32 = 5_000;
/// How many microseconds a second has.
const SECOND: i64 = 1_000_000;

impl<D: Driver> Table<D> {
    /// Carries a command out, and leaves a record of it, also if it fails half-way.
    pub(super) async fn act(
        &self,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        self.demand_lane(filter)?;
        if command.is_dry_run() {
            return self.count(filter, &command).await;
        }
        let is_kept = self.driver.record_table().await?.is_some();
        let mut ledger = Ledger::new(filter, &command, by, is_kept);
        ledger.say_begun_unless_kept(&command);
        let done = self.carry_out(filter, &command, pace, &mut ledger).await;
        let failed = done.as_ref().err().filter(|_| ledger.applied().changed > 0);
        if let Some(error) = failed {
            let entry = ledger.broken_off(Some(error));
            self.write_last(entry, &ledger).await;
        }
        if done.is_ok() || failed.is_some() {
            ledger.say_unless_kept(&command, self.prefix.as_str(), failed);
        }
        done
    }

    /// Writes the end of a command that was broken off. What cannot be written is at least said.
    async fn write_last(&self, entry: Option<AuditEntry>, ledger: &Ledger) {
        let Some(entry) = entry else { return };
        if let Err(error) = self.driver.write_record(entry).await {
            ledger.say("its record could not be written", Some(&error));
        }
    }

    /// Which rows a command means, and what it wants of them; `None` for one that is not about rows that are chosen.
    async fn meant(&self, filter: &Filter, command: &Command) -> Result<Option<(Question, Wish)>> {
        // What consumers remember is there without an outbox table too.
        if matches!(command, Command::Prune { .. } | Command::PruneInbox { .. }) {
            return Ok(None);
        }
        let sql = self.sql().await?;
        let (from, wish) = match command {
            Command::Redrive { .. } => (Some(EventState::Dead), Wish::Again { but_due_since: None }),
            Command::Replay { .. } => (Some(EventState::Delivered), Wish::Again { but_due_since: None }),
            Command::Discard { .. } if !D::shape(&sql).has(Column::LastError) => return Err(cannot(command)),
            Command::Discard { reason, .. } => {
                (Some(EventState::Dead), Wish::Discard(said(&format!("{DISCARDED}: {reason}"))))
            }
            Command::Bury { reason, .. } => (None, Wish::Bury(said(&format!("{BURIED}: {reason}")))),
            Command::Schedule { at, .. } => {
                let (_, now) = self.driver.matched(&sql, &Question::nothing()).await?;
                // To the second, which every column can hold: rows that have this time already are done with.
                let at = Timestamp::from_micros(at.resolve(now).as_micros().div_euclid(SECOND) * SECOND);
                (None, Wish::Schedule(at))
            }
            _ => return Ok(None),
        };
        let question = Question { state: from, unclaimed: from.is_none(), ..Question::of(filter, None)? };
        Ok(Some((question, wish)))
    }

    /// Counts what a command would change.
    async fn count(&self, filter: &Filter, command: &Command) -> Result<Applied> {
        let matched = match (self.meant(filter, command).await?, command) {
            (Some((question, _)), _) => {
                let sql = self.sql().await?;
                self.driver.matched(&sql, &question).await?.0
            }
            (None, Command::Prune { delivered_age, dead_age, .. }) => {
                let (sql, mut matched) = (self.sql().await?, 0);
                for (what, age) in kinds(*delivered_age, *dead_age) {
                    matched += self.driver.count_old(&sql, what, age).await?;
                }
                matched
            }
            (None, Command::PruneInbox { age, .. }) => {
                self.driver.prune_memory(*age, None).await?.ok_or_else(|| cannot(command))?
            }
            (None, other) => return Err(cannot(other)),
        };
        Ok(Applied::new(matched, 0))
    }

    async fn carry_out(
        &self,
        filter: &Filter,
        command: &Command,
        pace: &Pace<'_>,
        ledger: &mut Ledger,
    ) -> Result<Applied> {
        if let Some((question, wish)) = self.meant(filter, command).await? {
            return self.change(question, wish, pace, ledger).await;
        }
        match command {
            Command::Prune { delivered_age, dead_age, .. } => {
                self.prune(*delivered_age, *dead_age, pace, ledger).await
            }
            Command::PruneInbox { age, .. } => {
                self.prune_memory(*age, pace, ledger).await?.ok_or_else(|| cannot(command))
            }
            other => Err(cannot(other)),
        }
    }

    /// Changes rows in steps. The earliest come first, so that the order of a key holds whatever a relay takes in between; and what is
    /// pending again and was delivered meanwhile does not come once more.
    async fn change(
        &self,
        mut question: Question,
        mut wish: Wish,
        pace: &Pace<'_>,
        ledger: &mut Ledger,
    ) -> Result<Applied> {
        let sql = self.sql().await?;
        let began = match wish {
            Wish::Again { .. } => Some(self.driver.matched(&sql, &Question::nothing()).await?.1),
            // What waits for another time still waits: without an end, new rows would be put off as they come.
            Wish::Schedule(_) => {
                ledger.enough(self.driver.matched(&sql, &question).await?.0);
                None
            }
            _ => None,
        };
        question.rows = u32::try_from(pace.step(AGAIN_ROWS as usize)).unwrap_or(AGAIN_ROWS);
        ledger.by(question.rows, true);
        loop {
            let step = self.driver.change(&sql, &question, &wish, ledger).await?;
            self.signal.ring();
            if ledger.is_over(step) {
                return Ok(ledger.applied());
            }
            if pace.after(ledger.applied()).await.is_break() {
                let entry = ledger.broken_off(None);
                self.write_last(entry, ledger).await;
                return Ok(ledger.applied());
            }
            if let Wish::Again { but_due_since } = &mut wish {
                *but_due_since = began;
            }
        }
    }

    async fn prune(
        &self,
        delivered_age: Option<Duration>,
        dead_age: Option<Duration>,
        pace: &Pace<'_>,
        ledger: &mut Ledger,
    ) -> Result<Applied> {
        let sql = self.sql().await?;
        let rows = u32::try_from(pace.step(STEP_ROWS as usize)).unwrap_or(STEP_ROWS);
        let mut kinds = kinds(delivered_age, dead_age).peekable();
        while let Some((what, age)) = kinds.next() {
            ledger.by(rows, kinds.peek().is_none());
            loop {
                let step = self.driver.prune(&sql, what, age, rows, ledger).await?;
                if ledger.is_over(step) {
                    break;
                }
                if pace.after(ledger.applied()).await.is_break() {
                    let entry = ledger.broken_off(None);
                    self.write_last(entry, ledger).await;
                    return Ok(ledger.applied());
                }
            }
        }
        Ok(ledger.applied())
    }

    /// Removes what consumers remember, until a step finds nothing; `None` where it is not this database's to remember.
    async fn prune_memory(
        &self,
        age: Duration,
        pace: &Pace<'_>,
        ledger: &mut Ledger,
    ) -> Result<Option<Applied>> {
        ledger.by(1, true);
        let rows = u32::try_from(pace.step(STEP_ROWS as usize)).unwrap_or(STEP_ROWS);
        loop {
            let Some(step) = self.driver.prune_memory(age, Some(rows)).await? else { return Ok(None) };
            if let Some(entry) = ledger.after(step) {
                self.driver.write_record(entry).await?;
            }
            if ledger.is_over(step) {
                return Ok(Some(ledger.applied()));
            }
            if pace.after(ledger.applied()).await.is_break() {
                let entry = ledger.broken_off(None);
                self.write_last(entry, ledger).await;
                return Ok(Some(ledger.applied()));
            }
        }
    }
}

/// What is pruned, from which age on.
fn kinds(
    delivered_age: Option<Duration>,
    dead_age: Option<Duration>,
) -> impl Iterator<Item = (Terminal, Duration)> {
    let kinds = [(Terminal::Delivered, delivered_age), (Terminal::Dead, dead_age)];
    kinds.into_iter().filter_map(|(what, age)| Some((what, age?)))
}
