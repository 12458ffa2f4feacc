//! Taking back rows whose lease has ended, and handing back what a lease still holds.
//!
//! A row that the table will not have changed (by a trigger of its owner, a check) must not keep the others: what is refused as a
//! whole is done in parts, down to the rows that are the reason. They stay as they are, and the log tells of them.

use posthaste_core::table::meters;
use posthaste_core::{Error, Result};

use super::driver::{Driver, Sweep};
use super::engine::{Driving, Table};
use super::refusal::is_refusal;

/// So many rows that are refused are found by one sweep; the next one goes on after them.
const REFUSED_MAX: u32 = 1_000;
/// So many of them are told one by one.
const TOLD_MAX: u32 = 5;

/// What a sweep did.
#[derive(Default)]
struct Swept {
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
        let swept = self.sweep_parts(driving).await?;
        tell_how_many(
            swept.refused,
            "rows whose lease has ended stay as they are; they are tried again in a minute",
        );
        if swept.rows == 0 {
            return Ok(());
        }
        let cursor = &driving.cursor;
        // They may be before the place.
        cursor.look_whole();
        meters::count_swept(cursor.lane.name.as_str(), swept.rows, swept.dead);
        tracing::warn!(
            table = %D::shape(&driving.sql).profile.table,
            rows = swept.rows,
            dead = swept.dead,
            "leases had ended without an answer; their rows are pending again"
        );
        Ok(())
    }

    /// The oldest come first, so those that are refused are at the front and can be passed over by their number.
    async fn sweep_parts(&self, driving: &Driving<D>) -> Result<Swept> {
        let (cursor, rows) = (&driving.cursor, self.options.sweep_rows.max(1));
        let budget = self.options.attempts_max.max(1);
        let mut ask = Sweep { lease: cursor.lane.lease, rows, passed: cursor.refused(), budget };
        let mut swept = Swept::default();
        loop {
            match self.driver.sweep(&driving.sql, ask).await {
                Ok((some, dead)) => {
                    swept.rows += some;
                    swept.dead += dead;
                    if some < u64::from(ask.rows) {
                        break;
                    }
                    ask.rows = ask.rows.saturating_mul(2).min(rows);
                }
                Err(error) if !is_refusal(&error) => return Err(error),
                Err(_) if ask.rows > 1 => ask.rows /= 2,
                Err(error) => {
                    swept.refused += 1;
                    if swept.refused <= TOLD_MAX {
                        let id = self.driver.expired(&driving.sql, ask).await?;
                        let what = "the table refuses that a row is taken back whose lease has ended";
                        tell(swept.refused, id.as_deref(), &error, what);
                    }
                    ask.passed += 1;
                    if swept.refused == REFUSED_MAX {
                        break;
                    }
                }
            }
        }
        cursor.note_refused(ask.passed);
        Ok(swept)
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
