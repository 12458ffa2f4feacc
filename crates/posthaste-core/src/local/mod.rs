//! The local broker: in this process, without any dependency, the default.
//!
//! Every group gets every event of its topics; the members of a group share them. What a member does not settle is
//! delivered again. Events, and what is dead, are kept in bounded buffers in memory and end with the process: put a store
//! and a relay in front where that must not be.
//!
//! * `group` keeps what a group has not settled: ready, behind its key, waiting for its time.
//! * `feed` hands it out; `publish` takes it in; `dead` keeps what failed for good; `admin` is the operator's side.

mod admin;
mod dead;
mod feed;
mod group;
mod publish;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Notify;

pub use dead::DeadLetter;

use crate::broker::{Broker, Feed, FeedSpec};
use crate::envelope::Envelope;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::target::{Capabilities, OrderKept};
use crate::time::{Clock, SystemClock};
use crate::{BoxFuture, Error, Result};
use dead::DeadLetters;
use group::Group;

const BUFFER: usize = 10_000;
const BUFFER_BYTES: u64 = 64 * 1024 * 1024;
const DEAD_MAX: usize = 100;

/// What a publish does when a group's buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Full {
    /// It waits until there is room: back-pressure reaches the producer.
    #[default]
    Wait,
    /// It fails.
    Fail,
}

/// What a publish does with an event that no group reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrouted {
    /// It fails: nothing is lost because a consumer starts late.
    #[default]
    Fail,
    /// It drops the event and counts it.
    Drop,
}

/// Something that the application should hear of; for [`LocalBrokerBuilder::on_error`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// The buffer of dead letters was full, and this one, the oldest, was dropped.
    DeadDropped(DeadLetter),
    /// An event that no group reads was dropped.
    Unrouted(Arc<Envelope>),
}

type OnError = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// A broker in this process; clones are one broker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> posthaste_core::Result<()> {
/// use posthaste_core::{broker::{Broker, FeedSpec}, local::LocalBroker, publish::Publish};
/// let broker = LocalBroker::new();
/// let mut feed = broker.feed(&FeedSpec::new("stock", vec!["order.*".parse()?])).await?;
/// broker.publish(Publish::raw("order.placed", "{}")).await?;
/// for delivery in feed.next(10).await? {
///     assert_eq!(delivery.envelope.payload, b"{}");
///     delivery.receipt.ack().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LocalBroker {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    /// Only ever grows, so that two publishes lock groups in the same order.
    groups: RwLock<Vec<Arc<Group>>>,
    seq: AtomicI64,
    closed: AtomicBool,
    /// Rings when something was settled that may let a waiting publish or a close go on.
    room: Notify,
    dead: DeadLetters,
    capabilities: Capabilities,
}

#[derive(Clone)]
struct Options {
    buffer: usize,
    buffer_bytes: u64,
    dead_max: usize,
    full: Full,
    unrouted: Unrouted,
    payload_bytes_max: usize,
    source: String,
    on_error: Option<OnError>,
    clock: Arc<dyn Clock>,
}

/// How a close ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Events that were left, in groups that nobody read.
    pub left: usize,
}

/// Makes a broker that is not as usual.
#[derive(Clone)]
pub struct LocalBrokerBuilder(Options);

impl LocalBroker {
    /// A broker without groups: 10,000 events and 64 MiB for each group, 100 dead letters, a full buffer is waited for.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Makes one that is not as usual.
    pub fn builder() -> LocalBrokerBuilder {
        LocalBrokerBuilder(Options {
            buffer: BUFFER,
            buffer_bytes: BUFFER_BYTES,
            dead_max: DEAD_MAX,
            full: Full::default(),
            unrouted: Unrouted::default(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            source: "local:".to_owned(),
            on_error: None,
            clock: Arc::new(SystemClock),
        })
    }

    /// Takes no more events, waits until every group that somebody reads has settled all it had, and ends their feeds. A
    /// second close waits for the same.
    ///
    /// It waits for retries too, so give it a time limit where that could be long.
    pub async fn close(&self) -> Closed {
        self.refuse();
        loop {
            let mut settled = std::pin::pin!(self.inner.room.notified());
            settled.as_mut().enable();
            let groups = self.groups();
            if groups.iter().all(|group| group.is_drained() || group.is_deserted()) {
                let left = groups.iter().map(|group| group.unsettled()).sum();
                if left > 0 {
                    tracing::warn!(left, "the local broker was closed with events that nobody read");
                }
                self.inner.dead.end();
                return Closed { left };
            }
            settled.await;
        }
    }

    /// Takes no more events from now on; what is there is still delivered.
    pub fn refuse(&self) {
        // The lock keeps out publishes that have looked already and not yet put their event down.
        let groups = self.inner.groups.write().expect("nobody panics while holding it");
        self.inner.closed.store(true, Ordering::SeqCst);
        groups.iter().for_each(|group| group.wake_all());
        drop(groups);
        self.inner.room.notify_waiters();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::SeqCst)
    }

    fn groups(&self) -> Vec<Arc<Group>> {
        self.inner.groups.read().expect("nobody panics while holding it").clone()
    }

    fn join(&self, spec: &FeedSpec) -> Result<Box<dyn Feed>> {
        let mut groups = self.inner.groups.write().expect("nobody panics while holding it");
        let group = match groups.iter().find(|group| group.name() == spec.group) {
            Some(group) => {
                if group.order() != spec.order {
                    return Err(Error::config(format!(
                        "the group {:?} is read with another order by another member; all members must agree",
                        spec.group
                    )));
                }
                group.add_topics(&spec.topics);
                Arc::clone(group)
            }
            None => {
                let group = Arc::new(Group::new(spec));
                groups.push(Arc::clone(&group));
                group
            }
        };
        Ok(Box::new(feed::LocalFeed::new(Arc::clone(&self.inner), group, spec.prefetch)))
    }
}

impl Default for LocalBroker {
    fn default() -> Self {
        Self::new()
    }
}

impl Broker for LocalBroker {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move { self.join(spec) })
    }
}

impl From<LocalBroker> for Arc<dyn Broker> {
    fn from(broker: LocalBroker) -> Self {
        Arc::new(broker)
    }
}

impl LocalBrokerBuilder {
    /// Keeps so many unsettled events for each group.
    #[must_use]
    pub fn buffer(mut self, events: usize) -> Self {
        self.0.buffer = events.max(1);
        self
    }

    /// Keeps so many bytes of unsettled events for each group; one event always fits.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.0.buffer_bytes = bytes;
        self
    }

    /// Keeps so many dead letters; the oldest is dropped for a new one, counted and reported.
    #[must_use]
    pub fn dead_max(mut self, letters: usize) -> Self {
        self.0.dead_max = letters;
        self
    }

    /// Waits when a buffer is full, or fails.
    #[must_use]
    pub fn when_full(mut self, full: Full) -> Self {
        self.0.full = full;
        self
    }

    /// Fails when no group reads an event, or drops it.
    #[must_use]
    pub fn when_unrouted(mut self, unrouted: Unrouted) -> Self {
        self.0.unrouted = unrouted;
        self
    }

    /// Takes payloads up to this size.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.0.payload_bytes_max = bytes;
        self
    }

    /// Gives events without a source this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.0.source = source.into();
        self
    }

    /// Calls this when something was dropped.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.0.on_error = Some(Arc::new(hook));
        self
    }

    /// Stamps dead letters by this clock. Pauses are always counted on tokio's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.0.clock = Arc::new(clock);
        self
    }

    /// The broker.
    pub fn build(self) -> LocalBroker {
        let capabilities = Capabilities::sink()
            .payload_bytes_max(self.0.payload_bytes_max as u64)
            .order(OrderKept::PerKey)
            .patterns()
            .release_in_order();
        let dead = DeadLetters::new(self.0.dead_max);
        let inner = Inner {
            options: self.0,
            groups: RwLock::default(),
            seq: AtomicI64::new(1),
            closed: AtomicBool::new(false),
            room: Notify::new(),
            dead,
            capabilities,
        };
        LocalBroker { inner: Arc::new(inner) }
    }
}

impl Inner {
    fn report(&self, trouble: &Trouble) {
        if let Some(hook) = &self.options.on_error {
            hook(trouble);
        }
    }

    /// Whether a group with so much has no room for more.
    fn is_full(&self, events: usize, bytes: u64, more: u64) -> bool {
        events >= self.options.buffer
            || (events > 0 && bytes.saturating_add(more) > self.options.buffer_bytes)
    }
}

/// The longest pause that is kept; more would reach beyond what a clock can say.
const PAUSE_MAX: Duration = Duration::from_secs(365 * 86_400);
