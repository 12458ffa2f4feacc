//! Drains a queue of RabbitMQ that was filled before: made for the round, gone after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::{Connection, ConnectionProperties};
use posthaste::broker::amqp::AmqpBroker;
use posthaste::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason, Receipt};
use posthaste::consumer::{Consumer, Ground};
use posthaste::publish::Publish;
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::time::{Clock as _, SystemClock};
use posthaste::{BoxFuture, BoxStream, Result};
use posthaste_terminal::exit::Failure;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConsumeArgs;

/// Events that are published at once.
const BURST: u64 = 200;
/// The tiers of the queues that a consumer declares.
const TIERS: usize = 3;

/// Whether events wait in RabbitMQ.
pub(super) fn is_url(url: &str) -> bool {
    url.starts_with("amqp:") || url.starts_with("amqps:")
}

/// Fills a queue, then lets the consumer drain it; answers how long that took.
pub(super) async fn drain<D: Ground, S: Send + Sync + 'static>(
    args: &ConsumeArgs,
    consumer: Consumer<D, S>,
    event: impl Fn(u64) -> Publish,
) -> Result<Duration, Failure> {
    let name = format!("posthaste-bench-{:08x}", fastrand::u32(..));
    let mark = if args.from.contains('?') { '&' } else { '?' };
    let broker = AmqpBroker::at(&format!("{}{mark}exchange={name}&prefix={name}", args.from))?;
    let drained = fill_and_drain(args, consumer, event, &broker).await;
    remove(&args.from, &name).await?;
    drained
}

async fn fill_and_drain<D: Ground, S: Send + Sync + 'static>(
    args: &ConsumeArgs,
    consumer: Consumer<D, S>,
    event: impl Fn(u64) -> Publish,
    broker: &AmqpBroker,
) -> Result<Duration, Failure> {
    consumer.declare(broker).await.map_err(|error| Failure::target(&error))?;
    let mut number = 0;
    while number < args.events {
        let until = (number + BURST).min(args.events);
        let burst = (number..until).map(|number| {
            let mut event = event(number);
            if args.keys > 0 {
                event = event.key(format!("key-{}", number % args.keys));
            }
            Ok(Parcel::new(Arc::new(event.into_envelope()?), 1, false, SystemClock.now()))
        });
        let mut answers = broker.deliver(burst.collect::<Result<_>>()?);
        while let Some(answer) = answers.next().await {
            answer.result.map_err(|error| Failure::other(format!("fill the queue: {error}")))?;
        }
        number = until;
    }
    let counting = Counting { broker: broker.clone(), tally: Arc::default(), all: args.events };
    let tally = Arc::clone(&counting.tally);
    let counting: Arc<dyn Broker> = Arc::new(counting);
    let start = Instant::now();
    let took = async {
        tally.done.notified().await;
        start.elapsed()
    };
    let mut task = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    task.spawn(async move { consumer.run(counting, async { drop(stopped.await) }).await });
    let took = tokio::select! {
        took = took => took,
        ended = task.join_next() => return Err(Failure::other(format!("the consumer ended: {ended:?}"))),
    };
    drop(stop);
    while let Some(ended) = task.join_next().await {
        ended.map_err(|error| Failure::other(error.to_string()))??;
    }
    Ok(took)
}

/// Removes what the round made.
async fn remove(url: &str, name: &str) -> Result<(), Failure> {
    let failed = |error: lapin::Error| Failure::other(format!("remove the queues of the bench: {error}"));
    let address = url.split('?').next().unwrap_or(url);
    let connection = Connection::connect(address, ConnectionProperties::default()).await.map_err(failed)?;
    let channel = connection.create_channel().await.map_err(failed)?;
    let queue = format!("{name}.#");
    let mut queues = vec![queue.clone(), format!("{queue}.dlq"), format!("{name}.topics")];
    queues.extend((0..TIERS).map(|tier| format!("{queue}.retry.{tier}")));
    for queue in queues {
        channel.queue_delete(queue.into(), Default::default()).await.map_err(failed)?;
    }
    channel.exchange_delete(name.into(), Default::default()).await.map_err(failed)
}

/// Counts what is acknowledged, and tells when that is all.
struct Counting {
    broker: AmqpBroker,
    tally: Arc<Tally>,
    all: u64,
}

#[derive(Default)]
struct Tally {
    acked: AtomicU64,
    done: Notify,
}

impl Target for Counting {
    fn capabilities(&self) -> &Capabilities {
        self.broker.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.broker.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.broker.ping()
    }
}

impl Broker for Counting {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move {
            let feed = self.broker.feed(spec).await?;
            Ok(Box::new(CountingFeed { feed, tally: Arc::clone(&self.tally), all: self.all })
                as Box<dyn Feed>)
        })
    }
}

struct CountingFeed {
    feed: Box<dyn Feed>,
    tally: Arc<Tally>,
    all: u64,
}

impl Feed for CountingFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(async move {
            let counted = |one: Delivery| {
                let receipt =
                    CountingReceipt { receipt: one.receipt, tally: Arc::clone(&self.tally), all: self.all };
                Delivery::new(one.envelope, one.attempt, Box::new(receipt))
            };
            Ok(self.feed.next(at_most).await?.into_iter().map(counted).collect())
        })
    }
}

struct CountingReceipt {
    receipt: Box<dyn Receipt>,
    tally: Arc<Tally>,
    all: u64,
}

impl Receipt for CountingReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.receipt.ack().await?;
            if self.tally.acked.fetch_add(1, Ordering::Relaxed) + 1 == self.all {
                self.tally.done.notify_one();
            }
            Ok(())
        })
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        self.receipt.release(after, count)
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        self.receipt.bury(reason)
    }
}
