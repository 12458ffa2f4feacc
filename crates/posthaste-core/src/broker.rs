//! A target that can also be consumed from.

use std::sync::Arc;
use std::time::Duration;

use crate::envelope::Envelope;
use crate::pattern::Pattern;
use crate::target::Target;
use crate::{BoxFuture, Result};

/// A target that can also be consumed from.
pub trait Broker: Target {
    /// Opens a group's stream of deliveries.
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>>;
}

/// What a consumer asks of a broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedSpec {
    /// The topics it reads.
    pub topics: Vec<Pattern>,
    /// The group: its members share the deliveries, and every group gets all of them.
    pub group: String,
    /// How many deliveries may be unsettled at once.
    pub prefetch: u32,
    /// Whether deliveries of a key must come one after another, across the members of the group.
    pub order: crate::lane::Order,
}

impl FeedSpec {
    /// This group's feed of these topics, with ten deliveries at once and no order.
    pub fn new(group: impl Into<String>, topics: Vec<Pattern>) -> Self {
        Self { topics, group: group.into(), prefetch: 10, order: crate::lane::Order::None }
    }

    /// Holds so many deliveries at once.
    #[must_use]
    pub fn prefetch(mut self, deliveries: u32) -> Self {
        self.prefetch = deliveries.max(1);
        self
    }

    /// Keeps the order of a key, or none.
    #[must_use]
    pub fn order(mut self, order: crate::lane::Order) -> Self {
        self.order = order;
        self
    }

    /// Whether events of this topic are meant.
    pub fn wants(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(topic))
    }
}

/// A broker's stream for a group.
///
/// Dropping it leaves the group; what was not settled is delivered again, to whoever reads the group.
pub trait Feed: Send {
    /// Waits for deliveries and answers at least one and at most `at_most` of them (which is at least one). None at all
    /// means that the broker was closed and has nothing more for this group.
    ///
    /// # Guarantees
    /// Dropping the future loses nothing. Never more than the feed's prefetch are unsettled; it waits instead.
    ///
    /// # Errors
    /// After an error the feed is thrown away and opened anew.
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>>;
}

/// One event handed to a consumer.
#[non_exhaustive]
pub struct Delivery {
    /// The event.
    pub envelope: Arc<Envelope>,
    /// Which delivery to this group this is, counted from 1, as far as the broker knows.
    pub attempt: u32,
    /// How it is answered.
    pub receipt: Box<dyn Receipt>,
    /// Since when a consumer holds it, and its key with it, because the broker would let others of the key pass.
    pub(crate) held_since: Option<tokio::time::Instant>,
}

impl Delivery {
    /// Joins an event and its receipt.
    pub fn new(envelope: Arc<Envelope>, attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { envelope, attempt, receipt, held_since: None }
    }
}

/// Settles one delivery. Taken by value: twice does not compile; never means it is delivered again.
pub trait Receipt: Send {
    /// It had its effect.
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
    /// Deliver it again, not before; rounded up to what the broker can do.
    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>>;
    /// To the dead letters, confirmed, then acknowledged.
    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>>;
}

/// Whether a delivery that is given back was an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// It was: the next delivery has a higher number.
    Attempt,
    /// It was not: the next delivery has the same number.
    Nothing,
}

/// Why a delivery was buried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// A stable fingerprint by which dead letters are grouped.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// How often it was tried, if the consumer knows better than the broker: it may have tried it again by itself.
    pub attempts: Option<u32>,
    /// For how long the consumer itself has tried it again and again.
    pub held: Option<Duration>,
}

impl Reason {
    /// A fingerprint and a sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), attempts: None, held: None }
    }

    /// It was tried so often, and held by the consumer for so long.
    #[must_use]
    pub fn tried(mut self, attempts: u32, held: Option<Duration>) -> Self {
        (self.attempts, self.held) = (Some(attempts), held);
        self
    }
}
