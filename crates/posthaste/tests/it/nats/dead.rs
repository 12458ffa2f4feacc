//! What is dead: never lost, listed without being disturbed, handled again by its own group.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use posthaste::admin::{Actor, Admin, Command, Filter, Pace, Page, Record, all_lanes};
use posthaste::broker::nats::NatsBroker;
use posthaste::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason};

use crate::nats::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::nats::stand::{SOON, Stand, blocking, event, send, until};

/// What the server takes: a test's server has the default.
const MAX_PAYLOAD: usize = 1024 * 1024;

fn filter(group: &str) -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some(group.parse().unwrap());
    filter
}

/// Somebody publishes what is no event: it is dead with the reason, whole, and the next event is handled.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_is_dead_and_whole() {
    let Some(stand) = Stand::shared("what_is_no_event_is_dead_and_whole").await else { return };
    let (broker, seen, group) = (stand.open(""), Seen::default(), stand.name.clone());
    let running = Running::start(consumer(&group, &seen), &broker).await;
    let subject = format!("{}.{TOPIC}", stand.name);
    stand.jetstream.publish(subject, "\0what?".into()).await.unwrap().await.unwrap();
    publish(&broker, &ids("fine", 1)).await;
    seen.has(&ids("fine", 1)).await;
    let mut page = Page::first(10);
    page.with_payload = true;
    let found = async || broker.find(&filter(&group), page.clone()).await.unwrap().records;
    until("it is dead", async || !found().await.is_empty()).await;
    let record = found().await.remove(0);
    assert_eq!(record.lanes[0].code.as_deref(), Some("undecodable"));
    assert!(record.lanes[0].last_error.as_deref().unwrap().contains("Nats-Msg-Id"));
    assert_eq!(
        (record.envelope.payload.as_slice(), record.envelope.topic.as_str()),
        (&b"\0what?"[..], TOPIC)
    );
    assert_eq!(seen.ids(), ids("fine", 1), "no handler saw it");
    running.stop().await;
}

/// Ten are dead in one group and handled in another: they are listed page by page, again and again, and found by their code;
/// looking takes none of them away. Some are given up, the rest is sent again, to their own group alone.
#[tokio::test(flavor = "multi_thread")]
async fn looking_disturbs_nothing_and_acting_touches_only_what_matches() {
    let Some(stand) = Stand::shared("looking_disturbs_nothing").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    let other = format!("{group}-other");
    let spec = |group: &str| FeedSpec::new(group, vec![TOPIC.parse().unwrap()]).prefetch(50);
    let mut feed = broker.feed(&spec(&group)).await.unwrap();
    let seen = Seen::default();
    let beside = Running::start(consumer(&other, &seen), &broker).await;
    publish(&broker, &ids("e", 10)).await;
    for number in 0..10 {
        let delivery = tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0);
        let code = if number < 3 { "smell" } else { "taste" };
        delivery.receipt.bury(Reason::new(code, "it is\nbad")).await.unwrap();
    }
    let list = async |filter: &Filter| {
        let (mut all, mut page) = (Vec::new(), Page::first(4));
        loop {
            let found = broker.find(filter, page.clone()).await.unwrap();
            all.extend(found.records.into_iter().map(|record| record.envelope.id));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break all,
            }
        }
    };
    let newest_first: Vec<String> = ids("e", 10).into_iter().rev().collect();
    for _ in 0..2 {
        assert_eq!(list(&filter(&group)).await, newest_first);
    }
    assert!(list(&filter(&other)).await.is_empty(), "another group's are not shown");
    assert_eq!(all_lanes(&broker).await.unwrap().iter().map(|lane| lane.dead).sum::<u64>(), 10);
    let mut smelly = filter(&group);
    smelly.code = Some("smell".to_owned());
    let by = Actor::new("test", "test");
    let looked = broker.apply(&smelly, Command::Redrive { dry_run: true }, &by, &Pace::full()).await.unwrap();
    assert_eq!((looked.matched, looked.changed), (3, 0));
    let given_up = Command::Discard { reason: "done with".to_owned(), dry_run: false };
    assert_eq!(broker.apply(&smelly, given_up, &by, &Pace::full()).await.unwrap().changed, 3);
    assert_eq!(
        broker
            .apply(&filter(&group), Command::Redrive { dry_run: false }, &by, &Pace::full())
            .await
            .unwrap()
            .changed,
        7
    );
    let mut again = Vec::new();
    while again.len() < 7 {
        let delivery = tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0);
        assert_eq!((delivery.attempt, delivery.envelope.topic.as_str()), (1, TOPIC));
        again.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await.unwrap();
    }
    again.sort();
    assert_eq!(again, ids("e", 10)[3..]);
    assert!(list(&filter(&group)).await.is_empty());
    seen.has(&ids("e", 10)).await;
    beside.stop().await;
    assert_eq!(seen.ids().len(), 10, "the other group had each once");
}

async fn feed(broker: &NatsBroker, group: &str) -> Box<dyn Feed> {
    broker.feed(&FeedSpec::new(group, vec![TOPIC.parse().unwrap()]).prefetch(50)).await.unwrap()
}

async fn next(feed: &mut dyn Feed) -> Delivery {
    tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0)
}

/// The dead letters of a group, with their payloads.
async fn dead(broker: &NatsBroker, group: &str) -> Vec<Record> {
    let mut page = Page::first(10);
    page.with_payload = true;
    broker.find(&filter(group), page).await.unwrap().records
}

/// Publishes a message of another producer that is as large as the server takes.
async fn publish_largest(stand: &Stand, id: &str) {
    publish_sized(stand, id, MAX_PAYLOAD).await;
}

/// Publishes a message of another producer that has so many bytes, with its headers.
async fn publish_sized(stand: &Stand, id: &str, size: usize) {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    let room = "NATS/1.0\r\nNats-Msg-Id: \r\n\r\n".len() + id.len();
    let payload = vec![b'x'; size - room].into();
    let subject = format!("{}.{TOPIC}", stand.name);
    stand.jetstream.publish_with_headers(subject, headers, payload).await.unwrap().await.unwrap();
}

/// The largest event that we publish can be buried whole, whatever its error says.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_event_is_buried_whole_with_as_much_of_its_error_as_fits() {
    let Some(stand) = Stand::shared("the_largest_event_is_buried_whole").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut feed = feed(&broker, &group).await;
    let mut large = event("large", TOPIC);
    large.payload = vec![b'x'; MAX_PAYLOAD - 1_500];
    while let Err(error) = &send(&broker, vec![large.clone()]).await[0] {
        assert_eq!(error.code, "too large", "{error}");
        large.payload.truncate(large.payload.len() - 10);
    }
    let delivery = next(feed.as_mut()).await;
    delivery.receipt.bury(Reason::new("smell", "it smells ".repeat(1_000))).await.unwrap();
    let letters = dead(&broker, &group).await;
    assert_eq!(letters[0].envelope.payload, large.payload);
    assert!(letters[0].lanes[0].last_error.as_deref().unwrap().starts_with("it smells"));
}

async fn redrive(broker: &NatsBroker, group: &str) -> (u64, u64) {
    let by = Actor::new("test", "test");
    let redriven =
        broker.apply(&filter(group), Command::Redrive { dry_run: false }, &by, &Pace::full()).await.unwrap();
    (redriven.matched, redriven.changed)
}

/// A message that leaves no room for a dead letter is buried by a reference to where it is, and later ones are handled. It can be sent
/// again when the server takes larger ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_for_a_dead_letter_is_referred_to() {
    let trial = "a_message_that_is_too_large_for_a_dead_letter_is_referred_to";
    let Some(mut stand) = Stand::private(trial, "").await else { return };
    stand.make(Config::default()).await;
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut reading = feed(&broker, &group).await;
    publish_largest(&stand, "largest").await;
    publish(&broker, &["small".to_owned()]).await;
    next(reading.as_mut()).await.receipt.bury(Reason::new("smell", "it smells")).await.unwrap();
    let small = next(reading.as_mut()).await;
    assert_eq!(small.envelope.id, "small", "the group goes on");
    small.receipt.ack().await.unwrap();
    let letter = dead(&broker, &group).await.remove(0);
    let error = letter.lanes[0].last_error.as_deref().unwrap();
    assert!(error.contains(&format!("of the stream {:?}", stand.name)), "{error}");
    assert_eq!((letter.envelope.id.as_str(), letter.envelope.payload.len()), ("largest", 0));
    assert_eq!(redrive(&broker, &group).await, (1, 0), "it could not be buried once more");
    drop((reading, broker));
    blocking(|| {
        let server = stand.server();
        server.stop().unwrap();
        let file = server.folder().join("nats.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}max_payload: 2MB\n")).unwrap();
        server.start().unwrap();
    });
    stand.reconnect().await;
    let broker = stand.open("");
    let mut reading = feed(&broker, &group).await;
    assert_eq!(redrive(&broker, &group).await, (1, 1));
    let again = next(reading.as_mut()).await;
    assert_eq!(again.envelope.id, "largest");
    let payload = again.envelope.payload.clone();
    again.receipt.bury(Reason::new("smell", "it smells")).await.unwrap();
    assert_eq!(dead(&broker, &group).await[0].envelope.payload, payload, "it is whole by now");
}

/// Messages of every size near the limit are buried and sent again, with as long a code as can be: whatever was sent again can be
/// buried again, and what could not be is not sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_again_can_die_again() {
    let Some(stand) = Stand::shared("what_is_sent_again_can_die_again").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut feed = feed(&broker, &group).await;
    let bury = async |feed: &mut dyn Feed| {
        next(feed).await.receipt.bury(Reason::new("s".repeat(2_000), "it smells")).await.unwrap();
    };
    let rooms = [300, 400, 500, 600, 700, 800, 1_000, 3_000];
    for room in rooms {
        publish_sized(&stand, &format!("room-{room}"), MAX_PAYLOAD - room).await;
        bury(feed.as_mut()).await;
    }
    let mut before = 0;
    for _ in 0..2 {
        let (matched, redriven) = redrive(&broker, &group).await;
        assert!(
            matched == rooms.len() as u64 && redriven > 1 && redriven < matched,
            "{redriven} of {matched}"
        );
        assert!(before == 0 || before == redriven, "as many as before");
        before = redriven;
        for _ in 0..redriven {
            bury(feed.as_mut()).await;
        }
    }
}

/// The stream of what a letter refers to is gone: the letter stays, and the others are sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_whose_stream_is_gone_keeps_no_other_letter_back() {
    let trial = "a_letter_whose_stream_is_gone_keeps_no_other_letter_back";
    let Some(stand) = Stand::shared(trial).await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut feed = feed(&broker, &group).await;
    publish_largest(&stand, "largest").await;
    publish(&broker, &["small".to_owned()]).await;
    for _ in 0..2 {
        next(feed.as_mut()).await.receipt.bury(Reason::new("smell", "it smells")).await.unwrap();
    }
    stand.jetstream.delete_stream(&stand.name).await.unwrap();
    assert_eq!(redrive(&broker, &group).await, (2, 1));
    let left = dead(&broker, &group).await;
    assert_eq!(left.iter().map(|letter| letter.envelope.id.as_str()).collect::<Vec<_>>(), ["largest"]);
}

/// A stream that is deleted and made anew counts from 1 again: what failed in it before is not held against what comes after.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_noted_of_a_stream_is_over_with_it() {
    let Some(stand) = Stand::shared("what_was_noted_of_a_stream_is_over_with_it").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    for (id, count, attempt) in [("before", Count::Attempt, 2), ("after", Count::Nothing, 1)] {
        let mut feed = feed(&broker, &group).await;
        publish(&broker, &[id.to_owned()]).await;
        next(feed.as_mut()).await.receipt.release(Duration::from_millis(1), count).await.unwrap();
        let again = next(feed.as_mut()).await;
        assert_eq!((again.envelope.id.as_str(), again.attempt), (id, attempt));
        drop((again, feed));
        stand.jetstream.delete_stream(&stand.name).await.unwrap();
        stand.make(Config::default()).await;
    }
}

/// Where an acknowledgement removes a message, it is not buried by a reference: that would lose it.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_would_be_lost_is_not_referred_to() {
    let trial = "a_message_that_would_be_lost_is_not_referred_to";
    let Some(stand) = Stand::private(trial, "").await else { return };
    stand.make(Config { retention: RetentionPolicy::WorkQueue, ..Config::default() }).await;
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut feed = feed(&broker, &group).await;
    publish_largest(&stand, "largest").await;
    let delivery = next(feed.as_mut()).await;
    let error = delivery.receipt.bury(Reason::new("smell", "it smells")).await.unwrap_err().to_string();
    assert!(error.contains("max_payload"), "{error}");
    assert!(dead(&broker, &group).await.is_empty());
    assert_eq!(next(feed.as_mut()).await.envelope.id, "largest", "it comes again");
}

/// A stream that is deleted and made anew counts from 1 again: what dies in it is no duplicate of what died before.
#[tokio::test(flavor = "multi_thread")]
async fn what_dies_in_a_stream_that_was_made_anew_is_no_duplicate() {
    let Some(stand) = Stand::shared("what_dies_in_a_stream_that_was_made_anew").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    for id in ["before", "after"] {
        let mut feed = feed(&broker, &group).await;
        publish(&broker, &[id.to_owned()]).await;
        let delivery = next(feed.as_mut()).await;
        delivery.receipt.bury(Reason::new("smell", "it smells")).await.unwrap();
        drop(feed);
        stand.jetstream.delete_stream(&stand.name).await.unwrap();
        stand.make(Config::default()).await;
    }
    let ids: Vec<String> = dead(&broker, &group).await.into_iter().map(|letter| letter.envelope.id).collect();
    assert_eq!(ids, ["after", "before"], "the newest first");
}
