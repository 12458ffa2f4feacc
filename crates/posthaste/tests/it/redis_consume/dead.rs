//! What is dead: never lost, listed without being disturbed.

use posthaste::admin::{Actor, Admin, Command, Filter, Pace, Page, all_lanes};
use posthaste::broker::{Broker, FeedSpec, Reason};

use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::redis_target::stand::{Stand, until};

fn filter() -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some("g".parse().unwrap());
    filter
}

/// Somebody adds what is no event: it is dead with the reason, whole, and the next event is handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_is_dead_and_whole() {
    let Some(stand) = Stand::shared("what_is_no_event_is_dead_and_whole").await else { return };
    let (broker, seen) = (stand.open(""), Seen::default());
    let running = Running::start(consumer("g", &seen), &broker).await;
    let _: String =
        stand.ask(&["XADD", &stand.stream(TOPIC), "*", "payload", "\0what?", "odd", "kept"]).await;
    publish(&broker, &ids("fine", 1)).await;
    seen.has(&ids("fine", 1)).await;
    let mut page = Page::first(10);
    page.with_payload = true;
    let found = async || broker.find(&filter(), page.clone()).await.unwrap().records;
    until("it is dead", async || !found().await.is_empty()).await;
    let record = found().await.remove(0);
    assert_eq!(record.lanes[0].code.as_deref(), Some("undecodable"));
    assert!(record.lanes[0].last_error.as_deref().unwrap().contains("no field id"));
    assert_eq!(
        (record.envelope.payload.as_slice(), record.envelope.topic.as_str()),
        (&b"\0what?"[..], TOPIC)
    );
    let dead = stand.entries(&format!("{}:g:dlq", stand.stream(TOPIC))).await;
    assert!(dead[0].iter().any(|(name, value)| name == "odd" && value == b"kept"));
    assert_eq!(seen.ids(), ids("fine", 1), "no handler saw it");
    running.stop().await;
    stand.clear().await;
}

/// Where a redrive would put it there is something else: it is said, and the dead letter is where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_cannot_be_sent_again_stays_dead() {
    let Some(stand) = Stand::shared("a_dead_letter_that_cannot_be_sent_again_stays_dead").await else {
        return;
    };
    let broker = stand.open("");
    let mut feed = broker.feed(&FeedSpec::new("g", vec![TOPIC.parse().unwrap()])).await.unwrap();
    publish(&broker, &ids("e", 1)).await;
    let delivery = feed.next(1).await.unwrap().remove(0);
    delivery.receipt.bury(Reason::new("smell", "it is bad")).await.unwrap();
    drop(feed);
    let retry = format!("{}:g:retry", stand.stream(TOPIC));
    let _: i64 = stand.ask(&["DEL", &retry]).await;
    let _: String = stand.ask(&["SET", &retry, "not a stream"]).await;
    let actor = Actor::new("test", "test");
    let redrive = Command::Redrive { dry_run: false };
    let error =
        broker.apply(&filter(), redrive.clone(), &actor, &Pace::full()).await.unwrap_err().to_string();
    assert!(error.contains("WRONGTYPE"), "{error}");
    assert_eq!(broker.find(&filter(), Page::first(10)).await.unwrap().records.len(), 1);
    let _: i64 = stand.ask(&["DEL", &retry]).await;
    assert_eq!(broker.apply(&filter(), redrive, &actor, &Pace::full()).await.unwrap().changed, 1);
    assert!(broker.find(&filter(), Page::first(10)).await.unwrap().records.is_empty());
    stand.clear().await;
}

/// Twenty are dead: they are listed page by page, and found by their code and id; looking takes none of them away. Some are given
/// up, one is sent again and comes as if it had never failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_disturbs_nothing_and_acting_touches_only_what_matches() {
    let Some(stand) = Stand::shared("looking_disturbs_nothing").await else { return };
    let broker = stand.open("");
    let mut feed = broker.feed(&FeedSpec::new("g", vec![TOPIC.parse().unwrap()]).prefetch(50)).await.unwrap();
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
    let mut listed = list(&filter()).await;
    listed.sort();
    assert_eq!(listed, ids("e", 20));
    assert_eq!(list(&filter()).await.len(), 20, "a look takes nothing");
    let mut smelly = filter();
    smelly.code = Some("smell".to_owned());
    assert_eq!(list(&smelly).await.len(), 5);
    let actor = Actor::new("test", "test");
    let discard = Command::Discard { reason: "enough".to_owned(), dry_run: false };
    assert_eq!(broker.apply(&smelly, discard, &actor, &Pace::full()).await.unwrap().changed, 5);
    let mut one = filter();
    one.ids = ids("e", 20)[7..8].to_vec();
    let redriven =
        broker.apply(&one, Command::Redrive { dry_run: false }, &actor, &Pace::full()).await.unwrap();
    assert_eq!((redriven.changed, list(&filter()).await.len()), (1, 14));
    let again = feed.next(10).await.unwrap().remove(0);
    assert_eq!((again.envelope.id.as_str(), again.attempt), ("e-007", 1));
    assert_eq!(all_lanes(&broker).await.unwrap()[0].dead, 14);
    let mut other = filter();
    other.lane = Some("nobody".parse().unwrap());
    let nobody = broker.find(&other, Page::first(1)).await.unwrap_err().to_string();
    assert!(nobody.contains("nobody"), "{nobody}");
    stand.clear().await;
}
