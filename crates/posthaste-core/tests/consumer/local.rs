//! The local broker by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use posthaste_core::ErrorKind;
use posthaste_core::admin::{Actor, Admin, Command, Filter, Pace, Page, all_lanes};
use posthaste_core::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason};
use posthaste_core::local::{Full, LocalBroker, Trouble, Unrouted};
use posthaste_core::publish::Publish;
use tokio::time::timeout;

fn event(id: &str) -> Publish {
    Publish::raw("t", id).id(id)
}

async fn feed(broker: &LocalBroker, group: &str) -> Box<dyn Feed> {
    broker.feed(&FeedSpec::new(group, vec!["t".parse().unwrap()])).await.unwrap()
}

async fn one(feed: &mut dyn Feed) -> Delivery {
    feed.next(1).await.unwrap().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_full_buffer_makes_a_publish_wait_or_fail_and_room_lets_it_go_on() {
    let waiting = LocalBroker::builder().buffer(1).build();
    let mut members = feed(&waiting, "a").await;
    waiting.publish(event("1")).await.unwrap();
    let room = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        one(members.as_mut()).await.receipt.ack().await.unwrap();
    };
    let (published, ()) = tokio::join!(waiting.publish(event("2")), room);
    published.unwrap();

    let failing = LocalBroker::builder().buffer(1).when_full(Full::Fail).build();
    let _members = feed(&failing, "a").await;
    failing.publish(event("1")).await.unwrap();
    let error = failing.publish(event("2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let by_bytes = LocalBroker::builder().buffer_bytes(1).when_full(Full::Fail).build();
    let _members = feed(&by_bytes, "a").await;
    assert!(by_bytes.publish(event("1")).await.is_ok(), "one always fits");
    assert!(by_bytes.publish(event("2")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_reads_is_refused_or_dropped_and_reported() {
    let broker = LocalBroker::new();
    assert_eq!(broker.publish(event("1")).await.unwrap_err().kind(), ErrorKind::NotFound);
    let dropped = Arc::new(Mutex::new(0));
    let count = Arc::clone(&dropped);
    let broker = LocalBroker::builder()
        .when_unrouted(Unrouted::Drop)
        .on_error(move |trouble| {
            assert!(matches!(trouble, Trouble::Unrouted(_)));
            *count.lock().unwrap() += 1;
        })
        .build();
    broker.publish(event("1")).await.unwrap();
    assert_eq!(*dropped.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_close_refuses_drains_and_ends_and_can_be_called_twice() {
    let broker = LocalBroker::new();
    let mut members = feed(&broker, "a").await;
    broker.publish(event("1")).await.unwrap();
    let delivery = one(members.as_mut()).await;
    assert!(timeout(Duration::from_secs(1), broker.close()).await.is_err(), "closed before it was drained");
    assert_eq!(broker.publish(event("2")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    delivery.receipt.release(Duration::from_secs(5), Count::Attempt).await.unwrap();
    let again = one(members.as_mut()).await;
    assert_eq!(again.attempt, 2);
    let (first, second, ()) = tokio::join!(broker.close(), broker.close(), async {
        again.receipt.ack().await.unwrap();
    });
    assert_eq!((first.left, second.left), (0, 0));
    assert!(members.next(1).await.unwrap().is_empty());
    assert!(broker.dead_letters().next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_publish_with_a_cancelled_token_is_an_error_and_leaves_nothing() {
    let broker = LocalBroker::new();
    let mut members = feed(&broker, "a").await;
    let error = broker.publish_unless(event("1"), async {}).await.unwrap_err();
    assert!(error.to_string().contains("cancelled"));
    assert!(timeout(Duration::from_secs(1), members.next(1)).await.is_err());
    broker.publish_unless(event("2"), std::future::pending()).await.unwrap();
    assert_eq!(one(members.as_mut()).await.envelope.id, "2");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_bounded_counted_reported_listed_and_redriven() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&dropped);
    let broker = LocalBroker::builder()
        .dead_max(2)
        .on_error(move |trouble| {
            let Trouble::DeadDropped(letter) = trouble else { panic!("{trouble:?}") };
            heard.lock().unwrap().push(letter.envelope.id.clone());
        })
        .build();
    let mut members = feed(&broker, "a").await;
    for id in ["1", "2", "3"] {
        broker.publish(event(id)).await.unwrap();
        one(members.as_mut()).await.receipt.bury(Reason::new("poison", "it smells")).await.unwrap();
    }
    assert_eq!((broker.dead_dropped(), dropped.lock().unwrap().clone()), (1, vec!["1".to_owned()]));
    let found = broker.find(&Filter::default(), Page::first(1)).await.unwrap();
    assert_eq!(found.records[0].envelope.id, "3");
    let mut next = Page::first(1);
    next.after = found.next;
    assert_eq!(broker.find(&Filter::default(), next).await.unwrap().records[0].envelope.id, "2");

    let mut only = Filter::default();
    only.ids = vec!["3".into()];
    let by = Actor::new("me", "test");
    let dry = broker.apply(&only, Command::Redrive { dry_run: true }, &by, &Pace::full()).await.unwrap();
    assert_eq!((dry.matched, dry.changed), (1, 0));
    broker.apply(&only, Command::Redrive { dry_run: false }, &by, &Pace::full()).await.unwrap();
    let again = one(members.as_mut()).await;
    assert_eq!((again.envelope.id.as_str(), again.attempt), ("3", 1));
    again.receipt.ack().await.unwrap();
    assert!(broker.apply(&only, Command::Pause, &by, &Pace::full()).await.is_err());

    let letter = broker.dead_letters().next().await.unwrap();
    assert_eq!((letter.envelope.id.as_str(), letter.reason.code.as_str()), ("2", "poison"));
    assert!(broker.dead().is_empty(), "whoever reads the stream takes the letter");
    let stats = &all_lanes(&broker).await.unwrap()[0];
    assert!(stats.adds_up(), "{stats:?}");
    assert_eq!((stats.accepted, stats.delivered, stats.discarded), (3, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_event_waits_for_its_time_and_holds_nobody() {
    let broker = LocalBroker::new();
    let mut members = feed(&broker, "a").await;
    let start = tokio::time::Instant::now();
    broker.publish(event("later").key("k").after(Duration::from_secs(60))).await.unwrap();
    broker.publish(event("now").key("k")).await.unwrap();
    let now = one(members.as_mut()).await;
    assert_eq!(now.envelope.id, "now");
    now.receipt.ack().await.unwrap();
    assert_eq!(one(members.as_mut()).await.envelope.id, "later");
    assert!(start.elapsed() >= Duration::from_secs(59), "{:?}", start.elapsed());
}
