//! Several consumers, relays and whatever else runs until it is told to stop, supervised together.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info};

use super::Consumer;
use super::cx::Ground;
use crate::broker::Broker;
use crate::relay::Relay;
use crate::telemetry::field;
use crate::{BoxFuture, Error, Result};

type Start = Box<dyn FnOnce(Stop) -> BoxFuture<'static, Result<()>> + Send>;

/// Runs its members together: the first that fails is reported, and the others are stopped, the last one first.
///
/// ```no_run
/// # use posthaste_core::{Result, consumer::{Consumer, Crew}, local::LocalBroker, relay::Relay};
/// # async fn example(stock: Consumer, mailer: Consumer, relay: Relay, shutdown: impl Future<Output = ()>) -> Result<()> {
/// let broker = LocalBroker::new();
/// Crew::new()
///     .relay("relay", relay)
///     .consumer(stock, broker.clone())
///     .consumer(mailer, broker)
///     .run(shutdown)
///     .await
/// # }
/// ```
#[derive(Default)]
pub struct Crew {
    members: Vec<(String, Start)>,
}

/// Tells a member of a [`Crew`] to stop: await it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl IntoFuture for Stop {
    type Output = ();
    type IntoFuture = BoxFuture<'static, ()>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            // An error means that nobody is left to say it, which is as good.
            let _ = self.0.wait_for(|stop| *stop).await;
        })
    }
}

impl Crew {
    /// Nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs this consumer on this broker.
    #[must_use]
    pub fn consumer<D: Ground, S: Send + Sync + 'static>(
        self,
        consumer: Consumer<D, S>,
        broker: impl Into<Arc<dyn Broker>>,
    ) -> Self {
        let (name, broker) = (consumer.name().to_owned(), broker.into());
        self.member(name, move |stop| consumer.run(broker, stop.into_future()))
    }

    /// Runs this relay.
    #[must_use]
    pub fn relay(self, name: impl Into<String>, relay: Relay) -> Self {
        self.member(name, move |stop| relay.run(stop.into_future()))
    }

    /// Runs anything that ends when it is told to stop: an HTTP server, a timer.
    #[must_use]
    pub fn member<F>(
        mut self,
        name: impl Into<String>,
        start: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.members.push((name.into(), Box::new(move |stop| Box::pin(start(stop)))));
        self
    }

    /// Runs all of them until `shutdown`, until one fails, or until all have ended; then stops those that are left, the last
    /// one first, and waits for each.
    ///
    /// # Errors
    /// What the first member that failed said, with its name. A panic is a failure.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let mut watchers = Vec::new();
        let mut tasks = JoinSet::new();
        for (index, (name, start)) in self.members.into_iter().enumerate() {
            let (stop, stopped) = watch::channel(false);
            let running = start(Stop(stopped));
            let task = tasks.spawn(async move { (index, running.await) });
            watchers.push(Watcher { name, stop, id: task.id(), ended: false });
        }
        let mut crew = Running { watchers, tasks, failure: None };
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = crew.until_failure_or_end() => {}
        }
        crew.stop_in_order().await;
        crew.failure.map_or(Ok(()), Err)
    }
}

struct Watcher {
    name: String,
    stop: watch::Sender<bool>,
    id: tokio::task::Id,
    ended: bool,
}

struct Running {
    watchers: Vec<Watcher>,
    tasks: JoinSet<(usize, Result<()>)>,
    failure: Option<Error>,
}

impl Running {
    async fn until_failure_or_end(&mut self) {
        while self.failure.is_none() && self.next_end().await {}
    }

    async fn stop_in_order(&mut self) {
        for index in (0..self.watchers.len()).rev() {
            self.watchers[index].stop.send_replace(true);
            while !self.watchers[index].ended && self.next_end().await {}
        }
    }

    /// Waits until a member ends, and notes how; `false` when none is left.
    async fn next_end(&mut self) -> bool {
        let (index, result) = match self.tasks.join_next().await {
            None => return false,
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => {
                let index = self.watchers.iter().position(|watcher| watcher.id == panic.id());
                (index.unwrap_or_default(), Err(Error::corrupt(format!("it panicked: {panic}"))))
            }
        };
        let watcher = &mut self.watchers[index];
        watcher.ended = true;
        match result {
            Ok(()) => info!(member = watcher.name, "has ended"),
            Err(failure) => {
                let failure = failure.during(format!("run {:?}", watcher.name));
                error!({ field::ERROR } = %failure, "a member of the crew failed");
                self.failure.get_or_insert(failure);
            }
        }
        true
    }
}
