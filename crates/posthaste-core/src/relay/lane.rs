//! A lane as its user configures it.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::lane::{LaneName, LaneSpec, OnDead, Order, Start};
use crate::pattern::Pattern;
use crate::retry::{Backoff, RetryPolicy};
use crate::target::{Answer, Capabilities, Target};
use crate::{BoxFuture, BoxStream};

/// Bytes read and not settled, unless configured.
const WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// From sending to answer, unless configured.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A shorter lease would be over before it can be renewed, and acquired again without end.
const LEASE_MIN: Duration = Duration::from_millis(100);
/// A longer one would reach beyond what a clock can say.
const LEASE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// So much later than the target says it answers, it is not waited for any more.
const ANSWER_SLACK: Duration = Duration::from_millis(500);
/// Events answered and not yet stored; only their numbers are kept.
const UNSETTLED_MAX: usize = 16_000;

/// One reader of the log and where it delivers.
#[derive(Clone)]
pub struct Lane {
    pub(super) spec: LaneSpec,
    pub(super) target: Arc<dyn Target>,
    pub(super) policy: Arc<dyn RetryPolicy>,
    /// What its target proposes, if nobody has said it.
    pub(super) window: Option<u32>,
    pub(super) window_bytes: u64,
    pub(super) unsettled_max: usize,
    pub(super) timeout: Duration,
    pub(super) slow_after: Duration,
}

impl Lane {
    /// A lane of every topic that delivers to nobody yet: see [`to`](Lane::to).
    ///
    /// # Errors
    /// `Config` for a name that cannot be used.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Self {
            spec: LaneSpec::new(name.parse()?),
            target: Arc::new(Nowhere(Capabilities::sink())),
            policy: Arc::new(Backoff::default()),
            window: None,
            window_bytes: WINDOW_BYTES,
            unsettled_max: UNSETTLED_MAX,
            timeout: TIMEOUT,
            slow_after: Duration::from_secs(2),
        })
    }

    /// Reads only these topics: `*` is one word, `#` any number.
    ///
    /// # Errors
    /// `Rejected` for something that is no pattern.
    pub fn topics<'a>(mut self, topics: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.spec.topics = topics.into_iter().map(str::parse).collect::<Result<Vec<Pattern>>>()?;
        Ok(self)
    }

    /// Delivers here.
    #[must_use]
    pub fn to(mut self, target: Arc<dyn Target>) -> Self {
        self.target = target;
        self
    }

    /// Tries again as this policy says.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Keeps the order of a key, or none.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.spec.order = order;
        self
    }

    /// What a dead event does to the later events of its key.
    #[must_use]
    pub fn on_dead(mut self, on_dead: OnDead) -> Self {
        self.spec.on_dead = on_dead;
        self
    }

    /// Begins here if it is new.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.spec.start = start;
        self
    }

    /// Is owned so long without a settle; a tenth of a second at least, a year at most.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.spec.lease = lease.clamp(LEASE_MIN, LEASE_MAX);
        self
    }

    /// Sends at most so many events without an answer, and no more than the target takes. Unless it is said, the target proposes how
    /// many: 1,000, or what its URL says where that is worth more ([`Capabilities::window`]).
    #[must_use]
    pub fn window(mut self, events: u32) -> Self {
        self.window = Some(events.max(1));
        self
    }

    /// Holds at most so many bytes of events in memory; one event always fits.
    #[must_use]
    pub fn window_bytes(mut self, bytes: u64) -> Self {
        self.window_bytes = bytes;
        self
    }

    /// Sends nothing more while so many answers are kept that are not stored yet: what a crash may repeat, beside the window.
    #[must_use]
    pub fn unsettled_max(mut self, events: usize) -> Self {
        self.unsettled_max = events.max(1);
        self
    }

    /// Waits so long for an answer to one event; after that its outcome is unknown and it failed.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// After so long without an answer an event is parked as leased, so that the lane's place can move on.
    #[must_use]
    pub fn slow_after(mut self, span: Duration) -> Self {
        self.slow_after = span;
        self
    }

    /// Its name.
    pub fn name(&self) -> &LaneName {
        &self.spec.name
    }

    /// How long an answer may take: the lane's timeout, or longer where the target itself notices what is late.
    pub(super) fn answer_timeout(&self) -> Duration {
        let own = self.target.capabilities().answers_within;
        if own.is_zero() { self.timeout } else { self.timeout.max(own + ANSWER_SLACK) }
    }

    /// How many events may be unanswered: the window, or what the target proposes, cut to what it takes.
    pub(super) fn in_flight_max(&self) -> u32 {
        let can = self.target.capabilities();
        self.window.unwrap_or(can.window).min(can.in_flight_max).max(1)
    }
}

/// The target of a lane that was given none: it is never available, so the lane waits and loses nothing.
struct Nowhere(Capabilities);

impl Target for Nowhere {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn deliver(&self, burst: Vec<crate::store::Parcel>) -> BoxStream<'_, Answer> {
        let nobody = |index| {
            let kind = crate::target::DeliverKind::Unavailable;
            Answer::failed(
                index,
                crate::target::DeliverError::new(kind, "no target", "this lane has no target"),
            )
        };
        Box::pin(futures_util::stream::iter((0..burst.len()).map(nobody)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Err(crate::Error::config("this lane has no target; give it one with `to`")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(capabilities: Capabilities) -> Lane {
        Lane::named("main").unwrap().to(Arc::new(Nowhere(capabilities)))
    }

    #[test]
    fn a_lane_without_a_window_has_the_one_that_its_target_proposes() {
        assert_eq!(to(Capabilities::sink()).in_flight_max(), 1_000);
        let can = Capabilities::sink().window(5_000).in_flight_max(6_000);
        assert_eq!(to(can.clone()).in_flight_max(), 5_000);
        assert_eq!(to(can.clone()).window(7).in_flight_max(), 7, "what was said wins");
        assert_eq!(to(can.clone()).window(9_000).in_flight_max(), 6_000, "as far as the target takes it");
        assert_eq!(to(can.in_flight_max(40)).in_flight_max(), 40);
    }
}
