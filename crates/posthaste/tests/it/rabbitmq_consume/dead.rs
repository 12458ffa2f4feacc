//! What is dead: never lost, listed without being disturbed.

use lapin::BasicProperties;
use lapin::options::{BasicNackOptions, BasicPublishOptions};
use posthaste::admin::{Actor, Admin, Command, Filter, Pace, Page, all_lanes};
use posthaste::broker::{Broker, FeedSpec, Reason};

use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::rabbitmq_target::stand::{Stand, until};

fn filter(group: &str) -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some(group.parse().unwrap());
    filter
}

/// Somebody publishes what is no event: it is dead with the reason, whole, and the next event is handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_is_dead_and_whole() {
    let Some(stand) = Stand::shared("what_is_no_event_is_dead_and_whole").await else { return };
    let (broker, seen, group) = (stand.open(""), Seen::default(), stand.name.clone());
    let running = Running::start(consumer(&group, &seen), &broker).await;
    let (exchange, options) = (stand.name.as_str(), BasicPublishOptions::default());
    let published = stand.channel.basic_publish(
        exchange.into(),
        TOPIC.into(),
        options,
        b"\x00what?",
        BasicProperties::default(),
    );
    published.await.unwrap().await.unwrap();
    publish(&broker, &ids("fine", 1)).await;
    seen.has(&ids("fine", 1)).await;
    let mut page = Page::first(10);
    page.with_payload = true;
    let found = async || broker.find(&filter(&group), page.clone()).await.unwrap().records;
    until("it is dead", async || !found().await.is_empty()).await;
    let record = found().await.remove(0);
    assert_eq!(record.lanes[0].code.as_deref(), Some("undecodable"));
    assert!(record.lanes[0].last_error.as_deref().unwrap().contains("no message id"));
    assert_eq!(
        (record.envelope.payload.as_slice(), record.envelope.topic.as_str()),
        (&b"\x00what?"[..], TOPIC)
    );
    assert_eq!(seen.ids(), ids("fine", 1), "no handler saw it");
    running.stop().await;
}

/// Twenty are dead: they are listed page by page, again and again, and found by their code and id; looking takes none of them
/// away. Some are given up, the rest is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_disturbs_nothing_and_acting_touches_only_what_matches() {
    let Some(stand) = Stand::shared("looking_disturbs_nothing").await else { return };
    let (broker, group) = (stand.open(""), stand.name.clone());
    let mut feed =
        broker.feed(&FeedSpec::new(&group, vec![TOPIC.parse().unwrap()]).prefetch(50)).await.unwrap();
    publish(&broker, &ids("e", 20)).await;
    for number in 0..20 {
        let delivery = feed.next(1).await.unwrap().remove(0);
        let code = if number < 5 { "smell" } else { "taste" };
        delivery.receipt.bury(Reason::new(code, "it is bad")).await.unwrap();
    }
    let list = async |filter: &Filter| {
        let (mut all, mut page) = (Vec::new(), Page::first(7));
        loop {
            let found = broker.find(filter, page.clone()).await.unwrap();
            all.extend(found.records.into_iter().map(|record| record.envelope.id));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break all,
            }
        }
    };
    let newest_first: Vec<String> = ids("e", 20).into_iter().rev().collect();
    for _ in 0..3 {
        assert_eq!(list(&filter(&group)).await, newest_first);
    }
    let mut smelly = filter(&group);
    smelly.code = Some("smell".to_owned());
    assert_eq!(list(&smelly).await.len(), 5);
    let actor = Actor::new("test", "test");
    let discard = Command::Discard { reason: "enough".to_owned(), dry_run: false };
    assert_eq!(broker.apply(&smelly, discard, &actor, &Pace::full()).await.unwrap().changed, 5);
    let mut one = filter(&group);
    one.ids = ids("e", 20)[7..8].to_vec();
    let redriven =
        broker.apply(&one, Command::Redrive { dry_run: false }, &actor, &Pace::full()).await.unwrap();
    assert_eq!((redriven.changed, list(&filter(&group)).await.len()), (1, 14));
    assert_eq!(feed.next(10).await.unwrap().remove(0).envelope.id, "e-007");
    assert_eq!(all_lanes(&broker).await.unwrap()[0].dead, 14);
    let nobody = broker.find(&filter("nobody"), Page::first(1)).await.unwrap_err().to_string();
    assert!(nobody.contains("nobody"), "{nobody}");
}

/// Members of a group that read different topics start in the same moment, often: no topic is forgotten, and what is twice in the
/// list goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_are_added_in_the_same_moment_are_all_remembered() {
    let Some(stand) = Stand::shared("topics_that_are_added_in_the_same_moment").await else { return };
    let brokers = [stand.open(""), stand.open(""), stand.open("")];
    for round in 0..8 {
        let group = format!("{}-{round}", stand.name);
        let spec = |topic: &str| FeedSpec::new(&group, vec![topic.parse().unwrap()]);
        let specs = ["a", "b", "c"].map(spec);
        let feeds = brokers.iter().zip(&specs).map(|(broker, spec)| broker.feed(spec));
        let feeds = futures_util::future::try_join_all(feeds).await.unwrap();
        let lists = lists(&stand, &group).await;
        assert_eq!(together(&lists), ["a", "b", "c"], "in round {round}: {lists:?}");
        drop(feeds);
    }

    // What is there twice is taken out by whoever comes next, and nothing else is.
    let (group, queue) = (format!("{}-0", stand.name), format!("{}-0.topics", stand.name));
    for list in ["[\"b\"]", "[\"a\",\"c\"]", "rubbish"] {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        let put = stand.channel.basic_publish(
            "".into(),
            queue.as_str().into(),
            options,
            list.as_bytes(),
            properties,
        );
        put.await.unwrap().await.unwrap();
    }
    let spec = FeedSpec::new(&group, vec!["a".parse().unwrap()]);
    drop(brokers[0].feed(&spec).await.unwrap());
    let lists = lists(&stand, &group).await;
    assert_eq!(together(&lists), ["a", "b", "c"]);
    assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), 3, "each once: {lists:?}");
}

/// The lists of topics of a group, which stay where they are.
async fn lists(stand: &Stand, group: &str) -> Vec<Vec<String>> {
    let (mut lists, queue) = (Vec::new(), format!("{group}.topics"));
    let mut last = None;
    while let Some(message) =
        stand.channel.basic_get(queue.as_str().into(), Default::default()).await.unwrap()
    {
        lists.push(serde_json::from_slice(&message.delivery.data).unwrap());
        last = Some(message.delivery.delivery_tag);
    }
    if let Some(last) = last {
        let back = BasicNackOptions { multiple: true, requeue: true };
        stand.channel.basic_nack(last, back).await.unwrap();
    }
    lists
}

fn together(lists: &[Vec<String>]) -> Vec<&str> {
    let mut all: Vec<&str> = lists.iter().flatten().map(String::as_str).collect();
    all.sort_unstable();
    all.dedup();
    all
}
