//! Effect once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_core::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason, Receipt};
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::store::{Parcel, Store};
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Result};

use super::{ConsumeBench, consume_all};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

/// A broker that never hears every other acknowledgement, as if the consumer had died just before it.
struct Deaf(LocalBroker, Arc<AtomicU32>);

impl Target for Deaf {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.0.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ping()
    }
}

impl Broker for Deaf {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move {
            Ok(Box::new(DeafFeed(self.0.feed(spec).await?, Arc::clone(&self.1))) as Box<dyn Feed>)
        })
    }
}

struct DeafFeed(Box<dyn Feed>, Arc<AtomicU32>);

impl Feed for DeafFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(async move {
            let deliveries = self.0.next(at_most).await?;
            let deaf = |one: Delivery| {
                let receipt = DeafReceipt(one.receipt, Arc::clone(&self.1));
                Delivery::new(one.envelope, one.attempt, Box::new(receipt))
            };
            Ok(deliveries.into_iter().map(deaf).collect())
        })
    }
}

struct DeafReceipt(Box<dyn Receipt>, Arc<AtomicU32>);

impl Receipt for DeafReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        if self.1.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            // Dropped: it is delivered again.
            return Box::pin(async { Ok(()) });
        }
        self.0.ack()
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        self.0.release(after, count)
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        self.0.bury(reason)
    }
}

/// Half of the acknowledgements never arrive: those events come again, and have their effect once.
pub async fn a_consumer_that_dies_between_commit_and_ack_has_the_effect_once(
    bench: ConsumeBench,
) -> LawResult {
    let acks = Arc::new(AtomicU32::new(0));
    let deaf: Arc<dyn Broker> = Arc::new(Deaf(bench.broker.clone(), Arc::clone(&acks)));
    let consumer = bench.consumer(|_, _| Ok(()));
    consumer.declare(deaf.as_ref()).await?;
    let ids = bench.publish(&bench.broker, 40).await?;
    let (ran, _) = tokio::join!(consumer.run(deaf, std::future::pending()), bench.broker.close());
    ran?;
    ensure!(acks.load(Ordering::SeqCst) > 40, "no acknowledgement was lost");
    bench.each_once(&ids).await
}

/// The whole consumer is dropped again and again in the middle of its work.
pub async fn a_consumer_dropped_at_any_moment_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    bench.consumer(|_, _| Ok(())).declare(&bench.broker).await?;
    let ids = bench.publish(&bench.broker, 40).await?;
    for step in 1_u64..12 {
        let run = bench.consumer(|_, _| Ok(())).run(bench.broker.clone(), std::future::pending());
        let dropped = tokio::time::timeout(Duration::from_micros(step * 400), run).await;
        ensure!(dropped.is_err(), "it ended by itself: {dropped:?}");
    }
    consume_all(bench.consumer(|_, _| Ok(())), &bench.broker).await?;
    bench.each_once(&ids).await
}

/// The same events come through two brokers at once, to two consumers of one name.
pub async fn two_consumers_that_get_the_same_events_have_each_effect_once(bench: ConsumeBench) -> LawResult {
    let other = LocalBroker::new();
    bench.consumer(|_, _| Ok(())).declare(&bench.broker).await?;
    bench.consumer(|_, _| Ok(())).declare(&other).await?;
    let ids = bench.publish(&bench.broker, 30).await?;
    for id in &ids {
        // The identity of an event is its source and id, so this is the same event.
        other.publish(Publish::raw("work", id.clone()).id(id.clone()).key("other")).await?;
    }
    let (first, second) = tokio::join!(
        consume_all(bench.consumer(|_, _| Ok(())), &bench.broker),
        consume_all(bench.consumer(|_, _| Ok(())).order(posthaste_core::lane::Order::PerKey), &other),
    );
    first?;
    second?;
    bench.each_once(&ids).await
}

/// In batches, with half of the acknowledgements lost.
pub async fn a_consumer_in_batches_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    let acks = Arc::new(AtomicU32::new(0));
    let deaf: Arc<dyn Broker> = Arc::new(Deaf(bench.broker.clone(), acks));
    let consumer = bench.consumer(|_, _| Ok(())).batch(8).workers(2);
    consumer.declare(deaf.as_ref()).await?;
    let ids = bench.publish(&bench.broker, 40).await?;
    let (ran, _) = tokio::join!(consumer.run(deaf, std::future::pending()), bench.broker.close());
    ran?;
    bench.each_once(&ids).await
}

/// Events go from the store straight into the handler, and the relay is dropped in between.
pub async fn a_lane_into_a_consumer_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    let store = bench.rig.store();
    let mut ids = Vec::new();
    let mut events = Vec::new();
    for number in 0..30 {
        let mut event = posthaste_core::envelope::Envelope::new("work", format!("{number:03}"));
        event.id = format!("{number:03}");
        event.source = "/law".to_owned();
        event.key = Some(format!("key-{}", number % 5));
        ids.push(event.id.clone());
        events.push(event);
    }
    store.publish(events).await?;
    let stores: Arc<dyn Store> = Arc::<dyn posthaste_core::schema::Backend>::clone(&store);
    let lane = |consumer: Arc<dyn Target>| -> Result<Lane> {
        Ok(Lane::named("law")?.topics(["work"])?.lease(Duration::from_millis(200)).to(consumer))
    };
    for step in 1..4 {
        let relay =
            Relay::new(Arc::clone(&stores)).id("law").lane(lane(bench.consumer(|_, _| Ok(())).target()?)?);
        let dropped =
            tokio::time::timeout(Duration::from_millis(step * 3), relay.run(std::future::pending())).await;
        ensure!(dropped.is_err(), "it ended by itself: {dropped:?}");
    }
    let relay = Relay::new(stores).lane(lane(bench.consumer(|_, _| Ok(())).target()?)?);
    let name = "law".parse()?;
    let settled = crate::wait::eventually(Duration::from_secs(20), "all are delivered", async || {
        let lanes = store.lanes().await.unwrap_or_default();
        lanes.iter().any(|stats| stats.lane == name && stats.delivered == 30)
    });
    tokio::select! {
        ran = relay.run(std::future::pending()) => ran?,
        settled = settled => settled?,
    }
    ensure_eq!(bench.effects().await?.len(), 30, "effects");
    bench.each_once(&ids).await
}
