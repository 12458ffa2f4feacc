//! A target that can also be consumed from.

use std::sync::Arc;
use std::time::Duration;

use crate::envelope::Envelope;
use crate::pattern::Pattern;
use crate::target::Target;
use crate::{BoxFuture, Result};

/// A target that can also be consumed from.
///
/// A broker keeps deliveries and hands them out again. Only the consumer decides about retries. A broker logs
/// what no caller can be told, such as a message that it could not move.
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
    /// Which attempt this is, counted from 1: one more than have failed, as far as the broker knows. That it was handed out
    /// before and came back without an answer is no failure: its consumer was stopped, or lost the broker.
    pub attempt: u32,
    /// How it is answered.
    pub receipt: Box<dyn Receipt>,
    /// Set where it came back without an answer so often that it may be what ends its consumers: it is handled alone then, and
    /// on record.
    pub trial: Option<Box<dyn Trial>>,
    /// How often it ended its consumer's process; known once it is on trial.
    pub(crate) crashes: u32,
    /// Since when a consumer holds it, and its key with it, because the broker would let others of the key pass.
    pub(crate) held_since: Option<tokio::time::Instant>,
}

impl Delivery {
    /// Joins an event and its receipt.
    pub fn new(envelope: Arc<Envelope>, attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { envelope, attempt, receipt, trial: None, crashes: 0, held_since: None }
    }

    /// Has it handled alone, and on this record.
    #[must_use]
    pub fn on_trial(mut self, trial: Box<dyn Trial>) -> Self {
        self.trial = Some(trial);
        self
    }

    /// Which attempt this is, with those that ended the process.
    pub(crate) fn attempt_in_all(&self) -> u32 {
        self.attempt.saturating_add(self.crashes)
    }

    /// Puts something around its receipt, for brokers that stand in front of others.
    #[must_use]
    pub fn with_receipt(self, around: impl FnOnce(Box<dyn Receipt>) -> Box<dyn Receipt>) -> Self {
        Self { receipt: around(self.receipt), ..self }
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

/// The record of an event that may be what ends its consumers' processes: what has begun and never ended, ended the process.
///
/// A consumer handles such an event alone, so that it is the one to blame, and not others that were at work beside it.
pub trait Trial: Send {
    /// Writes down that handling begins. Answers how often it began before, here or elsewhere, and never ended.
    ///
    /// # Errors
    /// When nothing could be written down; the event is handled all the same.
    fn begin(&mut self) -> BoxFuture<'_, Result<u32>>;
    /// Writes down that handling has ended, well or not: the process is still there. What only lets go of a trial, in a process
    /// that lives on, must count as that too.
    ///
    /// # Errors
    /// When nothing could be written down.
    fn end(&mut self) -> BoxFuture<'_, Result<()>>;
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
