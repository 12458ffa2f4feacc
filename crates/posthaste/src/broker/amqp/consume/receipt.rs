//! Answers for one message: acknowledged, moved and then acknowledged, or given back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use lapin::{Acker, BasicProperties, Channel};
use posthaste_core::broker::{Count, Reason, Receipt};
use posthaste_core::{BoxFuture, Error, Result};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::label::Label;
use super::mover::Mover;
use super::trial::Records;
use crate::broker::amqp::link::told;
use crate::broker::amqp::naming::Names;
use crate::broker::amqp::tiers::Tiers;
use crate::broker::amqp::wire::Body;

/// A message that could not be moved is not handed out again at once: a dead queue that is full would keep everybody busy.
const BRAKE: Duration = Duration::from_secs(1);

/// What a feed and its receipts share: one channel. It closes with the last of them, and then the broker takes back, each at
/// its place, what was not acknowledged.
pub(super) struct Line {
    pub(super) channel: Channel,
    pub(super) mover: Mover,
    pub(super) tiers: Tiers,
    /// Whether the order of a key counts.
    pub(super) ordered: bool,
    prefetch: usize,
    pub(super) outstanding: AtomicUsize,
    /// Rings when there is room again, and at the end.
    pub(super) room: Notify,
    /// Why nothing more may come on this channel: something on it can be given back only together with the rest.
    failure: Mutex<Option<String>>,
    /// With order per key the subscription ends with the last receipt, not with the feed: as long as something is unsettled
    /// here, no other member of the group may get what comes after it.
    subscriptions: Mutex<Vec<lapin::Consumer>>,
}

impl Line {
    pub(super) fn new(channel: Channel, mover: Mover, tiers: Tiers, ordered: bool, prefetch: usize) -> Self {
        Self {
            channel,
            mover,
            tiers,
            ordered,
            prefetch,
            outstanding: AtomicUsize::new(0),
            room: Notify::new(),
            failure: Mutex::default(),
            subscriptions: Mutex::default(),
        }
    }

    /// Ends the feed with this error: it is opened anew, and everything that was not settled comes again, in order.
    fn fail(&self, error: &Error) {
        *lock(&self.failure) = Some(error.to_string());
        self.room.notify_one();
    }

    pub(super) fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone().map(Error::unavailable)
    }

    pub(super) fn room(&self) -> usize {
        self.prefetch.saturating_sub(self.outstanding.load(Ordering::Acquire))
    }

    pub(super) fn keep(&self, subscription: lapin::Consumer) {
        lock(&self.subscriptions).push(subscription);
    }

    /// Answers whether nothing is unsettled any more.
    fn settled(&self) -> bool {
        let before = self.outstanding.fetch_sub(1, Ordering::AcqRel);
        if before >= self.prefetch {
            self.room.notify_one();
        }
        before == 1
    }
}

impl Drop for Line {
    /// Closes the channel before the client cancels the subscriptions, which it would do first: the next member of the group
    /// would become the active one and get what comes after the messages that are not back yet.
    fn drop(&mut self) {
        if self.ordered && self.channel.status().connected() {
            // Sent when it is first polled.
            let _ = self.channel.close(200, "let go".into()).now_or_never();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One message that is not settled. Dropped, it is given back.
pub(super) struct Hold {
    pub(super) line: Arc<Line>,
    pub(super) names: Arc<Names>,
    pub(super) acker: Acker,
    pub(super) tag: u64,
    pub(super) properties: BasicProperties,
    pub(super) body: Body,
    pub(super) label: Label,
    /// Which attempt this is, from 1.
    pub(super) attempt: u32,
    /// Whether later ones must not pass it.
    pub(super) in_order: bool,
    /// What is recorded of it, if it is on trial.
    pub(super) records: Option<Arc<Records>>,
    pub(super) is_open: bool,
}

impl Hold {
    /// Tells the broker that it is done with. Does not wait for that to be written, but for the last one that is unsettled: a
    /// consumer that has settled everything repeats nothing when it comes again.
    pub(super) async fn ack(mut self) -> Result<()> {
        if !self.acker.usable() {
            return Err(gone());
        }
        if let Some(records) = self.records.take() {
            records.close().await;
        }
        self.is_open = false;
        let line = Arc::clone(&self.line);
        let mut acking = std::pin::pin!(line.channel.basic_ack(self.tag, BasicAckOptions::default()));
        let written = acking.as_mut().now_or_never();
        let is_last = line.settled();
        let written = match written {
            None if is_last => acking.await,
            None => Ok(()),
            Some(written) => written,
        };
        written.map_err(|error| told("acknowledge a message", &error))
    }

    /// Tried again after this time.
    pub(super) async fn release(mut self, after: Duration, count: Count) -> Result<()> {
        if self.in_order {
            // Whatever was behind it comes back behind it, because all of it comes back together, with the channel.
            return Ok(());
        }
        let crashes = self.records.as_ref().map_or(0, |records| records.crashes());
        self.label.story.failed(self.attempt.saturating_add(crashes), count);
        self.wait(after).await
    }

    /// Set aside for this time, or put back into its own queue.
    pub(super) async fn wait(mut self, pause: Duration) -> Result<()> {
        let names = Arc::clone(&self.names);
        if pause.is_zero() {
            self.label.wait = Duration::ZERO;
            return self.move_to(&names.queue).await;
        }
        let wait = self.line.tiers.wait(pause);
        self.label.wait = wait.left;
        self.move_to(&names.retry[wait.tier]).await
    }

    /// Dead, in the queue for that.
    pub(super) async fn bury(mut self, reason: Reason) -> Result<()> {
        let names = Arc::clone(&self.names);
        self.label.story.failed(self.attempt, Count::Attempt);
        self.label.story.died(&names.queue, reason);
        self.move_to(&names.dead).await
    }

    /// Acknowledged here when the other queue has it, and not before.
    async fn move_to(self, queue: &str) -> Result<()> {
        if !self.acker.usable() {
            return Err(gone());
        }
        let properties = self.label.on(&self.properties);
        match self.line.mover.put(queue, properties, self.body.clone()).await {
            Ok(()) => self.ack().await,
            Err(error) => {
                sleep(BRAKE).await;
                if self.in_order {
                    self.line.fail(&error);
                }
                Err(error)
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.line.settled();
        if !self.in_order && self.acker.usable() {
            let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            // Sent when it is first polled; nobody waits for it to be written.
            let _ = self.line.channel.basic_nack(self.tag, requeue).now_or_never();
        }
    }
}

fn gone() -> Error {
    Error::unavailable("the channel on which the message came is closed; the broker delivers it again")
}

pub(super) struct AmqpReceipt(pub(super) Hold);

impl Receipt for AmqpReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.ack())
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.release(after, count))
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.bury(reason))
    }
}
