//! Recording outcomes, and what follows from it.

use tokio::time::Instant;
use tracing::{info, warn};

use super::end::unsent;
use super::{Drive, End, Leaving, Settling, Until};
use crate::lane::Order;
use crate::relay::meters::Tally;
use crate::relay::pace::Need;
use crate::store::{Settled, Standing, Then};
use crate::telemetry::field;
use crate::{Result, crash};

impl Drive<'_> {
    pub(super) fn start_settle(&mut self) {
        if self.settle.is_some() || self.settle_must_wait() || Instant::now() < self.settle_at() {
            return;
        }
        let then = match self.report_next.take() {
            Some(reason) => Then::Report(reason),
            None => Then::Hold,
        };
        let outcomes = self.begin_settling();
        let (store, lease) = (&self.settings.store, self.lease);
        self.settle = Some(Box::pin(async move { store.settle(lease, outcomes, then).await }));
    }

    /// What parks must not overtake a claim on its way: that claim has not seen it. Order per key only.
    pub(super) fn settle_must_wait(&self) -> bool {
        self.parks && self.claim.is_some() && self.lane.spec.order == Order::PerKey
    }

    pub(super) fn settle_at(&self) -> Instant {
        let something = !self.outcomes.is_empty() || self.unrecorded;
        let full = self.outcomes.len() >= self.lane.unsettled_max / 2;
        let idle = self.until == Until::Idle && something && self.window.in_flight() == 0;
        let last = idle && self.dry && self.claim.is_none();
        self.pace.settle_at(match () {
            () if last => Need::Last,
            () if full => Need::Full,
            () if idle || self.parks || self.report_next.is_some() => Need::Urgent,
            () if something => Need::Some,
            () => Need::None,
        })
    }

    pub(super) fn begin_settling(&mut self) -> Vec<Settled> {
        crash::point("relay: before settle");
        let outcomes = std::mem::take(&mut self.outcomes);
        self.settling = Some(Settling {
            since: Instant::now(),
            parks: std::mem::take(&mut self.parks),
            tally: Tally::of(&outcomes),
            letters: std::mem::take(&mut self.letters),
            dead_keys: std::mem::take(&mut self.dead_keys),
            unrecorded: std::mem::take(&mut self.unrecorded),
            unsent: unsent(&outcomes).collect(),
        });
        outcomes
    }

    pub(super) fn settled(&mut self, standing: Standing) -> Result<Option<End>> {
        crash::point("relay: settled");
        let Some(settling) = self.settling.take() else { return Ok(None) };
        let now = Instant::now();
        self.meters.settled(now - settling.since);
        if standing == Standing::Lost {
            // Nothing was recorded.
            self.settling = Some(settling);
            return Ok(Some(End::Lost));
        }
        self.pace.settled(settling.since, now);
        self.recorded(&settling);
        if standing == Standing::Paused && self.leaving.is_none() {
            info!("paused by an operator");
            self.leave(Leaving::Paused);
        }
        if standing == Standing::Wanted && !self.handing_over && self.until == Until::Stopped {
            info!("handing the lane over to a relay that should have it");
            // What was claimed is delivered first: what is given back unsent would come again with all that follows it.
            self.handing_over = true;
            self.wait = None;
        }
        Ok(None)
    }

    pub(super) fn recorded(&mut self, settling: &Settling) {
        let tally = &settling.tally;
        self.meters.recorded(tally);
        self.done.delivered += tally.delivered;
        self.done.retried += tally.retry;
        self.done.dead += tally.dead;
        if !self.parks {
            self.parked_keys.clear();
        }
        settling.dead_keys.iter().for_each(|key| self.window.free(key));
        if tally.delivered + tally.retry + tally.later + tally.dead > 0 {
            // Something got through: whatever made the relay stumble before is behind it.
            self.width = self.lane.in_flight_max() as usize;
        }
        if !tally.is_empty() || settling.unrecorded {
            // What was recorded may have made room behind a key: look again, and do not sleep over it.
            self.dry = false;
            self.wait = None;
        }
        for (dead, letter) in &settling.letters {
            let hook = if *dead { &self.settings.on_dead } else { &self.settings.on_failed };
            if *dead {
                warn!(
                    { field::EVENT_ID } = letter.envelope.id,
                    { field::EVENT_TYPE } = letter.envelope.event_type,
                    { field::ATTEMPTS } = letter.attempts,
                    { field::ERROR } = %letter.error,
                    "dead"
                );
            }
            if let Some(hook) = hook {
                hook(letter);
            }
        }
    }
}
