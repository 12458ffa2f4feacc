//! Taking back rows whose lease has ended, and handing back what a lease still holds.
//!
//! A row that the table will not have changed (by a trigger of its owner, a check) must not keep the others: what is refused as a
//! whole is done in parts, down to the rows that are the reason. They stay as they are, and the log tells of them.
//!
//! A lease that ended counts as an attempt, as the open-outbox specification says. That is also what stops a
//! row that kills its relay.

use posthaste_core::table::meters;
use posthaste_core::{Error, Result};
use tokio::time::Instant;

use super::driver::{Driver, Sweep};
use super::engine::{Driving, Table};
use super::refusal::is_refusal;

/// So many rows that are refused are found by one sweep; the next one goes on after them.
const REFUSED_MAX: u32 = 1_000;
/// So many of them are told one by one.
const TOLD_MAX: u32 = 5;

/// What all steps of a sweep did.
#[derive(Default)]
struct Walk {
    rows: u64,
    dead: u64,
    refused: u32,
}

impl<D: Driver> Table<D> {
    /// Hands back what a lease holds that is over.
    pub(super) async fn hand_back(&self, driving: &Driving<D>) -> Result<()> {
        let mut kept = driving.kept.lock().await;
        let (mut parts, mut refused) = (vec![driving.cursor.left(self.options.attempts_max.max(1))], 0);
        while let Some(part) = parts.pop() {
            match self.driver.hand_back(&driving.sql, part.clone(), &mut kept).await {
                Ok(()) => {}
                Err(error) if !is_refusal(&error) => return Err(error),
                Err(error) => match part.halves() {
                    Some((first, second)) => parts.extend([second, first]),
                    None => {
                        refused += 1;
                        tell(refused, part.first(), &error, "the table refuses that a row is handed back");
                    }
                },
            }
        }
        tell_how_many(refused, "rows were not handed back; their leases end by themselves");
        driving.cursor.forget();
        Ok(())
    }

    /// Takes back every row whose lease has ended, a bounded number at a time, until there is none.
    pub(super) async fn sweep(&self, driving: &Driving<D>) -> Result<()> {
        let mut walk = Walk::default();
        // Whatever ended it, what it did is done.
        let walked = self.walk(driving, &mut walk).await;
        tell_how_many(
            walk.refused,
            "rows whose lease has ended stay as they are; they are tried again in a minute",
        );
        if walk.rows == 0 {
            return walked;
        }
        let cursor = &driving.cursor;
        // They may be before the place.
        cursor.look_whole();
        meters::count_swept(cursor.lane.name.as_str(), walk.rows, walk.dead);
        tracing::warn!(
            table = %D::shape(&driving.sql).profile.table,
            rows = walk.rows,
            dead = walk.dead,
            "leases had ended without an answer; their rows are pending again"
        );
        walked
    }

    /// The oldest come first, so those that are refused are at the front and can be passed over by their number.
    async fn walk(&self, driving: &Driving<D>, walk: &mut Walk) -> Result<()> {
        let (cursor, rows) = (&driving.cursor, self.options.sweep_rows.max(1));
        let budget = self.options.attempts_max.max(1);
        let mut ask = Sweep { lease: cursor.lane.lease, rows, passed: cursor.refused(), budget };
        let until = Instant::now() + cursor.lane.lease / 4;
        let ended = loop {
            match self.sweep_some(driving, &mut ask, walk).await {
                Ok(true) if walk.refused < REFUSED_MAX && Instant::now() < until => {}
                ended => break ended,
            }
        };
        let is_all = matches!(ended, Ok(false));
        cursor.note_refused(ask.passed, is_all);
        ended.map(drop)
    }

    /// One step; answers whether there may be more.
    async fn sweep_some(&self, driving: &Driving<D>, ask: &mut Sweep, walk: &mut Walk) -> Result<bool> {
        match self.driver.sweep(&driving.sql, *ask).await {
            Ok(swept) => {
                walk.rows += swept.rows;
                walk.dead += swept.dead;
                if swept.stuck > 0 {
                    let error = Error::rejected("the row is as it was before");
                    self.pass_over(driving, ask, walk, (swept.stuck, &error)).await;
                }
                let is_full = swept.looked >= u64::from(ask.rows);
                ask.rows = ask.rows.saturating_mul(2).min(self.options.sweep_rows.max(1));
                // The rest is locked: somebody else is at it.
                Ok(is_full && swept.rows + swept.stuck > 0)
            }
            Err(error) if !is_refusal(&error) => Err(error),
            Err(_) if ask.rows > 1 => {
                ask.rows /= 2;
                Ok(true)
            }
            Err(error) => {
                self.pass_over(driving, ask, walk, (1, &error)).await;
                Ok(true)
            }
        }
    }

    /// Goes on after so many rows that stay as they are.
    async fn pass_over(
        &self,
        driving: &Driving<D>,
        ask: &mut Sweep,
        walk: &mut Walk,
        (rows, error): (u64, &Error),
    ) {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        walk.refused = walk.refused.saturating_add(rows);
        if walk.refused <= TOLD_MAX {
            // Only to tell which one: what fails here need not fail the sweep.
            let id = self.driver.expired(&driving.sql, *ask).await.unwrap_or(None);
            let what = "the table refuses that a row is taken back whose lease has ended";
            tell(walk.refused, id.as_deref(), error, what);
        }
        ask.passed = ask.passed.saturating_add(rows);
    }
}

/// Tells of a row, or of a claim, that is refused, if it is one of the first.
pub(super) fn tell(refused: u32, which: Option<&str>, error: &Error, what: &str) {
    if refused <= TOLD_MAX {
        tracing::warn!(event_id = which.unwrap_or_default(), %error, "{what}");
    }
}

pub(super) fn tell_how_many(refused: u32, what: &str) {
    if refused > 0 {
        tracing::warn!(rows = refused, "{what}");
    }
}
