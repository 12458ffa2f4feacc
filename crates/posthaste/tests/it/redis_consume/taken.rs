//! What a consumer had goes to another one when it is dead, and stays with it while it lives.

use std::time::Duration;

use posthaste::broker::redis::RedisBroker;
use posthaste::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason};
use posthaste::target::Target;
use redis::Value;

use crate::rabbitmq_consume::seen::{TOPIC, ids, publish};
use crate::redis_target::stand::{Stand, event, send, until};
use crate::sending::SOON;

async fn join(broker: &RedisBroker) -> Box<dyn Feed> {
    broker.feed(&FeedSpec::new("g", vec![TOPIC.parse().unwrap()]).prefetch(10)).await.unwrap()
}

async fn next(feed: &mut dyn Feed) -> Delivery {
    tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0)
}

/// Somebody reads an entry and is never heard of again: a member of the group takes it over, and nobody says that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_consumer_had_is_taken_over() {
    let Some(stand) = Stand::shared("what_a_dead_consumer_had_is_taken_over").await else { return };
    let broker = stand.open("claim_after=500ms");
    drop(join(&broker).await);
    publish(&broker, &ids("e", 1)).await;
    let stream = stand.stream(TOPIC);
    let _: Value =
        stand.ask(&["XREADGROUP", "GROUP", "g", "gone", "COUNT", "1", "STREAMS", &stream, ">"]).await;
    let mut feed = join(&broker).await;
    let delivery = next(feed.as_mut()).await;
    assert_eq!((delivery.envelope.id.as_str(), delivery.attempt), ("e-000", 1));
    delivery.receipt.ack().await.unwrap();
    stand.clear().await;
}

/// A member holds an event for much longer than a silence may last, because it lives: no other member gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_consumer_has_stays_with_it() {
    let Some(stand) = Stand::shared("what_a_living_consumer_has_stays_with_it").await else { return };
    let broker = stand.open("claim_after=5s");
    let (mut first, mut second) = (join(&broker).await, join(&broker).await);
    publish(&broker, &ids("e", 1)).await;
    let held = next(first.as_mut()).await;
    let taken = tokio::time::timeout(Duration::from_secs(12), second.next(1)).await;
    assert!(taken.is_err(), "the other member got it");
    held.receipt.ack().await.unwrap();
    stand.clear().await;
}

/// What was taken over by another consumer cannot be moved any more by the one that had it: it would be in two places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_an_event_moves_it_nowhere() {
    let Some(stand) = Stand::shared("who_lost_an_event_moves_it_nowhere").await else { return };
    let broker = stand.open("");
    let mut feed = join(&broker).await;
    publish(&broker, &ids("e", 2)).await;
    let (first, second) = (next(feed.as_mut()).await, next(feed.as_mut()).await);
    let stream = stand.stream(TOPIC);
    let pending: Vec<(String, String, i64, i64)> =
        stand.ask(&["XPENDING", &stream, "g", "-", "+", "10"]).await;
    assert_eq!(pending.len(), 2);
    for (id, ..) in &pending {
        let _: Value = stand.ask(&["XCLAIM", &stream, "g", "other", "0", id]).await;
    }
    assert!(first.receipt.release(Duration::ZERO, Count::Attempt).await.is_err());
    assert!(second.receipt.bury(Reason::new("c", "m")).await.is_err());
    let still: Vec<(String, String, i64, i64)> =
        stand.ask(&["XPENDING", &stream, "g", "-", "+", "10", "other"]).await;
    assert_eq!(still.len(), 2, "the other consumer has them");
    for own in ["retry", "dlq"] {
        assert_eq!(stand.ask::<i64>(&["XLEN", &format!("{stream}:g:{own}")]).await, 0, "{own}");
    }
    stand.clear().await;
}

/// A feed that leaves has nothing any more, and the group does not keep its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_leaves_is_forgotten() {
    let Some(stand) = Stand::shared("a_feed_that_leaves_is_forgotten").await else { return };
    let broker = stand.open("");
    let mut feed = join(&broker).await;
    publish(&broker, &ids("e", 1)).await;
    next(feed.as_mut()).await.receipt.ack().await.unwrap();
    drop(feed);
    let stream = stand.stream(TOPIC);
    until("the consumer is gone", async || {
        stand.ask::<Vec<Value>>(&["XINFO", "CONSUMERS", &stream, "g"]).await.is_empty()
    })
    .await;
    stand.clear().await;
}

/// All topics are in one stream: a consumer of a pattern gets what it means, and passes over the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stream_for_all_topics_is_read_by_patterns() {
    let Some(stand) = Stand::shared("one_stream_for_all_topics_is_read_by_patterns").await else { return };
    let broker = stand.open("stream=all");
    assert!(broker.capabilities().patterns);
    let mut feed = broker.feed(&FeedSpec::new("g", vec!["orders.*".parse().unwrap()])).await.unwrap();
    let events = ["orders.eu", "stock.eu", "orders.us"].map(|topic| event(topic, topic));
    assert!(send(&broker, events.to_vec()).await.iter().all(Result::is_ok));
    for topic in ["orders.eu", "orders.us"] {
        let delivery = next(feed.as_mut()).await;
        assert_eq!(delivery.envelope.topic, topic);
        delivery.receipt.ack().await.unwrap();
    }
    let stream = stand.stream("all");
    assert_eq!(stand.ask::<i64>(&["XLEN", &stream]).await, 3);
    until("nothing is in anybody's hands", async || {
        let pending: Vec<Value> = stand.ask(&["XPENDING", &stream, "g", "-", "+", "10"]).await;
        pending.is_empty()
    })
    .await;
    stand.clear().await;
}
