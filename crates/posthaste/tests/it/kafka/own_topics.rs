//! The topics of a group's own: what is taken back there, and what is removed.

use std::time::Duration;

use posthaste::admin::{Actor, Admin as _, Command, Filter, Pace, Page};
use posthaste::broker::{Count, Reason};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::kafka::consuming::{SETTINGS, join, next};
use crate::kafka::stand::{SOON, Stand, blocking, event, send, until};
use crate::rabbitmq_consume::seen::TOPIC;

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
    let redriven = broker
        .apply(&filter, Command::Redrive { dry_run: false }, &Actor::new("test", "test"), &Pace::full())
        .await;
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

/// Messages that wait for their next attempt and are nearly as large as the group's own topics take die with a long error: they are buried
/// with as much of it as fits, and do not come again for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_once_is_buried_with_as_much_of_its_error_as_fits() {
    let trial = "what_failed_once_is_buried_with_as_much_of_its_error_as_fits";
    let Some(stand) = Stand::shared(trial) else { return };
    stand.make(TOPIC, &[]).await;
    // The group's own topics take 16 KiB more than that.
    let broker = stand.open(&format!("{SETTINGS}&message_bytes_max=1000"));
    let mut feed = join(&broker, |spec| spec).await;
    for (id, code_bytes) in [("brief", 10), ("bare", 2_000)] {
        let mut large = event(id, TOPIC);
        large.payload = vec![b'x'; 14_900];
        assert_eq!(send(&stand.open(""), vec![large]).await, [Ok(())]);
        let first = next(feed.as_mut()).await;
        first.receipt.release(Duration::from_millis(1), Count::Attempt).await.unwrap();
        let again = next(feed.as_mut()).await;
        assert_eq!((again.envelope.id.as_str(), again.attempt), (id, 2));
        let reason = Reason::new("c".repeat(code_bytes), "it smells ".repeat(400));
        again.receipt.bury(reason).await.unwrap();
    }
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    let found = broker.find(&filter, Page::first(10)).await.unwrap().records;
    let said = |id: &str| {
        let record = found.iter().find(|record| record.envelope.id == id).unwrap();
        let view = &record.lanes[0];
        (view.code.as_ref().unwrap().len(), view.last_error.as_ref().map_or(0, String::len))
    };
    assert_eq!((said("brief"), said("bare")), ((10, 512), (64, 0)));
}

/// More letters without a payload than one look takes, and an ordinary one behind them: each is looked at once, and that one is sent
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_that_stay_are_counted_once_and_hide_no_others() {
    const STAY: usize = 10_001;
    let Some(stand) = Stand::shared("letters_that_stay_are_counted_once") else { return };
    let broker = stand.open(SETTINGS);
    let _feed = join(&broker, |spec| spec).await;
    let topic = format!("{}{TOPIC}.g.dlq", stand.prefix);
    let others: FutureProducer = stand.config().set("linger.ms", "50").create().unwrap();
    let mut sent = Vec::new();
    for number in 0..=STAY {
        let key = format!("{number:05}");
        let header = |key, value| Header { key, value: Some(value) };
        let mut headers = OwnedHeaders::new().insert(header("posthaste-code", "smell"));
        headers = headers.insert(header("X-Event-ID", &key));
        if number < STAY {
            headers = headers.insert(header("posthaste-original", "elsewhere/0/0"));
        }
        let record = FutureRecord::to(&topic).key(key.as_bytes()).headers(headers).payload("");
        sent.push(others.send_result(record).unwrap());
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    let by = Actor::new("test", "test");
    let pace = Pace::full();
    let redriving = broker.apply(&filter, Command::Redrive { dry_run: false }, &by, &pace);
    let redriven = tokio::time::timeout(SOON, redriving).await.unwrap().unwrap();
    assert_eq!((redriven.matched, redriven.changed), (STAY as u64 + 1, 1));
}
