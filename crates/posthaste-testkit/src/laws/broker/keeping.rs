//! Nothing is changed, nothing is lost.

use std::time::Duration;

use posthaste_core::broker::Count;
use posthaste_core::target::DeliverKind;

use super::{BrokerBench, next, quiet, take};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

/// An event with everything set: it comes out as it went in.
pub async fn a_round_trip_keeps_everything(bench: BrokerBench) -> LawResult {
    let mut feed = bench.join("a").await?;
    let mut event = bench.event("id-ünï-🦀", Some("key-日本"));
    event.payload = (0..=255).chain([0, 255, 10, 13]).collect();
    event.subject = Some("subject 🦀".to_owned());
    event.version = 7;
    event.content_type = "application/x-law".to_owned();
    event.headers.insert(
        "traceparent".to_owned(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    );
    event.headers.insert("Mixed-Case".to_owned(), "värde, with \"quotes\"".to_owned());
    bench.all_taken(vec![event.clone()]).await?;
    let delivery = next(feed.as_mut()).await?;
    let (seen, mut expected) = ((*delivery.envelope).clone(), event);
    // A broker may stamp what the producer left open.
    expected.occurred_at = seen.occurred_at;
    ensure_eq!(seen, expected, "the event");
    ensure_eq!(delivery.attempt, 1, "the attempt");
    delivery.receipt.ack().await?;
    bench.all_taken(vec![bench.event("plain", None)]).await?;
    ensure_eq!(take(feed.as_mut(), 1).await?, ["plain"], "the next one");
    Ok(())
}

/// One of three is larger than the broker takes: it alone is refused, as such.
pub async fn an_oversize_event_fails_alone(bench: BrokerBench) -> LawResult {
    let most = bench.broker.capabilities().payload_bytes_max;
    if most > 8 * 1024 * 1024 {
        return Err(Verdict::skipped("it takes payloads of any size that a test could send"));
    }
    let mut feed = bench.join("a").await?;
    let mut large = bench.event("large", None);
    large.payload = vec![b'x'; usize::try_from(most).unwrap_or(usize::MAX) + 1];
    let answers = bench.send(vec![bench.event("a", None), large, bench.event("b", None)]).await;
    ensure!(answers[0].is_ok() && answers[2].is_ok(), "the others: {answers:?}");
    let kind = answers[1].as_ref().err().map(|error| error.kind);
    ensure_eq!(kind, Some(DeliverKind::TooLarge), "what is said of the large one");
    let mut seen = take(feed.as_mut(), 2).await?;
    seen.sort();
    ensure_eq!(seen, ["a", "b"], "what was delivered");
    Ok(())
}

/// A member takes two and leaves without a word: both come again, to another, and nobody says that they failed.
pub async fn what_is_not_acked_is_delivered_again_when_a_feed_drops(bench: BrokerBench) -> LawResult {
    let mut first = bench.join("a").await?;
    bench.publish(&["a", "b"]).await?;
    let held = [next(first.as_mut()).await?, next(first.as_mut()).await?];
    drop((held, first));
    let mut second = bench.join("a").await?;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let delivery = next(second.as_mut()).await?;
        ensure_eq!(delivery.attempt, 1, "the attempt");
        seen.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await?;
    }
    seen.sort();
    ensure_eq!(seen, ["a", "b"], "what came again");
    Ok(())
}

/// What was acknowledged does not come again, neither to this feed nor to one that is opened later.
pub async fn what_is_acked_is_not_delivered_again(bench: BrokerBench) -> LawResult {
    let mut feed = bench.join("a").await?;
    bench.publish(&["a", "b"]).await?;
    take(feed.as_mut(), 2).await?;
    drop(feed);
    quiet(bench.join("a").await?.as_mut(), "after both were acknowledged").await
}

/// Waiting for the next delivery is given up again and again: nothing is lost by that.
pub async fn a_dropped_wait_loses_nothing(bench: BrokerBench) -> LawResult {
    let mut feed = bench.join("a").await?;
    for id in ["a", "b", "c"] {
        for _ in 0..5 {
            let _ = tokio::time::timeout(Duration::from_micros(50), feed.next(10)).await.is_ok_and(|next| {
                // What came is given back by dropping it.
                next.is_ok()
            });
        }
        bench.publish(&[id]).await?;
    }
    let mut seen = take(feed.as_mut(), 3).await?;
    seen.sort();
    ensure_eq!(seen, ["a", "b", "c"], "what was delivered");
    Ok(())
}

/// A released event comes back, not before its time; its attempt is counted if that was asked for.
pub async fn a_released_event_comes_back_after_its_time(bench: BrokerBench) -> LawResult {
    if !bench.broker.capabilities().delayed_release {
        return Err(Verdict::skipped("it cannot release for later"));
    }
    let mut feed = bench.join("a").await?;
    bench.publish(&["a"]).await?;
    let pause = Duration::from_millis(300);
    for (count, expected) in [(Count::Attempt, 2), (Count::Nothing, 2), (Count::Attempt, 3)] {
        let released = tokio::time::Instant::now();
        next(feed.as_mut()).await?.receipt.release(pause, count).await?;
        let again = next(feed.as_mut()).await?;
        ensure!(released.elapsed() >= pause, "it came after {:?}", released.elapsed());
        ensure_eq!(again.attempt, expected, "the attempt");
        again.receipt.release(Duration::ZERO, Count::Nothing).await?;
    }
    take(feed.as_mut(), 1).await?;
    Ok(())
}

/// Opening a feed again and again makes nothing twice.
pub async fn declaring_a_group_again_is_harmless(bench: BrokerBench) -> LawResult {
    for _ in 0..3 {
        drop(bench.join("a").await?);
    }
    bench.publish(&["a"]).await?;
    let mut feed = bench.join("a").await?;
    ensure_eq!(take(feed.as_mut(), 1).await?, ["a"], "what was delivered");
    quiet(feed.as_mut(), "after the only event").await
}
