//! Sending what is ready.
//!
//! A lane gathers events until a burst is worth sending ([`Capabilities::worth_sending`]). To RabbitMQ that
//! raised the line from 0.44 to 0.78 of its ceiling (`docs/speed.md`).

use tokio::time::Instant;

use super::Drive;
use crate::crash;
use crate::relay::burst::Burst;
use crate::store::Claimed;
use crate::target::{Capabilities, DeliverError, DeliverKind};

impl Drive<'_> {
    pub(super) fn send(&mut self) {
        let now = Instant::now();
        if self.leaving.is_some() || self.down_until.is_some() || now >= self.pace.deliver_until() {
            self.send_by = None;
            return;
        }
        let target = self.lane.target.as_ref();
        let burst_max = target.capabilities().burst_max.max(1) as usize;
        if self.gathers(now) {
            return;
        }
        self.send_by = None;
        while self.window.ready() > 0 && self.window.in_flight() < self.width && self.may_answer_more() {
            let burst = self.window.take_burst(burst_max.min(self.width - self.window.in_flight()));
            let burst = self.keep_sendable(burst);
            if burst.is_empty() {
                continue;
            }
            crash::point("relay: before deliver");
            self.meters.sent(burst.len(), self.window.in_flight());
            self.bursts.push(Burst::send(target, burst, self.lane.answer_timeout()));
        }
    }

    /// Whether to wait for more to send, until a burst is worth it; not for long, because what is out may never be answered.
    fn gathers(&mut self, now: Instant) -> bool {
        let (ready, in_flight) = (self.window.ready(), self.window.in_flight());
        let worth_it = self.lane.target.capabilities().worth_sending(self.width, in_flight);
        let fits = ready.min(self.width.saturating_sub(in_flight));
        if fits == 0 || fits >= worth_it {
            return false;
        }
        now < *self.send_by.get_or_insert(now + Capabilities::GATHER)
    }

    /// Answers are kept until they are stored, so there is a bound for them too.
    pub(super) fn may_answer_more(&self) -> bool {
        self.outcomes.len() + self.window.in_flight() < self.lane.unsettled_max
    }

    /// Takes out what need not be sent: it is larger than the target takes, or has killed its relay too often.
    pub(super) fn keep_sendable(&mut self, burst: Vec<Claimed>) -> Vec<Claimed> {
        let bytes_max = self.lane.target.capabilities().payload_bytes_max;
        let mut sendable = Vec::with_capacity(burst.len());
        for claimed in burst {
            let size = claimed.parcel.envelope.payload.len() as u64;
            if std::mem::take(&mut self.deadly) {
                let message = format!(
                    "its relay ended without a trace {} times while it was sent",
                    self.lease.stumbles()
                );
                self.failed(claimed, DeliverError::new(DeliverKind::Rejected, "crash", message));
            } else if size > bytes_max {
                let message = format!("the payload has {size} bytes, the target takes {bytes_max}");
                self.failed(claimed, DeliverError::new(DeliverKind::TooLarge, "too large", message));
            } else {
                sendable.push(claimed);
            }
        }
        sendable
    }
}
