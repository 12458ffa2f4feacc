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
}

/// A broker's stream for a group.
pub trait Feed: Send {
    /// The next delivery; `None` when the feed was closed.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Delivery>>>;
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
}

impl Delivery {
    /// Joins an event and its receipt.
    pub fn new(envelope: Arc<Envelope>, attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { envelope, attempt, receipt }
    }
}

/// Settles one delivery. Taken by value: twice does not compile; never means it is delivered again.
pub trait Receipt: Send {
    /// It had its effect.
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
    /// Deliver it again, not before; rounded up to what the broker can do.
    fn release(self: Box<Self>, after: Duration) -> BoxFuture<'static, Result<()>>;
    /// To the dead letters, confirmed, then acknowledged.
    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>>;
}

/// Why a delivery was buried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// A stable fingerprint by which dead letters are grouped.
    pub code: String,
    /// What happened, for people.
    pub message: String,
}

impl Reason {
    /// A fingerprint and a sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}
