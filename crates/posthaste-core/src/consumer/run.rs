//! Runs a consumer: opens its feed, fetches, lets workers handle, and ends in order.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{error, info, warn};

use super::cx::Ground;
use super::readiness::Ready;
use super::worker::Shop;
use crate::broker::{Broker, Count, Delivery, Feed, FeedSpec};
use crate::outage::Outage;
use crate::telemetry::field;
use crate::{Error, Result};

/// A consumer that is about to run.
pub(super) struct Run<D: Ground, S> {
    pub(super) shop: Arc<Shop<D, S>>,
    pub(super) spec: FeedSpec,
    pub(super) grace: Duration,
    pub(super) ready: Ready,
    pub(super) abandon: watch::Sender<bool>,
}

impl<D: Ground, S: Send + Sync + 'static> Run<D, S> {
    /// Until `shutdown`, or until the broker closes the feed.
    pub(super) async fn until(self, broker: &dyn Broker, shutdown: impl Future<Output = ()>) -> Result<()> {
        let mut workers = JoinSet::new();
        for _ in 0..self.shop.workers {
            workers.spawn(Arc::clone(&self.shop).work());
        }
        let mut shutdown = pin!(shutdown);
        let outcome = tokio::select! {
            biased;
            () = &mut shutdown => Ok(()),
            ended = self.fetch(broker) => ended,
            died = died(&mut workers) => Err(died),
        };
        self.set_ready(false);
        self.finish(workers).await;
        outcome
    }

    /// Keeps a feed open; returns when the broker was closed, or with an error that waiting cannot mend.
    async fn fetch(&self, broker: &dyn Broker) -> Result<()> {
        let mut outage = Outage::default();
        loop {
            let ended = match broker.feed(&self.spec).await {
                Ok(mut feed) => {
                    self.set_ready(true);
                    if outage.is_new() {
                        info!({ field::CONSUMER } = &*self.shop.engine.name, "consuming");
                    }
                    self.read(feed.as_mut(), &mut outage).await
                }
                Err(error) => Err(error),
            };
            self.set_ready(false);
            let error = match ended {
                Ok(()) => return Ok(()),
                Err(error) if error.retryable() => error,
                Err(error) => return Err(error.during(format!("consume as {:?}", &*self.shop.engine.name))),
            };
            self.let_go().await;
            self.shop.engine.meters.feed_errors.increment(1);
            if outage.is_new() {
                warn!({ field::CONSUMER } = &*self.shop.engine.name, { field::ERROR } = %error, "the broker is away; waiting for it");
            }
            sleep(outage.pause()).await;
        }
    }

    /// What came on a feed that is gone comes again on the next one: nobody begins it any more, and whoever is at it ends
    /// before anything new comes, or the same event would be at two workers, and a key's next one before its first.
    async fn let_go(&self) {
        loop {
            let mut settled = pin!(self.shop.desk.settled_next());
            settled.as_mut().enable();
            drop(self.shop.desk.clear());
            if self.shop.desk.unsettled() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Moves deliveries from the feed to the desk, as far as there is room, until the feed is closed.
    async fn read(&self, feed: &mut dyn Feed, outage: &mut Outage) -> Result<()> {
        let desk = &self.shop.desk;
        loop {
            let settled = desk.settled_next();
            let room = desk.room();
            if room == 0 {
                self.wait_for_time(settled).await;
                continue;
            }
            let mut next = pin!(feed.next(room));
            let deliveries = loop {
                let mut settled = pin!(desk.settled_next());
                settled.as_mut().enable();
                tokio::select! {
                    biased;
                    deliveries = &mut next => break deliveries?,
                    // What was held may be due before anything new comes.
                    () = self.wait_for_time(settled) => {}
                }
            };
            if deliveries.is_empty() && desk.unsettled() == 0 {
                return Ok(());
            }
            if deliveries.is_empty() {
                // Closed, but what is held here may still be given back to the broker, which then hands it out again.
                self.wait_for_time(desk.settled_next()).await;
                continue;
            }
            outage.over();
            desk.admit(deliveries);
        }
    }

    /// Waits for the next settled or held delivery, and makes what is due meanwhile ready.
    async fn wait_for_time(&self, settled: impl Future<Output = ()>) {
        match self.shop.desk.next_due() {
            None => settled.await,
            Some(due) => {
                tokio::select! {
                    () = settled => {}
                    () = sleep_until(due) => self.shop.desk.ripen(Instant::now()),
                }
            }
        }
    }

    /// Lets the workers end what was fetched within the grace period, then gives back the rest.
    async fn finish(self, mut workers: JoinSet<()>) {
        give_back(self.shop.desk.close()).await;
        let all = async {
            while let Some(ended) = workers.join_next().await {
                if let Err(panic) = ended {
                    error!({ field::CONSUMER } = &*self.shop.engine.name, { field::ERROR } = %panic, "a worker ended with a panic");
                }
            }
        };
        let mut all = pin!(all);
        if timeout(self.grace, &mut all).await.is_err() {
            warn!(
                { field::CONSUMER } = &*self.shop.engine.name,
                "the grace period is over; what is not done is given back"
            );
            self.abandon.send_replace(true);
            // Workers let go at once; a handler that blocks its thread is not waited for without end.
            if timeout(RELEASE_MAX, &mut all).await.is_err() {
                error!(
                    { field::CONSUMER } = &*self.shop.engine.name,
                    "a handler blocks its thread; it is left behind"
                );
            }
        }
        give_back(self.shop.desk.clear()).await;
    }

    fn set_ready(&self, ready: bool) {
        self.ready.set(ready);
        self.shop.engine.meters.ready.set(f64::from(u8::from(ready)));
    }
}

/// How long giving back may take after the grace period.
const RELEASE_MAX: Duration = Duration::from_secs(5);

async fn give_back(deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        // If the broker does not hear it, it delivers again all the same.
        let _ = delivery.receipt.release(Duration::ZERO, Count::Nothing).await;
    }
}

/// Returns when a worker died of a panic that was not the handler's.
async fn died(workers: &mut JoinSet<()>) -> Error {
    loop {
        match workers.join_next().await {
            Some(Err(panic)) => return Error::corrupt(format!("a worker died: {panic}")),
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
    }
}
