//! Retries wait at the broker, for as long as they should, and come back to whoever failed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste::admin::{Actor, Admin, Command, Filter, Pace, Page};
use posthaste::broker::{Broker, Count, FeedSpec};
use posthaste::retry::Tiers;
use tokio::time::Instant;

use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, publish};
use crate::rabbitmq_target::stand::{Stand, until};

const TIERS: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800)];

/// A handler that always fails: attempts one to four, a tier apart, then the dead queue. Another group sees the event once. A
/// redrive, which was counted before, brings it back to the group that it died in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_event_walks_through_the_tiers_into_the_dead_queue_and_a_redrive_brings_it_back() {
    let Some(stand) = Stand::shared("a_poison_event_walks_through_the_tiers").await else { return };
    let broker = stand.open("tiers=200ms,400ms,800ms");
    let (seen, bystander) = (Seen::default(), Seen::default());
    seen.fails.store(true, Ordering::SeqCst);
    let (group, other) = (format!("{}-a", stand.name), format!("{}-b", stand.name));
    let policy = Tiers::new(TIERS, 4);
    let running = Running::start(consumer(&group, &seen).retry(policy), &broker).await;
    let other = Running::start(consumer(&other, &bystander), &broker).await;
    publish(&broker, &["poison".to_owned()]).await;

    let mut filter = Filter::default();
    filter.lane = Some(group.parse().unwrap());
    let dead = async || broker.find(&filter, Page::first(10)).await.unwrap().records;
    until("it is dead", async || !dead().await.is_empty()).await;
    let calls = seen.calls();
    let attempts: Vec<u32> = calls.iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    for (pair, tier) in calls.windows(2).zip(TIERS) {
        let pause = pair[1].2 - pair[0].2;
        // Never early. Late is what a machine that is busy makes of it.
        assert!(pause >= tier && pause < tier + Duration::from_secs(10), "{pause:?} in the tier of {tier:?}");
    }
    let record = dead().await.remove(0);
    assert_eq!((record.envelope.id.as_str(), record.lanes[0].attempts), ("poison", 4));
    assert_eq!(record.lanes[0].last_error.as_deref(), Some("as it was to be"));
    assert!(record.lanes[0].first_failed_at < record.lanes[0].dead_at);

    let actor = Actor::new("test", "test");
    let counted =
        broker.apply(&filter, Command::Redrive { dry_run: true }, &actor, &Pace::full()).await.unwrap();
    assert_eq!(
        (counted.matched, counted.changed, dead().await.len()),
        (1, 0, 1),
        "a dry run changes nothing"
    );
    seen.fails.store(false, Ordering::SeqCst);
    let redriven =
        broker.apply(&filter, Command::Redrive { dry_run: false }, &actor, &Pace::full()).await.unwrap();
    assert_eq!((redriven.matched, redriven.changed), (1, 1));
    until("it came back", async || seen.calls().len() == 5).await;
    assert_eq!(seen.calls()[4].1, 1, "as if it had never failed");
    assert!(dead().await.is_empty());
    assert_eq!(bystander.ids(), ["poison"], "retries and redrives are no business of other groups");
    running.stop().await;
    other.stop().await;
}

/// Half a second, and the longest tier has 200 ms: it goes through it three times, and nobody sees it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_is_longer_than_the_last_tier_is_waited_all_the_same() {
    let Some(stand) = Stand::shared("a_pause_that_is_longer_than_the_last_tier").await else { return };
    let broker = stand.open("tiers=100ms,200ms");
    let spec = FeedSpec::new(&stand.name, vec![TOPIC.parse().unwrap()]);
    let mut feed = broker.feed(&spec).await.unwrap();
    publish(&broker, &["a".to_owned()]).await;
    let first = feed.next(1).await.unwrap().remove(0);
    let (released, pause) = (Instant::now(), Duration::from_millis(500));
    first.receipt.release(pause, Count::Attempt).await.unwrap();
    let again = feed.next(1).await.unwrap().remove(0);
    assert!(released.elapsed() >= pause, "after {:?}", released.elapsed());
    assert_eq!((again.envelope.id.as_str(), again.attempt), ("a", 2));
    again.receipt.ack().await.unwrap();
}
