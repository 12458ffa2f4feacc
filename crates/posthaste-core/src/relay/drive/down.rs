//! A target that is away: pause, probe, go on.

use tokio::time::Instant;
use tracing::{info, warn};

use super::Drive;
use crate::Result;
use crate::relay::meters::State;
use crate::telemetry::field;

impl Drive<'_> {
    pub(super) fn target_is_down(&mut self, reason: &str) {
        if self.down_until.is_some() {
            return;
        }
        if self.reported_down != Some(true) {
            let reason = crate::redact::clean(reason);
            warn!({ field::ERROR } = reason, "the target is away; waiting for it");
            self.reported_down = Some(true);
            self.report_next = Some(Some(reason));
            self.meters.state(State::Waiting);
        }
        self.down_until = Some(Instant::now() + self.outage.pause());
    }

    /// The target said something about an event other than that it takes nothing. An answered ping only says
    /// that it is worth a try: a broker without the exchange that events go to answers pings too.
    pub(super) fn target_is_up(&mut self) {
        self.outage.over();
        if self.reported_down != Some(false) {
            if self.reported_down.is_some() {
                info!("the target is back");
            }
            self.reported_down = Some(false);
            self.report_next = Some(None);
            self.meters.state(State::Active);
        }
    }

    pub(super) fn probe_if_due(&mut self) {
        if self.ping.is_none() && self.down_until.is_some_and(|until| Instant::now() >= until) {
            let target = self.lane.target.as_ref();
            let limit = self.lane.answer_timeout();
            self.ping = Some(Box::pin(async move {
                let late = |_| crate::Error::unavailable(format!("no answer to a ping within {limit:?}"));
                tokio::time::timeout(limit, target.ping()).await.map_err(late)?
            }));
        }
    }

    pub(super) fn probed(&mut self, pong: Result<()>) {
        match pong {
            Ok(()) => self.down_until = None,
            Err(_) => self.down_until = Some(Instant::now() + self.outage.pause()),
        }
    }
}
