//! What is dead: never lost, listed without being disturbed, handled again by its own group.

use posthaste::admin::{Actor, Admin, Command, Filter, Page};
use posthaste::broker::{Broker, FeedSpec, Reason};

use crate::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::stand::{SOON, Stand, until};

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
    assert_eq!(broker.lanes().await.unwrap().iter().map(|lane| lane.dead).sum::<u64>(), 10);
    let mut smelly = filter(&group);
    smelly.code = Some("smell".to_owned());
    let by = Actor::new("test", "test");
    let looked = broker.apply(&smelly, Command::Redrive { dry_run: true }, &by).await.unwrap();
    assert_eq!((looked.matched, looked.changed), (3, 0));
    let given_up = Command::Discard { reason: "done with".to_owned(), dry_run: false };
    assert_eq!(broker.apply(&smelly, given_up, &by).await.unwrap().changed, 3);
    assert_eq!(
        broker.apply(&filter(&group), Command::Redrive { dry_run: false }, &by).await.unwrap().changed,
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
