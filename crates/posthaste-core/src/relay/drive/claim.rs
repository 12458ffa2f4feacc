//! Reading on.

use tokio::time::{Instant, timeout};

use super::{Drive, POLL_FIRST, READ_AHEAD, Until};
use crate::lane::Order;
use crate::store::{Claimed, Room};
use crate::{Error, crash};

impl Drive<'_> {
    pub(super) fn start_claim(&mut self) {
        if self.claim.is_some()
            || self.wait.is_some()
            || self.dry
            || self.leaving.is_some()
            || self.handing_over
        {
            return;
        }
        let room = self.room();
        if room.events == 0 || self.claims_must_wait() {
            return;
        }
        let (store, lease) = (&self.settings.store, self.lease);
        let (since, limit) = (Instant::now(), self.lease.length());
        self.claim = Some(Box::pin(async move {
            // Settles would renew the lease for ever beside a claim that never answers.
            let late = |_| Error::unavailable(format!("no answer to a claim within {limit:?}"));
            (since, timeout(limit, store.claim(lease, room)).await.map_err(late).flatten())
        }));
    }

    /// A claim must see what was parked before it, or it would hand out a later event of a parked key. Order per key only.
    pub(super) fn claims_must_wait(&self) -> bool {
        let parking = self.parks || self.settling.as_ref().is_some_and(|settling| settling.parks);
        parking && self.lane.spec.order == Order::PerKey
    }

    /// What fits: enough to fill the width past busy keys, within the bytes, and not while nothing is sent anyway.
    pub(super) fn room(&self) -> Room {
        let (held, bytes) = (self.window.held(), self.window.held_bytes());
        // However few bytes there are: one event always fits.
        let fits = held == 0 || bytes < self.lane.window_bytes;
        let hungry = self.window.ready() < self.width && fits;
        let free = (self.width * READ_AHEAD).saturating_sub(held).min(self.width.max(1));
        let events = if hungry && self.down_until.is_none() && self.may_answer_more() { free } else { 0 };
        Room { events: events as u32, bytes: self.lane.window_bytes.saturating_sub(bytes) }
    }

    pub(super) fn claimed(&mut self, since: Instant, claimed: Vec<Claimed>) {
        crash::point("relay: claimed");
        self.meters.claimed(since.elapsed());
        self.unrecorded |= self.lease.take_unrecorded();
        if claimed.is_empty() {
            self.dry = true;
            // What killed the owners before was there before: whatever comes from now on is innocent.
            self.deadly = false;
            if self.until == Until::Stopped {
                let (store, spec, limit) = (&self.settings.store, &self.lane.spec, self.poll);
                self.poll = (self.poll * 2).min(self.settings.poll_max);
                self.wait = Some(Box::pin(async move { store.wait(spec, limit).await }));
            }
            return;
        }
        self.poll = POLL_FIRST;
        for claimed in claimed {
            let parked = self.window.ordering_key(&claimed).is_some_and(|key| self.parked_keys.contains(key));
            if parked {
                self.record(claimed.ticket, self.behind());
            } else {
                self.window.take_in(claimed);
            }
        }
    }
}
