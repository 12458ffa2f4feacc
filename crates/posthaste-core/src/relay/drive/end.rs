//! Giving the lease up.

use tokio::time::{Instant, timeout_at};

use super::{Drive, End, Leaving, Until};
use crate::Result;
use crate::store::{Outcome, Settled, Then, Ticket};

impl Drive<'_> {
    /// Leaves within the grace period; if the lane is leaving already, for the reason that it has.
    pub(super) fn stop(&mut self) {
        self.stop_by = Some(Instant::now() + self.settings.grace);
        if self.leaving.is_none() {
            self.leave(Leaving::Stop);
        }
    }

    pub(super) fn leave(&mut self, leaving: Leaving) {
        self.leaving = Some(leaving);
        self.wait = None;
        for ticket in self.window.take_unsent() {
            self.record(ticket, Outcome::Released);
        }
    }

    /// What was claimed and never sent, where the lease cannot be given up any more.
    pub(in crate::relay) fn unsent(&mut self) -> Vec<Ticket> {
        let mut tickets = self.window.take_unsent();
        tickets.extend(unsent(&self.outcomes));
        // What was handed in to a settle that failed was not sent either.
        tickets.extend(self.settling.take().into_iter().flat_map(|settling| settling.unsent));
        tickets
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn has_ended(&self) -> bool {
        let quiet = self.window.in_flight() == 0 && self.settle.is_none();
        match &self.leaving {
            Some(_) => quiet || self.stop_by.is_some_and(|by| Instant::now() >= by),
            None if self.handing_over => {
                let nothing_left = self.window.held() == 0 && self.claim.is_none();
                quiet && (nothing_left || self.down_until.is_some())
            }
            None if self.until == Until::Idle => {
                let stuck = self.down_until.is_some();
                let nothing_left = self.dry && self.window.held() == 0 && self.claim.is_none();
                quiet && ((nothing_left && self.outcomes.is_empty() && !self.unrecorded) || stuck)
            }
            None => false,
        }
    }

    /// Settles what there is and frees the lane; not longer than the lease lasts, after which that means nothing.
    pub(super) async fn give_up(&mut self) -> Result<End> {
        let ends_at = self.pace.ends_at();
        timeout_at(ends_at, self.settle_and_free()).await.unwrap_or(Ok(End::Lost))
    }

    async fn settle_and_free(&mut self) -> Result<End> {
        if let Some(settle) = self.settle.take() {
            let standing = settle.await?;
            if let Some(end) = self.settled(standing)? {
                return Ok(end);
            }
        }
        // A claim on its way may have read what only a settle can record; its events are simply not settled.
        self.claim = None;
        for ticket in self.window.take_unsent() {
            self.record(ticket, Outcome::Released);
        }
        let (then, end) = match self.leaving.take() {
            Some(Leaving::Retired(reason)) => (Then::Retire(crate::redact::clean(&reason)), End::SetAside),
            Some(Leaving::Paused) => (Then::GiveUp, End::SetAside),
            None if self.handing_over => (Then::GiveUp, End::SetAside),
            Some(Leaving::Stop) | None => (Then::GiveUp, End::GivenUp),
        };
        self.done.lanes_unavailable = u64::from(self.down_until.is_some());
        let outcomes = self.begin_settling();
        let standing = self.settings.store.settle(self.lease, outcomes, then).await?;
        Ok(self.settled(standing)?.unwrap_or(end))
    }
}

/// The events among these that were never sent.
pub(super) fn unsent(outcomes: &[Settled]) -> impl Iterator<Item = Ticket> {
    let is_unsent = |settled: &&Settled| matches!(settled.outcome, Outcome::Released | Outcome::Behind);
    outcomes.iter().filter(is_unsent).map(|settled| settled.ticket)
}
