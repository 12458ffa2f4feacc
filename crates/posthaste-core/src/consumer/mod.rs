//! Handles events: one transaction for the inbox row, the effect and what it publishes; then the acknowledgement.
//!
//! ```text
//!  broker ─► feed ─► desk ─► worker ─► begin ─► inbox row ─► middleware ─► handler ─► commit ─► ack
//!                    (keys)              │          │                         │
//!                                        │          └ there already: ack      ├ Err: undo, release for later, or bury
//!                                        └ away: undo, release                └ reject: undo, bury;  later: undo, release
//! ```
//!
//! * [`Consumer`] is what a user builds and runs; [`Cx`] and [`Failure`] are what handlers see.
//! * `desk` holds what was fetched and keeps order per key; `worker` takes from it, handles and settles; `batch` does so for
//!   many at once.
//! * `engine` handles one event; [`Inbox`] and [`Dedup`] make it have its effect once.
//!
//! Only the consumer decides about retries; brokers keep and deliver again.
//!
//! One future fetches, and a fixed number of workers handle:
//!
//! * A feed answers several deliveries at once, and a worker takes a share of them under one lock. A handler
//!   that never waits costs no task and no lock per event. A handler that waits does not hold up the rest,
//!   because its worker gives the rest of the share back.
//! * An event that kills its process is found only by a record that outlives the process, and only if the
//!   event was handled alone: the events beside it come back just as often. So a broker marks what came back
//!   without an answer ([`Trial`](crate::broker::Trial)), and the desk hands it to a worker only when no
//!   other worker has anything. A delivery is not an attempt; a failure is one, and so is a record that
//!   nobody ended.
//! * `later` is a release that does not count as an attempt.

mod batch;
mod check;
mod classify;
mod crew;
mod cx;
mod dedup;
mod desk;
mod engine;
mod failure;
mod handler;
mod inbox;
mod limit;
mod meters;
mod middleware;

mod readiness;
mod run;
mod start;
mod steps;
mod target;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use crew::{Crew, Stop};
pub use cx::{Cx, Ground, NoDatabase, Transactional};
pub use dedup::{Begun, Dedup, DedupKey, Finished, Idempotent, MemoryDedup, Token};
pub use failure::{BoxError, Class, Failure};
pub use handler::Handler;
pub use inbox::Inbox;
pub use limit::Limit;
pub use middleware::{Call, Middleware, Next};
pub use readiness::Readiness;
pub use steps::{Stepped, Steps};

use crate::broker::Reason;
use crate::envelope::Envelope;
use crate::event::Event;
use crate::lane::Order;
use crate::outbox::Outbox;
use crate::prefix::TablePrefix;
use crate::retry::{Backoff, RetryPolicy};
use engine::Classify;
use handler::{Route, Typed, Whole};
use readiness::Ready;

const WORKERS: usize = 5;
const PREFETCH: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(10);
const GRACE_MAX: Duration = Duration::from_secs(86_400);
const ATTEMPTS: u32 = 5;

type Hook = Arc<dyn Fn(&Letter) + Send + Sync>;

/// What becomes of an event whose type no handler takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhandled {
    /// It is acknowledged and counted: other types on a topic are no mistake.
    #[default]
    Ignore,
    /// It is dead.
    Dead,
}

/// An event that failed or died at a consumer, as hooks see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Letter {
    /// At this consumer.
    pub consumer: String,
    /// The event.
    pub envelope: Arc<Envelope>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why.
    pub reason: Reason,
}

impl Letter {
    fn new(consumer: &str, envelope: &Arc<Envelope>, attempts: u32, reason: &Reason) -> Self {
        Self {
            consumer: consumer.to_owned(),
            envelope: Arc::clone(envelope),
            attempts,
            reason: reason.clone(),
        }
    }
}

/// Handles the events of a group: handlers by type, and how they are run.
///
/// ```
/// use posthaste_core::{Result, consumer::{Consumer, Cx, Failure}, local::LocalBroker, publish::Publish};
/// # use posthaste_core::{codec::Json, event::Event};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct OrderPlaced { order_id: u32 }
/// # impl Event for OrderPlaced { const TYPE: &'static str = "order.placed"; type Codec = Json; }
///
/// async fn greet(cx: &mut Cx, event: OrderPlaced) -> Result<(), Failure> {
///     println!("order {} at attempt {}", event.order_id, cx.attempt());
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let broker = LocalBroker::new();
/// let consumer = Consumer::named("greeter").on(greet);
/// consumer.declare(&broker).await?;
/// broker.publish(&OrderPlaced { order_id: 7 }).await?;
/// let (run, closed) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
/// run?;
/// assert_eq!(closed.left, 0);
/// # Ok(()) }
/// ```
///
/// # Guarantees
/// With a database, a handler that writes through [`Cx::tx`] has its effect once per event: inbox row, effect and publishes
/// are committed together, and the acknowledgement follows. Without one, a handler may run again after a crash. Every event
/// is acknowledged after its effect, or given back, or dead with a reason. Dropping the future of [`run`](Consumer::run)
/// loses nothing.
pub struct Consumer<D: Ground = NoDatabase, S = ()> {
    name: String,
    database: D,
    state: S,
    outbox: Outbox,
    prefix: TablePrefix,
    routes: HashMap<String, Box<dyn Route<D, S>>>,
    any: Option<Box<dyn Route<D, S>>>,
    type_topics: Vec<String>,
    topics: Option<Vec<String>>,
    middleware: Vec<Arc<dyn Middleware>>,
    unhandled: Unhandled,
    classify: Option<Classify>,
    policy: Arc<dyn RetryPolicy>,
    order: Order,
    workers: usize,
    prefetch: usize,
    batch: usize,
    timeout: Duration,
    grace: Duration,
    hold_max: Option<Duration>,
    on_dead: Option<Hook>,
    on_failed: Option<Hook>,
    ready: Ready,
    problems: Vec<String>,
}

impl Consumer {
    /// A consumer without database and state. The name is the broker's group.
    pub fn named(name: impl Into<String>) -> Self {
        Self::new(name, NoDatabase, ())
    }
}

impl<S: Send + Sync + 'static> Consumer<NoDatabase, S> {
    /// A consumer without a database, whose handlers find this in [`Cx::state`].
    pub fn with_state(name: impl Into<String>, state: S) -> Self {
        Self::new(name, NoDatabase, state)
    }
}

impl<D: Ground, S: Send + Sync + 'static> Consumer<D, S> {
    /// A consumer whose handlers work in transactions of this database and find this state in [`Cx::state`]. The name is the
    /// broker's group and the inbox's consumer; it must stay what it is.
    pub fn new(name: impl Into<String>, database: D, state: S) -> Self {
        let name = name.into();
        Self {
            outbox: Outbox::new(format!("/{name}")),
            name,
            database,
            state,
            prefix: TablePrefix::default(),
            routes: HashMap::new(),
            any: None,
            type_topics: Vec::new(),
            topics: None,
            middleware: Vec::new(),
            unhandled: Unhandled::default(),
            classify: None,
            policy: Arc::new(
                Backoff::exponential(Duration::from_secs(1)).cap(Duration::from_secs(900)).attempts(ATTEMPTS),
            ),
            order: Order::PerKey,
            workers: WORKERS,
            prefetch: PREFETCH,
            batch: 1,
            timeout: TIMEOUT,
            grace: GRACE,
            hold_max: None,
            on_dead: None,
            on_failed: None,
            ready: Ready::new(),
            problems: Vec::new(),
        }
    }

    /// Handles events of the type in the handler's signature. Its topic is read too, unless [`topics`](Consumer::topics)
    /// says otherwise.
    #[must_use]
    pub fn on<E: Event, F>(mut self, handler: F) -> Self
    where
        F: AsyncFn(&mut Cx<D, S>, E) -> Result<(), Failure> + for<'a> Handler<'a, Cx<D, S>, E>,
    {
        let before = self.routes.insert(E::TYPE.to_owned(), Box::new(Typed::<F, E>::new(handler)));
        if before.is_some() {
            self.problems.push(format!("there are two handlers for events of type {:?}", E::TYPE));
        }
        self.type_topics.push(E::TOPIC.unwrap_or(E::TYPE).to_owned());
        self
    }

    /// Handles every event that no other handler takes, as an envelope: `async fn(&mut Cx, Arc<Envelope>)`.
    #[must_use]
    pub fn on_any<F>(mut self, handler: F) -> Self
    where
        F: AsyncFn(&mut Cx<D, S>, Arc<Envelope>) -> Result<(), Failure>
            + for<'a> Handler<'a, Cx<D, S>, Arc<Envelope>>,
    {
        if self.any.replace(Box::new(Whole(handler))).is_some() {
            self.problems.push("there are two handlers for all other events".to_owned());
        }
        self
    }

    /// Reads these topics: `*` is one word, `#` any number. Otherwise those of the handlers' types, and all of them if only
    /// [`on_any`](Consumer::on_any) handles.
    #[must_use]
    pub fn topics<'a>(mut self, topics: impl IntoIterator<Item = &'a str>) -> Self {
        self.topics = Some(topics.into_iter().map(str::to_owned).collect());
        self
    }

    /// Puts this around every handler, inside of what was put before.
    #[must_use]
    pub fn around(mut self, middleware: impl Middleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Says what becomes of an event whose type no handler takes.
    #[must_use]
    pub fn unhandled(mut self, unhandled: Unhandled) -> Self {
        self.unhandled = unhandled;
        self
    }

    /// Tries again as this policy says: 5 attempts from a second on, unless configured.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Asks this about every failure first; `None` leaves it as the handler said.
    #[must_use]
    pub fn classify(
        mut self,
        classify: impl Fn(&Failure, &Envelope) -> Option<Class> + Send + Sync + 'static,
    ) -> Self {
        self.classify = Some(Arc::new(classify));
        self
    }

    /// Handles the events of a key one after another (the default), or takes no heed of keys.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Handles so many events at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Fetches so many events ahead for each worker.
    #[must_use]
    pub fn prefetch(mut self, events: usize) -> Self {
        self.prefetch = events;
        self
    }

    /// Handles up to so many events of different keys in one transaction. One that fails is found by halving.
    #[must_use]
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = events;
        self
    }

    /// Gives up waiting for a handler after this time; that is a failure like any other.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Waits so long for what is being handled when it is told to stop; a day at most.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.min(GRACE_MAX);
        self
    }

    /// Holds a key for so long at most while its first event fails, on brokers that cannot keep its order themselves; else as
    /// the broker says, which is five minutes unless configured. Then that event is dead, and its key goes on.
    #[must_use]
    pub fn hold_max(mut self, longest: Duration) -> Self {
        self.hold_max = Some(longest);
        self
    }

    /// Publishes through this outbox in [`Cx::publish`]; otherwise through one whose source is `/` and the name.
    #[must_use]
    pub fn outbox(mut self, outbox: Outbox) -> Self {
        self.outbox = outbox;
        self
    }

    /// Keeps its inbox in tables with this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &TablePrefix) -> Self {
        self.prefix = prefix.clone();
        self
    }

    /// Calls this for every event that died, after the broker took it as dead.
    #[must_use]
    pub fn on_dead(mut self, hook: impl Fn(&Letter) + Send + Sync + 'static) -> Self {
        self.on_dead = Some(Arc::new(hook));
        self
    }

    /// Calls this for every failure that will be tried again.
    #[must_use]
    pub fn on_failed(mut self, hook: impl Fn(&Letter) + Send + Sync + 'static) -> Self {
        self.on_failed = Some(Arc::new(hook));
        self
    }

    /// Tells whether it takes events, while it runs and after.
    pub fn readiness(&self) -> Readiness {
        self.ready.subscribe()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
