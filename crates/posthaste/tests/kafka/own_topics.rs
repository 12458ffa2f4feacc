//! The topics of a group's own: what is taken back there, and what is removed.

use std::time::Duration;

use posthaste::admin::{Actor, Admin as _, Command, Filter, Page};
use posthaste::broker::{Count, Reason};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::consuming::{SETTINGS, join, next};
use crate::seen::TOPIC;
use crate::stand::{SOON, Stand, blocking, event, send, until};

/// A redriven event dies again before whoever sent it again has taken the letter back that it was: the new letter stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_dies_again_has_a_letter_of_its_own() {
    let Some(stand) = Stand::shared("an_event_that_dies_again_has_a_letter_of_its_own") else { return };
    let broker = stand.open(SETTINGS);
    let mut feed = join(&broker, |spec| spec).await;
    assert!(send(&broker, vec![event("e", TOPIC)]).await[0].is_ok());
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    let dead = async || broker.find(&filter, Page::first(10)).await.unwrap().records;
    next(feed.as_mut()).await.receipt.bury(Reason::new("first", "it smells")).await.unwrap();
    let letter = stand.messages_in(&format!("{TOPIC}.g.dlq"), 1).remove(0);
    let redriven =
        broker.apply(&filter, Command::Redrive { dry_run: false }, &Actor::new("test", "test")).await;
    assert_eq!((redriven.unwrap().changed, dead().await.len()), (1, 0));
    next(feed.as_mut()).await.receipt.bury(Reason::new("second", "it smells")).await.unwrap();
    // As if the record that takes the first one back had been held up until now.
    let topic = format!("{}{TOPIC}.g.dlq", stand.prefix);
    let late = FutureRecord::<[u8], [u8]>::to(&topic).key(letter.key().unwrap());
    let others: FutureProducer = stand.config().create().unwrap();
    others.send(late, SOON).await.unwrap();
    let left = dead().await;
    let codes: Vec<_> = left.iter().map(|record| record.lanes[0].code.as_deref()).collect();
    assert_eq!(codes, [Some("second")]);
    assert_eq!(left[0].envelope.id, "e");
}

/// What was tried again and is done with does not stay in the topic of retries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_is_removed_from_the_topic_of_retries() {
    let Some(stand) = Stand::shared("what_is_settled_is_removed_from_the_topic_of_retries") else { return };
    let broker = stand.open(SETTINGS);
    let mut feed = join(&broker, |spec| spec).await;
    assert!(send(&broker, vec![event("e", TOPIC)]).await[0].is_ok());
    let first = next(feed.as_mut()).await;
    first.receipt.release(Duration::from_millis(1), Count::Attempt).await.unwrap();
    let again = next(feed.as_mut()).await;
    assert_eq!((again.envelope.id.as_str(), again.attempt), ("e", 2));
    again.receipt.ack().await.unwrap();
    let topic = format!("{}{TOPIC}.g.retry", stand.prefix);
    let consumer: BaseConsumer = stand.config().set("group.id", "nobody").create().unwrap();
    until("it is removed", async || {
        blocking(|| consumer.fetch_watermarks(&topic, 0, SOON).unwrap()) == (1, 1)
    })
    .await;
}
