//! Groups on a real server: what is committed, what a new member costs, what is dead, and what a killed server changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use posthaste::admin::{Actor, Command, Filter, Pace, Page};
use posthaste::broker::kafka::KafkaBroker;
use posthaste::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason};
use posthaste::envelope::Envelope;
use posthaste::lane::Order;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};

use crate::kafka::stand::{PARTITIONS, SOON, Stand, blocking, event, send, until};
use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, ids, publish};

pub(crate) const SETTINGS: &str = "create_topics=3&session_timeout=6s&rebalance_wait=30s";

pub(crate) async fn join(broker: &KafkaBroker, change: impl FnOnce(FeedSpec) -> FeedSpec) -> Box<dyn Feed> {
    broker.feed(&change(FeedSpec::new("g", vec![TOPIC.parse().unwrap()]).prefetch(10_000))).await.unwrap()
}

pub(crate) async fn next(feed: &mut dyn Feed) -> Delivery {
    tokio::time::timeout(SOON, feed.next(1)).await.unwrap().unwrap().remove(0)
}

/// Events with a key each, so that they are spread over the partitions as the keys are.
fn keyed(count: usize) -> Vec<Envelope> {
    let keyed = |id: String| {
        let mut event = event(id.clone(), TOPIC);
        event.key = Some(id);
        event
    };
    ids("e", count).into_iter().map(keyed).collect()
}

async fn publish_keyed(broker: &KafkaBroker, count: usize) {
    assert!(send(broker, keyed(count)).await.iter().all(Result::is_ok));
}

/// The group's offset in each partition of the topic, as the server has it.
fn committed(stand: &Stand) -> BTreeMap<i32, i64> {
    blocking(|| {
        let consumer: BaseConsumer = stand.config().set("group.id", "g").create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&format!("{}{TOPIC}", stand.prefix), 0, PARTITIONS - 1);
        let found = consumer.committed_offsets(list, SOON).unwrap();
        let place = |offset| match offset {
            Offset::Offset(offset) => offset,
            _ => 0,
        };
        found.elements().iter().map(|one| (one.partition(), place(one.offset()))).collect()
    })
}

/// Deliveries are settled in any order: the group's offset stops at the first that is not, and whoever comes next gets those alone
/// that were not settled, though others behind them were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settled_prefix_is_committed_and_what_was_settled_beyond_it_does_not_come_again() {
    let Some(stand) = Stand::shared("the_settled_prefix_is_committed") else { return };
    let broker = stand.open(SETTINGS);
    let mut feed = join(&broker, |spec| spec).await;
    publish_keyed(&broker, 60).await;
    let places: HashMap<String, (i32, i64)> = stand
        .messages(TOPIC)
        .iter()
        .map(|message| {
            let id = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
            (id, (message.partition(), message.offset()))
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..60 {
        let delivery = next(feed.as_mut()).await;
        let (_, offset) = places[&delivery.envelope.id];
        // Two of each partition stay in hand.
        if offset == 2 || offset == 5 { held.push(delivery) } else { delivery.receipt.ack().await.unwrap() }
    }
    assert_eq!(held.len(), 2 * PARTITIONS as usize, "every partition has more than five of sixty");
    until("the prefix is committed", async || {
        let committed = committed(&stand);
        assert!(committed.values().all(|offset| *offset <= 2), "an unsettled one was passed: {committed:?}");
        committed.values().all(|offset| *offset == 2)
    })
    .await;
    let left: BTreeSet<String> = held.iter().map(|delivery| delivery.envelope.id.clone()).collect();
    drop((held, feed));
    let mut feed = join(&broker, |spec| spec).await;
    let mut again = BTreeSet::new();
    for _ in 0..left.len() {
        let delivery = next(feed.as_mut()).await;
        assert_eq!(delivery.attempt, 1);
        again.insert(delivery.envelope.id.clone());
        delivery.receipt.ack().await.unwrap();
    }
    assert_eq!(again, left);
    let more = tokio::time::timeout(Duration::from_secs(1), feed.next(1)).await;
    assert!(more.is_err(), "something else came again: {:?}", more.map(|more| more.map(|m| m.len())));
    let ends: BTreeMap<i32, i64> = committed(&stand);
    let all: i64 = ends.values().sum();
    assert_eq!(all, 60, "everything is committed: {ends:?}");
}

/// More is published than a feed reads ahead, while it holds what it may: it reads on when there is room, in order, and nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_was_paused_reads_on_where_it_was() {
    let Some(stand) = Stand::shared("a_feed_that_was_paused_reads_on") else { return };
    let broker = stand.open(SETTINGS);
    let mut feed = join(&broker, |spec| spec.prefetch(2).order(Order::PerKey)).await;
    let mut events: Vec<Envelope> = ids("e", 4_000).into_iter().map(|id| event(id, TOPIC)).collect();
    for (index, event) in events.iter_mut().enumerate() {
        event.key = Some(format!("key-{}", index % 30));
    }
    let first = {
        let (held, sent) = tokio::join!(next(feed.as_mut()), async {
            for burst in events.chunks(500) {
                assert!(send(&broker, burst.to_vec()).await.iter().all(Result::is_ok));
            }
        });
        let () = sent;
        held
    };
    let mut last: HashMap<String, String> = HashMap::new();
    let mut seen = 0;
    let mut take = |delivery: &Delivery| {
        let (key, id) = (delivery.envelope.key.clone().unwrap(), delivery.envelope.id.clone());
        let before = last.insert(key, id.clone());
        assert!(
            before.as_ref().is_none_or(|before| before.len() < id.len() || *before < id),
            "{id} after {before:?}"
        );
        seen += 1;
    };
    take(&first);
    first.receipt.ack().await.unwrap();
    for _ in 1..events.len() {
        let delivery = next(feed.as_mut()).await;
        take(&delivery);
        delivery.receipt.ack().await.unwrap();
    }
    assert_eq!(seen, events.len());
    assert_eq!(committed(&stand).values().sum::<i64>(), 4_000);
}

/// Members come and go while handlers run: everything is handled, and each key in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_come_and_go_lose_nothing_and_keep_the_order_of_keys() {
    let Some(stand) = Stand::shared("members_that_come_and_go") else { return };
    let (broker, seen) = (stand.open(SETTINGS), Seen::default());
    let ordered = || consumer("g", &seen).order(Order::PerKey);
    let first = Running::start(ordered(), &broker).await;
    let all = ids("e", 400);
    let publishing = async {
        for (index, id) in all.iter().enumerate() {
            let mut event = event(id.clone(), TOPIC);
            event.key = Some(format!("key-{}", index % 20));
            assert!(send(&broker, vec![event]).await.iter().all(Result::is_ok));
        }
    };
    let sharing = async {
        until("some were handled", async || seen.ids().len() > 50).await;
        let second = Running::start(ordered(), &broker).await;
        until("more were handled", async || seen.ids().len() > 150).await;
        first.stop().await;
        let third = Running::start(ordered(), &broker).await;
        (second, third)
    };
    let ((), (second, third)) = tokio::join!(publishing, sharing);
    seen.has(&all).await;
    second.stop().await;
    third.stop().await;
    let mut last: HashMap<usize, usize> = HashMap::new();
    let mut handled = BTreeSet::new();
    for id in seen.ids() {
        let number: usize = id[2..].parse().unwrap();
        if handled.insert(number) {
            let before = last.insert(number % 20, number);
            assert!(before.is_none_or(|before| before < number), "{number} was handled after {before:?}");
        }
    }
}

/// One is rejected, another one is no event: both are dead with their reasons, and as they were. One is sent again, the other one
/// given up, by somebody who knows no more than the URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_sent_again_and_given_up() {
    let Some(stand) = Stand::shared("dead_letters_are_listed_sent_again_and_given_up") else { return };
    let broker = stand.open(SETTINGS);
    let mut feed = join(&broker, |spec| spec).await;
    let mut poison = event("poison", TOPIC);
    (poison.key, poison.payload) = (Some("key-日本".to_owned()), (0..=255).collect());
    assert!(send(&broker, vec![poison.clone()]).await[0].is_ok());
    let others: FutureProducer = stand.config().create().unwrap();
    let topic = format!("{}{TOPIC}", stand.prefix);
    let odd = FutureRecord::<str, str>::to(&topic).payload("what others wrote");
    others.send(odd, SOON).await.unwrap();
    let delivery = next(feed.as_mut()).await;
    delivery.receipt.release(Duration::from_millis(1), Count::Attempt).await.unwrap();
    let delivery = next(feed.as_mut()).await;
    assert_eq!(delivery.attempt, 2);
    delivery.receipt.bury(Reason::new("smell", "it smells")).await.unwrap();
    let url = format!("{}?prefix={}", stand.url, stand.prefix);
    let admin = posthaste::broker::dead_letters(&url).unwrap();
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    let mut page = Page::first(10);
    page.with_payload = true;
    let feeding = async { feed.next(1).await.unwrap() };
    let found = async {
        until("both are dead", async || admin.find(&filter, page.clone()).await.unwrap().records.len() == 2)
            .await;
        admin.find(&filter, page.clone()).await.unwrap().records
    };
    let records = tokio::select! {
        came = feeding => panic!("something came: {}", came[0].envelope.id),
        records = found => records,
    };
    let by_code = |code: &str| {
        let of = |record: &&posthaste::admin::Record| record.lanes[0].code.as_deref() == Some(code);
        records.iter().find(of).unwrap()
    };
    let (smell, odd) = (by_code("smell"), by_code("undecodable"));
    assert_eq!((&smell.envelope.key, &smell.envelope.payload), (&poison.key, &poison.payload));
    assert_eq!((smell.lanes[0].attempts, odd.envelope.payload.as_slice()), (2, &b"what others wrote"[..]));
    let by = Actor::new("test", "test");
    filter.ids = vec!["poison".to_owned()];
    assert_eq!(
        admin.apply(&filter, Command::Redrive { dry_run: false }, &by, &Pace::full()).await.unwrap().changed,
        1
    );
    let again = next(feed.as_mut()).await;
    assert_eq!(
        (again.attempt, &again.envelope.key, &again.envelope.payload),
        (1, &poison.key, &poison.payload)
    );
    again.receipt.ack().await.unwrap();
    filter.ids.clear();
    assert_eq!(
        admin
            .apply(
                &filter,
                Command::Discard { reason: "test".to_owned(), dry_run: false },
                &by,
                &Pace::full()
            )
            .await
            .unwrap()
            .changed,
        1
    );
    assert!(admin.find(&filter, page).await.unwrap().records.is_empty());
}

/// A message that is larger than the group's own topics take is dead all the same, at its first failure; its letter says where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_large_for_a_dead_letter_is_referred_to() {
    let Some(stand) = Stand::shared("a_message_that_is_too_large_for_a_dead_letter_is_referred_to") else {
        return;
    };
    stand.make(TOPIC, &[]).await;
    let broker = stand.open(&format!("{SETTINGS}&message_bytes_max=1000"));
    let mut feed = join(&broker, |spec| spec.order(Order::None)).await;
    let large = |id: &str| {
        let mut large = event(id, TOPIC);
        large.payload = vec![b'x'; 200_000];
        large
    };
    let mut headers = large("headers");
    headers.headers.insert("own".to_owned(), "x".repeat(20_000));
    let all = vec![large("buried"), headers, large("released"), event("small", TOPIC)];
    let sent = send(&stand.open(""), all).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    for _ in 0..4 {
        let delivery = next(feed.as_mut()).await;
        match delivery.envelope.id.as_str() {
            "buried" | "headers" => delivery.receipt.bury(Reason::new("smell", "it smells")).await.unwrap(),
            "released" => delivery.receipt.release(Duration::from_millis(1), Count::Attempt).await.unwrap(),
            _ => delivery.receipt.ack().await.unwrap(),
        }
    }
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    let admin: &dyn posthaste::admin::Admin = &broker;
    let records = admin.find(&filter, Page::first(10)).await.unwrap().records;
    let mut found: Vec<(&str, &str)> = Vec::new();
    for record in &records {
        let view = &record.lanes[0];
        let error = view.last_error.as_deref().unwrap();
        assert!(error.contains("too large for a dead letter") && error.contains(&stand.prefix), "{error}");
        found.push((&record.envelope.id, view.code.as_deref().unwrap()));
    }
    found.sort_unstable();
    assert_eq!(found, [("buried", "smell"), ("headers", "smell"), ("released", "too large")]);
    let by = Actor::new("test", "test");
    let redriven =
        admin.apply(&filter, Command::Redrive { dry_run: false }, &by, &Pace::full()).await.unwrap();
    assert_eq!((redriven.matched, redriven.changed), (3, 0), "there is nothing to send again");
}

/// The server is killed and comes back while events are published and consumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_consumers_loses_nothing() {
    let Some(mut stand) = Stand::private("a_server_that_is_killed_under_consumers", |settings| settings)
    else {
        return;
    };
    let (broker, seen) = (stand.open("create_topics=3&session_timeout=6s&ack_timeout=5s"), Seen::default());
    let running = Running::start(consumer("g", &seen), &broker).await;
    let all = ids("e", 200);
    let publishing = publish(&broker, &all);
    let killing = async {
        until("the load has begun", async || seen.ids().len() > 20).await;
        blocking(|| {
            stand.server().kill().unwrap();
            stand.server().start().unwrap();
        });
    };
    tokio::join!(publishing, killing);
    seen.has(&all).await;
    running.stop().await;
}
