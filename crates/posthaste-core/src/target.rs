//! Where a lane delivers: a broker, a handler in this process, stdout, or nowhere.

use std::time::Duration;

use crate::envelope::Envelope;
use crate::findings::Finding;
use crate::store::Parcel;
use crate::{BoxFuture, BoxStream, Error, Result};

/// Takes bursts of parcels and answers for each.
///
/// A target classifies its errors. Only the relay decides whether and when an event is tried again, and only
/// the relay logs and counts failed deliveries. A target may keep its connection alive in the background: it
/// reconnects, backs off between attempts, and logs and counts the state of the connection. Its tasks and
/// threads end by themselves when nobody uses it anymore.
pub trait Target: Send + Sync {
    /// What this target can do; fixed for its life.
    fn capabilities(&self) -> &Capabilities;

    /// Sends a burst and yields one answer per parcel, in whatever order they come.
    ///
    /// The relay polls several bursts at once. Dropped before an answer: the outcome is unknown, and the event is sent
    /// again with the same id.
    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer>;

    /// Checks before an event is stored that it is not larger than this target takes, as far as that is known without asking it.
    ///
    /// # Errors
    /// `TooLarge`, with both sizes.
    fn fits(&self, event: &Envelope) -> Result<()> {
        let (size, limit) = (event.payload.len() as u64, self.capabilities().payload_bytes_max);
        if size <= limit {
            return Ok(());
        }
        Err(Error::too_large(format!("the payload has {size} bytes, the limit is {limit}")))
    }

    /// Asks whether the target would take events now.
    fn ping(&self) -> BoxFuture<'_, Result<()>>;

    /// Looks for what goes wrong in practice on the way to it and behind it, beyond what [`ping`](Target::ping) says. Changes
    /// nothing.
    fn examine(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(async { Vec::new() })
    }
}

/// What a target says about one parcel of a burst.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The parcel's place in its burst.
    pub index: usize,
    /// Whether it was acknowledged.
    pub result: Result<(), DeliverError>,
}

impl Answer {
    /// The parcel at this place was acknowledged.
    pub fn delivered(index: usize) -> Self {
        Self { index, result: Ok(()) }
    }

    /// The parcel at this place was not.
    pub fn failed(index: usize, error: DeliverError) -> Self {
        Self { index, result: Err(error) }
    }
}

/// What kind of failure it was; decides what the relay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeliverKind {
    /// Nobody's events would pass: the lane pauses and probes, and no attempt is counted.
    Unavailable,
    /// This event did not pass and may later: parked with backoff, counted.
    Failed,
    /// Not yet: it waits as long as it asks for ([`DeliverError::after`]), and no attempt is counted.
    Later,
    /// This event will never pass: dead.
    Rejected,
    /// This event is larger than the target takes: dead.
    TooLarge,
    /// The address is gone for good: the lane is retired and its events wait.
    Gone,
}

/// Why a parcel was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverError {
    /// What kind of failure it was.
    pub kind: DeliverKind,
    /// A stable fingerprint by which dead letters are grouped: `timeout`, `http 503`.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// The target asked not to be called before.
    pub retry_after: Option<Duration>,
}

impl DeliverError {
    /// A failure of this kind.
    pub fn new(kind: DeliverKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, code: code.into(), message: message.into(), retry_after: None }
    }

    /// The target asked for this pause.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }
}

impl std::fmt::Display for DeliverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for DeliverError {}

/// What a consumer group of this target keeps of the order of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OrderKept {
    /// None.
    #[default]
    None,
    /// Within one process.
    PerProcess,
    /// Across processes.
    PerKey,
}

/// What a target can do; the relay, `check` and the laws read the same value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// Parcels per [`Target::deliver`].
    pub burst_max: u32,
    /// So many parcels are worth a [`Target::deliver`] while much is on its way: what a burst costs beyond its parcels decides. A lane
    /// gathers no more than a quarter of its window.
    pub burst_worth: u32,
    /// The window of a lane that was given none.
    pub window: u32,
    /// Unanswered parcels at once; a lane's window is cut to it.
    pub in_flight_max: u32,
    /// The largest payload it takes; larger ones are dead with code `too large`.
    pub payload_bytes_max: u64,
    /// How long it may take to answer by itself, where it tells a late answer from a lost connection: a lane waits at least
    /// so long, whatever its own timeout.
    pub answers_within: Duration,
    /// What a consumer group keeps of the order of a key.
    pub order: OrderKept,
    /// Whether topics can be patterns when consuming.
    pub patterns: bool,
    /// Whether a delivery can be released for later.
    pub delayed_release: bool,
    /// Whether a delivery that was released holds the later ones of its key back until it is settled.
    pub release_in_order: bool,
    /// Where a released delivery does not hold its key: for how long a consumer may hold it in its own process instead.
    pub hold_max: Duration,
    /// Whether it can hand out again what was acknowledged.
    pub replay: bool,
}

/// Brokers take back what was not acknowledged within half an hour or so; a key need not wait nearly so long.
const HOLD_MAX: Duration = Duration::from_secs(300);

/// What a lane may have unanswered, unless it or its target says otherwise.
const WINDOW: u32 = 1_000;

impl Capabilities {
    /// How long the first parcels of a burst wait for the others, at most, while the target has enough to do.
    pub const GATHER: Duration = Duration::from_millis(2);

    /// A target that takes bursts of a thousand, as many at once as the window allows, of any size, and cannot be consumed from.
    pub fn sink() -> Self {
        Self {
            burst_max: 1_000,
            burst_worth: u32::MAX,
            window: WINDOW,
            in_flight_max: u32::MAX,
            payload_bytes_max: u64::MAX,
            answers_within: Duration::ZERO,
            order: OrderKept::None,
            patterns: false,
            delayed_release: false,
            release_in_order: false,
            hold_max: HOLD_MAX,
            replay: false,
        }
    }

    /// Takes at most so many parcels per burst.
    #[must_use]
    pub fn burst_max(mut self, parcels: u32) -> Self {
        self.burst_max = parcels.max(1);
        self
    }

    /// So many parcels are worth a burst while much is on its way.
    #[must_use]
    pub fn burst_worth(mut self, parcels: u32) -> Self {
        self.burst_worth = parcels.max(1);
        self
    }

    /// How many parcels are worth a burst while `in_flight` of `window` are out; fewer wait for others, for [`GATHER`](Self::GATHER) at
    /// most. Answers come a few at a time, and a burst for each few may cost a target as much as a full one does: so while more than
    /// half of the window is out, a burst waits until it is worth it.
    pub fn worth_sending(&self, window: usize, in_flight: usize) -> usize {
        if in_flight <= window / 2 {
            return 1;
        }
        (self.burst_max.min(self.burst_worth) as usize).min(window / 4).max(1)
    }

    /// A lane that was given no window has this one.
    #[must_use]
    pub fn window(mut self, parcels: u32) -> Self {
        self.window = parcels.max(1);
        self
    }

    /// Takes at most so many unanswered parcels at once.
    #[must_use]
    pub fn in_flight_max(mut self, parcels: u32) -> Self {
        self.in_flight_max = parcels.max(1);
        self
    }

    /// Takes payloads up to this size.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: u64) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Answers within this span by itself, if only to say that the answer is late.
    #[must_use]
    pub fn answers_within(mut self, span: Duration) -> Self {
        self.answers_within = span;
        self
    }

    /// A consumer group keeps this much of the order of a key.
    #[must_use]
    pub fn order(mut self, order: OrderKept) -> Self {
        self.order = order;
        self
    }

    /// Topics can be patterns when consuming.
    #[must_use]
    pub fn patterns(mut self) -> Self {
        self.patterns = true;
        self
    }

    /// A delivery can be released for later.
    #[must_use]
    pub fn delayed_release(mut self) -> Self {
        self.delayed_release = true;
        self
    }

    /// A consumer holds a failing event and its key for so long at most.
    #[must_use]
    pub fn hold_max(mut self, longest: Duration) -> Self {
        self.hold_max = longest;
        self
    }

    /// A delivery can be released for later, and holds the later ones of its key back until then.
    #[must_use]
    pub fn release_in_order(mut self) -> Self {
        self.delayed_release = true;
        self.release_in_order = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_a_burst_is_the_target_s_to_say_and_a_quarter_of_the_window_at_most() {
        let dear = Capabilities::sink().burst_max(500);
        assert_eq!((dear.worth_sending(1_000, 501), dear.worth_sending(4_000, 2_001)), (250, 500));
        assert_eq!(dear.worth_sending(1_000, 500), 1, "where little is on its way nothing waits");
        let cheap = dear.burst_worth(50);
        assert_eq!((cheap.worth_sending(5_000, 4_900), cheap.worth_sending(100, 90)), (50, 25));
        assert_eq!(cheap.worth_sending(1, 1), 1);
    }
}
