//! Same-key events one after another, different keys in parallel, also while a key's head is retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_core::broker::{Broker, Feed, FeedSpec};
use posthaste_core::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste_core::lane::Order;
use posthaste_core::local::LocalBroker;
use posthaste_core::retry::Backoff;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Result};
use tokio::time::{Instant, sleep};

use crate::{Placed, Seen, run_on};

type C = Cx<NoDatabase, Seen>;

/// The first attempt of order 1 fails.
async fn stumbles(cx: &mut C, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    sleep(Duration::from_secs(1)).await;
    if event.order == 1 && cx.attempt() == 1 { Err("stumbled")? } else { Ok(()) }
}

fn stock(seen: &Seen) -> Consumer<NoDatabase, Seen> {
    let policy = Backoff::fixed(Duration::from_secs(100)).attempts(3);
    Consumer::with_state("stock", seen.clone()).retry(policy).on(stumbles)
}

const ORDERS: [(u32, Option<&str>); 5] =
    [(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, Some("b")), (5, None)];

fn check(seen: &Seen, start: Instant) {
    let at = |order: u32| -> Vec<u64> {
        let all = seen.all();
        all.iter().filter(|(seen, _, _)| *seen == order).map(|(_, _, at)| (*at - start).as_secs()).collect()
    };
    assert_eq!(at(1), [0, 101], "tried again after its pause");
    assert_eq!(at(2), [102], "waits for its key's head");
    assert_eq!((at(3), at(4), at(5)), (vec![0], vec![1], vec![0]), "other keys go on, one by one");
}

#[tokio::test(start_paused = true)]
async fn a_retried_head_holds_its_key_and_nobody_else() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    run_on(&broker, stock(&seen), &ORDERS).await;
    check(&seen, start);
}

/// A broker that would let later events of a key pass one that was released.
struct Unordered(LocalBroker, Capabilities);

impl Target for Unordered {
    fn capabilities(&self) -> &Capabilities {
        &self.1
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.0.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ping()
    }
}

impl Broker for Unordered {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        // The group itself knows no order.
        Box::pin(async move { self.0.feed(&spec.clone().order(Order::None)).await })
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_broker_keeps_no_order_the_consumer_holds_the_key_itself() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let unordered: Arc<dyn Broker> =
        Arc::new(Unordered(broker.clone(), Capabilities::sink().patterns().delayed_release()));
    let consumer = stock(&seen);
    consumer.declare(unordered.as_ref()).await.unwrap();
    for (order, key) in ORDERS {
        let event = posthaste_core::publish::Publish::of(&Placed { order });
        broker
            .publish(match key {
                Some(key) => event.key(key),
                None => event,
            })
            .await
            .unwrap();
    }
    let (ran, _) = tokio::join!(consumer.run(unordered, std::future::pending()), broker.close());
    ran.unwrap();
    check(&seen, start);
}

#[tokio::test(start_paused = true)]
async fn without_order_a_retried_event_holds_nobody() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    run_on(&broker, stock(&seen).order(Order::None), &ORDERS[..2]).await;
    let times: Vec<_> = seen.all().iter().map(|(order, _, at)| (*order, (*at - start).as_secs())).collect();
    assert_eq!(times, [(1, 0), (2, 0), (1, 101)]);
}

struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn counts(cx: &mut Cx<NoDatabase, Arc<Busy>>, _: Placed) -> Result<(), Failure> {
    let now = cx.state().now.fetch_add(1, Ordering::SeqCst) + 1;
    cx.state().most.fetch_max(now, Ordering::SeqCst);
    sleep(Duration::from_secs(1)).await;
    cx.state().now.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_workers_are_used_and_no_more() {
    let (broker, start) = (LocalBroker::new(), Instant::now());
    let busy = Arc::new(Busy { now: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let consumer = Consumer::with_state("stock", Arc::clone(&busy)).on(counts).workers(4);
    let orders: Vec<_> = (0..40).map(|order| (order, None)).collect();
    run_on(&broker, consumer, &orders).await;
    assert_eq!(busy.most.load(Ordering::SeqCst), 4);
    assert_eq!(start.elapsed().as_secs(), 10, "no worker was idle");
}

/// The stop comes while the head of a key is at work, and it fails: nobody waits for its next attempt.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_key_that_would_be_held() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let capabilities = Capabilities::sink().patterns().delayed_release();
    let unordered: Arc<dyn Broker> = Arc::new(Unordered(broker.clone(), capabilities));
    let consumer = stock(&seen).grace(Duration::from_secs(60));
    consumer.declare(unordered.as_ref()).await.unwrap();
    for order in [1, 2] {
        broker.publish(posthaste_core::publish::Publish::of(&Placed { order }).key("a")).await.unwrap();
    }
    consumer.run(unordered, sleep(Duration::from_millis(500))).await.unwrap();
    assert_eq!((seen.attempts(), start.elapsed().as_secs()), (vec![(1, 1)], 1));
}

async fn always_fails_for_order_1(cx: &mut C, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    if event.order == 1 { Err("for ever")? } else { Ok(()) }
}

/// The head of a key fails without end, on a broker that cannot hold its key: it is dead when its time is over, not when its
/// attempts are, and the key goes on.
#[tokio::test(start_paused = true)]
async fn a_key_is_held_for_so_long_and_then_goes_on_without_its_head() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let capabilities = Capabilities::sink().patterns().delayed_release().hold_max(Duration::from_secs(25));
    let unordered: Arc<dyn Broker> = Arc::new(Unordered(broker.clone(), capabilities));
    let policy = Backoff::fixed(Duration::from_secs(10)).attempts(1_000);
    let consumer = Consumer::with_state("stock", seen.clone()).retry(policy).on(always_fails_for_order_1);
    consumer.declare(unordered.as_ref()).await.unwrap();
    for order in [1, 2] {
        broker.publish(posthaste_core::publish::Publish::of(&Placed { order }).key("a")).await.unwrap();
    }
    let (ran, _) = tokio::join!(consumer.run(unordered, std::future::pending()), broker.close());
    ran.unwrap();
    let times: Vec<_> = seen.all().iter().map(|(order, _, at)| (*order, (*at - start).as_secs())).collect();
    assert_eq!(times, [(1, 0), (1, 10), (1, 20), (1, 25), (2, 25)], "tried once more at the end of its time");
    let dead = broker.dead();
    assert_eq!(dead.len(), 1);
    assert!(dead[0].reason.message.contains("waited for 25s"), "{}", dead[0].reason.message);
}
