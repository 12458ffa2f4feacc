//! From a consumer that was built to one that works: on a broker, by hand, or as a lane's target.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Consumer;
use super::cx::{Ground, Scope};
use super::desk::Desk;
use super::engine::Engine;
use super::inbox::Inbox;
use super::meters::Meters;
use super::readiness::Ready;
use super::run::Run;
use super::steps::Steps;
use super::target::ConsumerTarget;
use super::worker::Shop;
use crate::Result;
use crate::broker::{Broker, FeedSpec};
use crate::lane::Order;
use crate::target::Target;

impl<D: Ground, S: Send + Sync + 'static> Consumer<D, S> {
    /// Makes the group known to the broker, so that what is published from now on reaches it.
    ///
    /// # Errors
    /// As [`check`](Consumer::check), and what the broker says.
    pub async fn declare(&self, broker: &dyn Broker) -> Result<()> {
        let spec = self.feed_spec()?;
        broker.feed(&spec).await.map(drop)
    }

    /// Consumes until `shutdown` is there or the broker is closed; then fetches nothing more, ends what was fetched within
    /// the grace period, and gives back the rest.
    ///
    /// A broker that is away, at the start or later, is waited for.
    ///
    /// # Errors
    /// `Config` as [`check`](Consumer::check), and where the broker cannot do what is asked; what waiting cannot mend from
    /// the broker.
    pub async fn run(
        self,
        broker: impl Into<Arc<dyn Broker>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<()> {
        let broker = broker.into();
        let spec = self.feed_spec()?;
        let can = broker.capabilities();
        self.check_against(can)?;
        let holds_keys = self.order == Order::PerKey && !can.release_in_order;
        let hold_max = holds_keys.then_some(self.hold_max.unwrap_or(can.hold_max));
        self.into_run(spec, hold_max).until(broker.as_ref(), shutdown).await
    }

    /// Handles one event at a time, when asked; for tests. Nothing runs in between.
    ///
    /// # Errors
    /// As [`check`](Consumer::check), and what the broker says.
    pub async fn steps(self, broker: &dyn Broker) -> Result<Steps<D, S>> {
        let spec = self.feed_spec()?;
        self.check_against(broker.capabilities())?;
        let feed = broker.feed(&spec).await?;
        // The broker keeps what is tried again: there is nobody here who would watch the time.
        let run = self.into_run(spec, None);
        Ok(Steps::new(run.shop, feed, run.abandon))
    }

    /// This consumer as the target of a lane: events go from the store straight into handlers, without a broker.
    ///
    /// The lane's relay keeps the order of a key, retries by the lane's policy and records what is dead; give the lane a
    /// timeout that is longer than this consumer's. An event that a handler wants [`later`](super::Failure::later) counts as an
    /// attempt in a lane. Lanes of one store can share a target, and a consumer's name stays the inbox's consumer.
    ///
    /// # Errors
    /// As [`check`](Consumer::check).
    pub fn target(self) -> Result<Arc<dyn Target>> {
        self.check()?;
        let (workers, batch, unsettled) = (self.workers, self.batch, self.workers * self.ahead());
        let (engine, _) = self.into_engine();
        Ok(Arc::new(ConsumerTarget::new(engine, workers, batch, unsettled)))
    }

    fn into_run(self, spec: FeedSpec, hold_max: Option<Duration>) -> Run<D, S> {
        let (abandon, abandoned) = watch::channel(false);
        let desk = Desk::new(self.order == Order::PerKey, self.workers * self.ahead());
        let (workers, batch, grace) = (self.workers, self.batch, self.grace);
        let (engine, ready) = self.into_engine();
        let shop = Shop { engine, desk, workers, batch, hold_max, abandoned };
        Run { shop: Arc::new(shop), spec, grace, ready, abandon }
    }

    fn into_engine(self) -> (Engine<D, S>, Ready) {
        let engine = Engine {
            inbox: Inbox::of(&self.name).prefix(&self.prefix),
            meters: Meters::of(&self.name),
            name: self.name.as_str().into(),
            database: self.database,
            scope: Arc::new(Scope { consumer: self.name, state: self.state, outbox: self.outbox }),
            routes: self.routes,
            any: self.any,
            middleware: self.middleware,
            unhandled: self.unhandled,
            classify: self.classify,
            policy: self.policy,
            timeout: self.timeout,
            on_dead: self.on_dead,
            on_failed: self.on_failed,
        };
        (engine, self.ready)
    }
}
