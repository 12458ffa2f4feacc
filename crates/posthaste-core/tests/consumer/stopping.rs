//! Stopping: nothing more is fetched, what was fetched is ended within the grace period, the rest is given back.

use std::time::Duration;

use posthaste_core::broker::{Broker, FeedSpec};
use posthaste_core::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use tokio::time::{Instant, sleep};

use crate::{Placed, Seen};

type C = Cx<NoDatabase, Seen>;

async fn takes_its_number_in_seconds(cx: &mut C, event: Placed) -> Result<(), Failure> {
    sleep(Duration::from_secs(u64::from(event.order))).await;
    cx.state().note(event.order, cx.attempt());
    Ok(())
}

async fn fill(broker: &LocalBroker, consumer: &Consumer<NoDatabase, Seen>, orders: &[u32]) {
    consumer.declare(broker).await.unwrap();
    for order in orders {
        broker.publish(Publish::of(&Placed { order: *order })).await.unwrap();
    }
}

/// What the group still has, by attempt.
async fn left(broker: &LocalBroker) -> Vec<(Vec<u8>, u32)> {
    let spec = FeedSpec::new("stock", vec!["#".parse().unwrap()]).order(posthaste_core::lane::Order::PerKey);
    let mut feed = broker.feed(&spec).await.unwrap();
    broker.refuse();
    let mut left = Vec::new();
    loop {
        let deliveries = feed.next(100).await.unwrap();
        if deliveries.is_empty() {
            return left;
        }
        for delivery in deliveries {
            left.push((delivery.envelope.payload.clone(), delivery.attempt));
            delivery.receipt.ack().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_what_was_fetched_and_fetches_nothing_more() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let consumer =
        Consumer::with_state("stock", seen.clone()).on(takes_its_number_in_seconds).workers(1).prefetch(2);
    fill(&broker, &consumer, &[3, 2, 1]).await;
    consumer.run(broker.clone(), sleep(Duration::from_secs(1))).await.unwrap();
    assert_eq!(seen.orders(), [3, 2]);
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(left(&broker).await, [(br#"{"order":1}"#.to_vec(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn when_the_grace_period_is_over_the_rest_is_given_back_uncounted() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let consumer = Consumer::with_state("stock", seen.clone()).on(takes_its_number_in_seconds).workers(1);
    let consumer = consumer.timeout(Duration::from_secs(999)).grace(Duration::from_secs(10));
    fill(&broker, &consumer, &[1, 500, 2]).await;
    let mut readiness = consumer.readiness();
    let ready = async {
        assert!(readiness.ready().await);
        readiness
    };
    let (ran, readiness) = tokio::join!(consumer.run(broker.clone(), sleep(Duration::from_secs(2))), ready);
    ran.unwrap();
    assert!(!readiness.is_ready());
    assert_eq!(seen.orders(), [1]);
    assert_eq!(start.elapsed().as_secs(), 12);
    let mut left = left(&broker).await;
    left.sort();
    assert_eq!(left, [(br#"{"order":2}"#.to_vec(), 1), (br#"{"order":500}"#.to_vec(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_loses_nothing() {
    let (broker, seen) = (LocalBroker::new(), Seen::default());
    let consumer = Consumer::with_state("stock", seen.clone()).on(takes_its_number_in_seconds);
    fill(&broker, &consumer, &[1, 500, 501]).await;
    let run = consumer.run(broker.clone(), std::future::pending());
    assert!(tokio::time::timeout(Duration::from_secs(2), run).await.is_err());
    assert_eq!(seen.orders(), [1]);
    // The workers are aborted with the run; what they held comes back when they are gone.
    tokio::task::yield_now().await;
    let mut left = left(&broker).await;
    left.sort();
    assert_eq!(
        left,
        [(br#"{"order":500}"#.to_vec(), 1), (br#"{"order":501}"#.to_vec(), 1)],
        "no attempt of theirs"
    );
}
