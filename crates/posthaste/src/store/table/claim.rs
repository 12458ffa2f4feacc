//! Claiming past rows that the table will not have claimed: a trigger of its owner refuses it, or a check that an old row breaks.
//!
//! A claim is refused as a whole, so less and less is asked for, down to the row that is the reason. That one is passed over from
//! then on, and the log tells of it; in order per key, what follows it in its key waits behind it. After a while it is tried again.

use posthaste_core::Result;
use posthaste_core::store::{Claimed, Room};
use tokio::time::Instant;

use super::cursor::{Look, Token};
use super::driver::{Ask, Driver};
use super::engine::{Driving, Table};
use super::refusal::is_refusal;
use super::sweep::{tell, tell_how_many};

impl<D: Driver> Table<D> {
    /// One claim that the table does not refuse; answers its events, and how many rows it took for that. If looking for what may be
    /// claimed takes until then, it is answered as one that missed its look.
    pub(super) async fn claim_past_refused(
        &self,
        driving: &Driving<D>,
        kept: &mut D::Kept,
        mut room: Room,
        look: Look,
        until: Instant,
    ) -> Result<(Vec<Claimed>, usize)> {
        let mut told = 0;
        let claimed = loop {
            let error = match self.claim_once(driving, kept, room, look).await {
                Err(error) if is_refusal(&error) => error,
                other => break other?,
            };
            if room.events > 1 {
                room.events /= 2;
            } else if let Some(id) = self.first_due(driving, look).await? {
                match driving.cursor.pass_over(&id) {
                    Some(true) => {
                        told += 1;
                        tell(told, Some(&id), &error, "the table refuses that a row is claimed");
                    }
                    Some(false) => {}
                    None => {
                        // Said when it came to that, and not with every claim from then on.
                        if told > 0 {
                            tracing::warn!(%error, "the table refuses too many claims; what comes after these rows waits");
                        }
                        break Default::default();
                    }
                }
            }
            if Instant::now() >= until {
                driving.cursor.miss();
                break Default::default();
            }
        };
        tell_how_many(told, "rows cannot be claimed and are passed over; they are tried again every minute");
        Ok(claimed)
    }

    /// The row that a claim of one would take, if it is still there.
    async fn first_due(&self, driving: &Driving<D>, look: Look) -> Result<Option<String>> {
        let (cursor, passed, room) = (&driving.cursor, driving.cursor.passed(), Room { events: 1, bytes: 0 });
        // Nothing is leased under it.
        let token: Token = "".into();
        let is_ordered = driving.is_ordered();
        let ask = Ask { cursor, token: &token, room, look, is_ordered, passed: &passed };
        self.driver.due(&driving.sql, ask).await
    }
}
