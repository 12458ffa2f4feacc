//! Outcomes that the table refuses: by a trigger of its owner, a check, a column that is too narrow.
//!
//! What is recorded together fails together, and what was published and not recorded is published again. So the rows that are
//! refused are looked for, the others are recorded, and each of the few counts as a failed attempt with the database's words:
//! it waits longer each time, and is dead in the end.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::store::{Outcome, Settled};
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, ErrorKind, Result};

use super::cursor::{Cursor, Sorted, Token};
use super::driver::Driver;
use super::engine::{Driving, Table};

/// The code of a failure that is the table's and not the target's.
const CODE: &str = "OUTCOME_REFUSED";
/// How long a refused row waits the first time; twice as long each time after that,
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// but no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Whether the database understood and said no; what is merely away or busy is asked again as a whole.
pub(in crate::store) fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Rejected
}

/// What came of recording rows apart.
#[derive(Default)]
pub(super) struct Apart {
    pub(super) recorded: u64,
    /// Rows whose lease was lost before.
    pub(super) lost: u64,
}

impl<D: Driver> Table<D> {
    /// Records what was refused as a whole, except for the rows that are the reason: those count as failed.
    pub(super) async fn record_apart(&self, driving: &Driving<D>, outcomes: &[Settled]) -> Result<Apart> {
        let cursor = &driving.cursor;
        // Looking for them takes time.
        self.renew(driving).await?;
        let mut apart = Apart::default();
        let refused = self.record_parts(driving, outcomes, &mut apart).await?;
        let failed: Vec<_> = refused.into_iter().map(|refused| self.failed(cursor, refused)).collect();
        for (settled, error) in self.record_parts(driving, &failed, &mut apart).await? {
            tracing::error!(%error, "the table refuses every outcome of a row; its lease ends by itself");
            cursor.let_go(settled.ticket);
        }
        Ok(apart)
    }

    async fn renew(&self, driving: &Driving<D>) -> Result<()> {
        let all = driving.cursor.sort(&[]);
        let mut parts = vec![all.renewed.as_slice()];
        while let Some(part) = parts.pop() {
            match self.driver.record(&driving.sql, &Arc::new(all.renewals(part))).await {
                Ok(_) => {}
                Err(error) if !is_refusal(&error) => return Err(error),
                Err(error) => match part {
                    [] => {}
                    [one] => {
                        tracing::warn!(event_id = one, %error, "the table refuses to renew the lease of a row")
                    }
                    several => {
                        let (first, second) = several.split_at(several.len() / 2);
                        parts.extend([second, first]);
                    }
                },
            }
        }
        driving.cursor.recorded(&all);
        Ok(())
    }

    /// Records these outcomes but those that are refused one by one, which are found by halves; answers them with the reason.
    async fn record_parts(
        &self,
        driving: &Driving<D>,
        outcomes: &[Settled],
        apart: &mut Apart,
    ) -> Result<Vec<(Settled, Error)>> {
        let (mut parts, mut refused) = (vec![outcomes], Vec::new());
        while let Some(part) = parts.pop() {
            let sorted = Arc::new(driving.cursor.sort(part).without_renewals());
            match self.driver.record(&driving.sql, &sorted).await {
                Ok((recorded, _)) => {
                    driving.cursor.recorded(&sorted);
                    apart.recorded += recorded;
                    apart.lost += sorted.lost(recorded);
                }
                Err(error) if !is_refusal(&error) => return Err(error),
                Err(error) => match part {
                    [one] => refused.push((one.clone(), error)),
                    several => {
                        let (first, second) = several.split_at(several.len() / 2);
                        parts.extend([second, first]);
                    }
                },
            }
        }
        Ok(refused)
    }

    /// What a refused row is instead.
    fn failed(&self, cursor: &Cursor, (settled, error): (Settled, Error)) -> Settled {
        let ticket = settled.ticket;
        let attempts = cursor.attempts(ticket);
        tracing::warn!(%error, attempts, "the table refuses the outcome of a row, which counts as a failed attempt");
        let error = DeliverError::new(DeliverKind::Failed, CODE, error.to_string());
        let after = PAUSE_FIRST.saturating_mul(1 << attempts.min(12)).min(PAUSE_MAX);
        let is_spent = attempts.saturating_add(1) >= self.options.attempts_max.max(1);
        Settled::new(ticket, if is_spent { Outcome::Dead { error } } else { Outcome::Retry { after, error } })
    }

    /// Records that rows of a claim are no events; one of which that is refused waits for its lease to end.
    pub(super) async fn bury(
        &self,
        driving: &Driving<D>,
        token: &Token,
        bad: Vec<(String, String)>,
    ) -> Result<()> {
        let all = Arc::new(Sorted::set_aside(token, &bad));
        match self.driver.record(&driving.sql, &all).await {
            Err(error) if is_refusal(&error) => {}
            other => return other.map(drop),
        }
        for one in bad {
            let alone = Arc::new(Sorted::set_aside(token, std::slice::from_ref(&one)));
            match self.driver.record(&driving.sql, &alone).await {
                Err(error) if is_refusal(&error) => {
                    tracing::warn!(event_id = one.0, %error, "the table refuses that a row is set aside");
                }
                other => other.map(drop)?,
            }
        }
        Ok(())
    }
}
