//! Taking in what the target says.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Drive, Leaving};
use crate::crash;
use crate::lane::OnDead;
use crate::relay::burst::{Answered, Answers};
use crate::relay::verdict::{Letter, Verdict, verdict};
use crate::store::{Claimed, Outcome, Settled, Ticket};
use crate::target::{DeliverError, DeliverKind};
use crate::telemetry::field;

/// Time between two looks for what is unanswered for long, at least.
const SLOW_CHECK_MIN: Duration = Duration::from_millis(10);

impl Drive<'_> {
    pub(super) fn answered(&mut self, answers: Answers) {
        crash::point("relay: answered");
        self.dry = false;
        let passed = answers.events.iter().filter(|answered| answered.result.is_ok());
        self.meters.acknowledged(passed.map(|answered| &answered.claimed.parcel));
        if self.proves_the_target(&answers.events) {
            self.target_is_up();
        }
        for Answered { claimed, result, .. } in answers.events {
            match result {
                Ok(()) => {
                    self.window.leave(&claimed);
                    self.record(claimed.ticket, Outcome::Delivered);
                }
                Err(error) => self.failed(claimed, error),
            }
        }
        self.meters.answered(answers.after, self.window.in_flight());
    }

    /// Whether these answers show that the target is there: it acknowledged an event, or found something
    /// wrong with one. Where it also said that it takes nothing, or was away when it was last asked, only an
    /// acknowledgement counts.
    fn proves_the_target(&self, answers: &[Answered]) -> bool {
        let kinds = || answers.iter().filter(|answered| answered.is_said).map(Answered::kind);
        let is_away = self.down_until.is_some() || kinds().any(|kind| kind == Some(DeliverKind::Unavailable));
        kinds().any(|kind| match kind {
            None => true,
            Some(DeliverKind::Unavailable | DeliverKind::Gone) => false,
            Some(_) => !is_away,
        })
    }

    pub(super) fn failed(&mut self, claimed: Claimed, error: DeliverError) {
        let attempt = claimed.parcel.attempt;
        let told = error.clone();
        match verdict(self.lane.policy.as_ref(), attempt, error) {
            Verdict::Settle(outcome) => self.park(claimed, outcome, told),
            Verdict::Pause => {
                self.window.put_back(claimed);
                self.target_is_down(&told.to_string());
            }
            Verdict::Retire => {
                self.window.put_back(claimed);
                if self.leaving.is_none() {
                    warn!({ field::ERROR } = %told, "the lane's address is gone; the lane is retired");
                    self.leave(Leaving::Retired(told.to_string()));
                }
            }
        }
    }

    /// The event leaves the window for the parked events; if it holds its key there, its followers go behind it.
    pub(super) fn park(&mut self, claimed: Claimed, outcome: Outcome, error: DeliverError) {
        let dead = matches!(outcome, Outcome::Dead { .. });
        if !dead || self.lane.spec.on_dead == OnDead::Block {
            self.hold_key(&claimed);
            self.window.leave(&claimed);
        } else {
            // Its followers go on when its death is recorded. Not before: after a crash it would be sent again, and might
            // pass then, after them.
            self.window.leave_key_busy(&claimed);
            self.dead_keys.extend(self.window.ordering_key(&claimed).map(str::to_owned));
        }
        self.parks = true;
        if matches!(outcome, Outcome::Later { .. }) {
            // Nothing failed.
            self.record(claimed.ticket, outcome);
            return;
        }
        let letter = Letter {
            lane: self.lane.name().clone(),
            envelope: claimed.parcel.envelope,
            attempts: claimed.parcel.attempt,
            error,
        };
        self.letters.push((dead, letter));
        self.record(claimed.ticket, outcome);
    }

    pub(super) fn hold_key(&mut self, claimed: &Claimed) {
        let Some(key) = self.window.ordering_key(claimed) else { return };
        for ticket in self.window.take_waiting(key) {
            self.record(ticket, self.behind());
        }
        self.parked_keys.insert(key.to_owned());
    }

    /// What becomes of an event whose key is held. On leaving, earlier events of the key may have been released already:
    /// parked behind the head, it would come out before them.
    pub(super) fn behind(&self) -> Outcome {
        if self.leaving.is_some() { Outcome::Released } else { Outcome::Behind }
    }

    /// What is unanswered for long is parked as leased, so that the place can move on; its answer settles it later.
    pub(super) fn mark_slow(&mut self) {
        let now = Instant::now();
        if self.bursts.is_empty() || now < self.next_slow_check {
            return;
        }
        // Looking at every burst is not free, so it is done a few times in the span, not at every step.
        self.next_slow_check = now + (self.lane.slow_after / 4).max(SLOW_CHECK_MIN);
        let mut slow = Vec::new();
        for burst in self.bursts.iter_mut() {
            slow.extend(burst.newly_slow(self.lane.slow_after).into_iter().flatten().cloned());
        }
        for claimed in slow {
            self.hold_key(&claimed);
            self.parks = true;
            self.record(claimed.ticket, Outcome::Slow);
        }
    }

    pub(super) fn record(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes.push(Settled::new(ticket, outcome));
    }
}
