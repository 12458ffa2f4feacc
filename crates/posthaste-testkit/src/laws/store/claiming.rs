//! What a claim hands out, and in what order.

use std::time::Duration;

use posthaste_core::lane::Start;
use posthaste_core::store::Room;

use crate::drive::{StoreBench, event, ids, lane, retry};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Claims from a log of ten with rooms of different sizes, also none.
pub async fn a_claim_never_answers_more_events_than_its_room(bench: StoreBench) -> LawResult {
    bench.publish(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]).await?;
    let driver = bench.drive(&lane("main")).await?;
    ensure!(driver.claim(0).await?.is_empty(), "no room was answered with events");
    let mut all = Vec::new();
    for room in [1, 3, 4, 0, 100] {
        let claimed = driver.claim(room).await?;
        ensure!(claimed.len() <= room as usize, "{} events for a room of {room}", claimed.len());
        ensure!(room == 0 || !claimed.is_empty(), "nothing for a room of {room}");
        all.extend(ids(&claimed));
    }
    ensure_eq!(all, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "all claims together");
    Ok(())
}

/// Claims events of 1,000 bytes with room for two and a half, and then with room for hardly a byte.
pub async fn a_claim_never_answers_more_bytes_than_its_room_but_one_event_always_fits(
    bench: StoreBench,
) -> LawResult {
    let mut events: Vec<_> = ["a", "b", "c", "d"].map(event).into();
    events.iter_mut().for_each(|event| event.payload = vec![b'x'; 1_000]);
    let weight = events[0].weight();
    bench.publish_all(events).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_room(Room { events: 100, bytes: weight * 5 / 2 }).await?;
    ensure_eq!(ids(&claimed), ["a", "b"], "room for two and a half");
    let claimed = driver.claim_room(Room { events: 100, bytes: 1 }).await?;
    ensure_eq!(ids(&claimed), ["c"], "room for a byte");
    let claimed = driver.claim_room(Room { events: 100, bytes: weight }).await?;
    ensure_eq!(ids(&claimed), ["d"], "room for exactly one");
    Ok(())
}

/// Claims again and again without settling, also with parked events due: nothing comes twice.
pub async fn no_event_is_claimed_twice_in_one_lease(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let driver = bench.drive(&lane("main")).await?;
    let first = driver.claim_all().await?;
    ensure_eq!(ids(&first), ["a", "b", "c"], "the first claims");
    ensure!(driver.claim_all().await?.is_empty(), "claimed again without a settle");
    driver.settle_as(&first[..1], retry(SECOND)).await?;
    bench.pass(SECOND);
    ensure_eq!(ids(&driver.claim_all().await?), ["a"], "the due retry");
    ensure!(driver.claim_all().await?.is_empty(), "the due retry was claimed twice");
    driver.renew().await?;
    ensure!(driver.claim_all().await?.is_empty(), "claimed again after an empty settle");
    Ok(())
}

/// Publishes in many small steps and claims in others: the order is that of the log.
pub async fn claims_follow_the_order_of_the_log(bench: StoreBench) -> LawResult {
    let expected: Vec<String> = (0..60).map(|n| format!("e{n:02}")).collect();
    for chunk in expected.chunks(7) {
        bench.publish_all(chunk.iter().map(|id| event(id)).collect()).await?;
    }
    let driver = bench.drive(&lane("main")).await?;
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let claimed = driver.claim(11).await?;
        ensure!(!claimed.is_empty(), "the log ended after {} events", seen.len());
        seen.extend(ids(&claimed));
    }
    ensure_eq!(seen, expected, "the order of claims");
    Ok(())
}

/// Publishes to several topics; lanes with a literal topic, a star and a hash each see theirs.
pub async fn a_lane_sees_only_its_topics(bench: StoreBench) -> LawResult {
    for topic in ["orders", "stock.eu", "stock.eu.north", "orders.eu"] {
        let mut event = event(topic);
        event.topic = topic.to_owned();
        bench.publish_all(vec![event]).await?;
    }
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("literal", &["orders"], &["orders"]),
        ("star", &["stock.*"], &["stock.eu"]),
        ("hash", &["stock.#"], &["stock.eu", "stock.eu.north"]),
        ("two", &["orders", "*.eu"], &["orders", "stock.eu", "orders.eu"]),
    ];
    for (name, topics, expected) in cases {
        let mut spec = lane(name);
        spec.topics = topics.iter().map(|topic| topic.parse()).collect::<Result<_, _>>()?;
        ensure_eq!(bench.drive(&spec).await?.drain().await?, expected, "what lane {name} sees");
        let stats = bench.stats(&spec.name).await?;
        ensure_eq!(stats.accepted, expected.len() as u64, "accepted by lane {name}");
        ensure_eq!(stats.unread, 0, "unread by lane {name}");
    }
    Ok(())
}

/// One lane fails and parks, another delivers: neither changes what the other sees.
pub async fn lanes_do_not_see_one_another(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("a", "k"), ("b", "k")]).await?;
    let (failing, fine) = (lane("failing"), lane("fine"));
    let driver = bench.drive(&failing).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed[..1], retry(SECOND)).await?;
    ensure_eq!(bench.drive(&fine).await?.drain().await?, ["a", "b"], "what the other lane delivers");
    let (failing, fine) = (bench.stats(&failing.name).await?, bench.stats(&fine.name).await?);
    ensure_eq!((failing.waiting, failing.delivered), (1, 0), "waiting and delivered in the failing lane");
    ensure_eq!((fine.waiting, fine.delivered), (0, 2), "waiting and delivered in the other lane");
    Ok(())
}

/// A lane whose topic never comes: its place moves with empty settles, so that it holds back no retention.
pub async fn a_lane_that_wants_nothing_of_the_log_still_moves_on(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let mut spec = lane("other");
    spec.topics = vec!["never".parse()?];
    let driver = bench.drive(&spec).await?;
    ensure!(driver.claim_all().await?.is_empty(), "an event of another topic was claimed");
    driver.renew().await?;
    let stats = bench.stats(&spec.name).await?;
    ensure_eq!((stats.unread, stats.accepted), (0, 0), "unread and accepted");
    Ok(())
}

/// Twenty due retries and twenty new events with room for ten: at least five of the ten are new.
pub async fn parked_events_take_at_most_half_of_the_room(bench: StoreBench) -> LawResult {
    let old: Vec<_> = (0..20).map(|n| event(&format!("old-{n:02}"))).collect();
    let new: Vec<_> = (0..20).map(|n| event(&format!("new-{n:02}"))).collect();
    bench.publish_all(old).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND)).await?;
    bench.publish_all(new).await?;
    bench.pass(SECOND);
    let claimed = driver.claim(10).await?;
    let parked = ids(&claimed).iter().filter(|id| id.starts_with("old")).count();
    ensure_eq!(claimed.len(), 10, "events claimed");
    ensure!((1..=5).contains(&parked), "{parked} of ten were parked events");
    Ok(())
}

/// Two due retries and two new events, one at a time: within four claims all have come.
pub async fn a_room_of_one_serves_parked_and_new_events_in_turn(bench: StoreBench) -> LawResult {
    bench.publish(&["old-1", "old-2"]).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND)).await?;
    bench.publish(&["new-1", "new-2"]).await?;
    bench.pass(SECOND);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let claimed = driver.claim(1).await?;
        ensure_eq!(claimed.len(), 1, "events for a room of one");
        seen.extend(ids(&claimed));
    }
    let first_two: Vec<bool> = seen[..2].iter().map(|id| id.starts_with("old")).collect();
    ensure!(first_two.contains(&true) && first_two.contains(&false), "not in turn: {seen:?}");
    seen.sort();
    ensure_eq!(seen, ["new-1", "new-2", "old-1", "old-2"], "all four");
    Ok(())
}

/// New lanes begin at the beginning, with the next event, and at a time; an existing lane goes on where it was.
pub async fn a_new_lane_begins_where_it_says(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    bench.pass(SECOND * 60);
    let time = bench.rig.now();
    bench.publish(&["b"]).await?;
    let (mut beginning, mut now, mut at) = (lane("beginning"), lane("now"), lane("at"));
    beginning.start = Start::Beginning;
    now.start = Start::Now;
    at.start = Start::At(time);
    let drivers = [bench.drive(&beginning).await?, bench.drive(&now).await?, bench.drive(&at).await?];
    bench.publish(&["c"]).await?;
    let expected: [&[&str]; 3] = [&["a", "b", "c"], &["c"], &["b", "c"]];
    for (driver, expected) in drivers.into_iter().zip(expected) {
        ensure_eq!(driver.drain().await?, expected, "what lane {} sees", driver.lease.lane());
        driver.give_up().await?;
    }
    ensure!(bench.drive(&beginning).await?.drain().await?.is_empty(), "an existing lane began again");
    Ok(())
}
