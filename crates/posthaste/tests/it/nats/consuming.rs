//! What a group gets: everything it means, once, however long that takes, and again when it failed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste::broker::{Broker, Count, Feed, FeedSpec};
use posthaste::retry::Backoff;

use crate::nats::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::nats::stand::{SOON, Stand, event, send, until};

/// A handler that takes more than twice as long as the server waits for a sign of life: its event goes to nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_long_keeps_its_event() {
    let Some(stand) = Stand::shared("a_handler_that_takes_long_keeps_its_event").await else { return };
    let (broker, seen) = (stand.open(""), Seen { takes: Duration::from_secs(8), ..Seen::default() });
    let running = Running::start(consumer(&stand.name, &seen).workers(2), &broker).await;
    let beside = Running::start(consumer(&stand.name, &seen).workers(2), &stand.open("")).await;
    publish(&broker, &ids("slow", 2)).await;
    seen.has(&ids("slow", 2)).await;
    publish(&broker, &ids("later", 1)).await;
    seen.has(&ids("later", 1)).await;
    running.stop().await;
    beside.stop().await;
    assert_eq!(seen.calls().len(), 3, "each once: {:?}", seen.calls());
}

/// An event that fails comes again with a higher number, to whichever process: the count is kept at the broker.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_counted_over_processes() {
    let Some(stand) = Stand::shared("attempts_are_counted_over_processes").await else { return };
    let seen = Seen::default();
    seen.fails.store(true, Ordering::SeqCst);
    let policy = || Backoff::fixed(Duration::from_millis(50)).attempts(100);
    let first = Running::start(consumer(&stand.name, &seen).retry(policy()), &stand.open("")).await;
    publish(&stand.open(""), &ids("e", 1)).await;
    until("it was tried", async || seen.calls().len() >= 2).await;
    first.stop().await;
    let before = seen.calls().len();
    seen.fails.store(false, Ordering::SeqCst);
    let second = Running::start(consumer(&stand.name, &seen).retry(policy()), &stand.open("")).await;
    until("it was tried again", async || seen.calls().len() > before).await;
    second.stop().await;
    let attempts: Vec<u32> = seen.calls().into_iter().map(|(_, attempt)| attempt).collect();
    assert_eq!(attempts, (1..=attempts.len() as u32).collect::<Vec<_>>());
}

/// A pattern gets what it means and nothing else, also where the server's own pattern means more or less.
#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_gets_what_it_means() {
    let Some(stand) = Stand::shared("a_pattern_gets_what_it_means").await else { return };
    let broker = stand.open("");
    for (number, (pattern, expected)) in [
        ("orders.#", &["orders", "orders.eu", "orders.eu.new"][..]),
        ("orders.*", &["orders.eu"]),
        ("orders.#.new", &["orders.eu.new"]),
        ("#", &["orders", "orders.eu", "orders.eu.new", "stock"]),
    ]
    .into_iter()
    .enumerate()
    {
        let spec = FeedSpec::new(format!("{}-{number}", stand.name), vec![pattern.parse().unwrap()]);
        let mut feed = broker.feed(&spec).await.unwrap();
        if number == 0 {
            for topic in ["orders", "orders.eu", "stock", "orders.eu.new"] {
                assert!(send(&broker, vec![event(topic, topic)]).await[0].is_ok());
            }
        }
        let mut topics = Vec::new();
        while topics.len() < expected.len() {
            topics.push(one(feed.as_mut()).await.unwrap());
        }
        topics.sort();
        assert_eq!(topics, expected, "{pattern}");
        let more = tokio::time::timeout(Duration::from_millis(300), feed.next(1)).await;
        assert!(more.is_err(), "{pattern} got more");
    }
}

async fn one(feed: &mut dyn Feed) -> Option<String> {
    let delivery = tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().pop()?;
    let topic = delivery.envelope.topic.clone();
    delivery.receipt.ack().await.unwrap();
    Some(topic)
}

/// A consumer that is deleted under its group is made again, and the group goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_deleted_at_the_server_is_made_again() {
    let Some(stand) = Stand::shared("a_consumer_that_is_deleted_at_the_server_is_made_again").await else {
        return;
    };
    let (broker, seen) = (stand.open(""), Seen::default());
    let running = Running::start(consumer(&stand.name, &seen), &broker).await;
    publish(&broker, &ids("before", 2)).await;
    seen.has(&ids("before", 2)).await;
    let stream = stand.jetstream.get_stream(&stand.name).await.unwrap();
    stream.delete_consumer(&format!("{}~{TOPIC}", stand.name)).await.unwrap();
    publish(&broker, &ids("after", 2)).await;
    seen.has(&ids("after", 2)).await;
    running.stop().await;
}

/// A group cannot change between order and none; it is told so instead of losing either.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_keeps_its_order() {
    let Some(stand) = Stand::shared("a_group_keeps_its_order").await else { return };
    let broker = stand.open("");
    let spec = || FeedSpec::new(&stand.name, vec![TOPIC.parse().unwrap()]);
    let mut feed = broker.feed(&spec().order(posthaste::lane::Order::PerKey)).await.unwrap();
    publish(&broker, &ids("e", 1)).await;
    let held = tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0);
    held.receipt.release(Duration::ZERO, Count::Nothing).await.unwrap();
    let error = broker.feed(&spec()).await.err().unwrap().to_string();
    assert!(error.contains("order per key") && error.contains(&stand.name), "{error}");
}
