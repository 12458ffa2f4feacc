//! Events that are set aside in a lane, and who waits for them.

use std::time::Duration;

use posthaste_core::admin::EventState;
use posthaste_core::lane::Order;
use posthaste_core::store::Outcome;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::time::Moment;

use crate::drive::{StoreBench, event, ids, keyed, lane, one, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Fails an event with a pause of ten seconds: nothing for nine, then it.
pub async fn a_retry_is_not_claimed_before_it_is_due(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND * 10)).await?;
    let view = bench.view(&main.name, "a").await?;
    ensure_eq!(view.state, EventState::Retrying, "its state");
    ensure_eq!(view.available_at, Some(bench.rig.now().after(SECOND * 10)), "when it is due");
    ensure_eq!(view.code.as_deref(), Some("test failure"), "its code");
    ensure_eq!(view.last_error.as_deref(), Some("the script says so"), "its error");
    for _ in 0..9 {
        ensure!(driver.claim_all().await?.is_empty(), "claimed before it was due");
        bench.pass(SECOND);
        driver.renew().await?;
    }
    bench.pass(SECOND);
    ensure_eq!(ids(&driver.claim_all().await?), ["a"], "what is claimed when it is due");
    Ok(())
}

/// Fails an event twice: it is known when it failed first.
pub async fn a_failed_event_says_when_it_first_failed(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let first = bench.rig.now();
    for _ in 0..2 {
        driver.settle_as(&driver.claim_all().await?, retry(SECOND)).await?;
        ensure_eq!(bench.view(&main.name, "a").await?.first_failed_at, Some(first), "when it first failed");
        bench.pass(SECOND);
    }
    Ok(())
}

/// Fails an event three times, with a crash between: the attempt grows with each failure and not with the crash.
pub async fn attempts_are_counted_across_leases(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    for attempt in 1..=3 {
        let driver = bench.drive(&main).await?;
        driver.claim_all().await?;
        bench.pass(main.lease + SECOND);
        let driver = bench.drive(&main).await?;
        let claimed = driver.claim_all().await?;
        ensure_eq!(one(&claimed, "a")?.parcel.attempt, attempt, "the attempt");
        driver.settle_as(&claimed, retry(SECOND)).await?;
        ensure_eq!(bench.view(&main.name, "a").await?.attempts, attempt, "failed attempts");
        driver.give_up().await?;
        bench.pass(SECOND);
    }
    Ok(())
}

/// Puts an event off twice, from the log and from its row: it waits, its key with it, says why, and comes on its first attempt.
pub async fn what_is_put_off_waits_and_counts_no_attempt(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let later = |code: &str| {
        let error = DeliverError::new(DeliverKind::Later, code, "why");
        Outcome::Later { after: SECOND * 5, error: Some(error) }
    };
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], later("first")), settled(&claimed[1], Outcome::Behind)]).await?;
    for code in ["first", "second"] {
        let view = bench.view(&main.name, "k1").await?;
        ensure_eq!((view.state, view.attempts), (EventState::Retrying, 0), "its state and attempts");
        ensure_eq!((view.code.as_deref(), view.first_failed_at), (Some(code), None), "its failure");
        ensure_eq!(view.last_error.as_deref(), Some("why"), "what was said of it");
        ensure_eq!(view.available_at, Some(bench.rig.now().after(SECOND * 5)), "when it is due");
        bench.pass(SECOND * 4);
        driver.renew().await?;
        ensure!(driver.claim_all().await?.is_empty(), "claimed before it was due");
        bench.pass(SECOND);
        let claimed = driver.claim_all().await?;
        ensure_eq!(one(&claimed, "k1")?.parcel.attempt, 1, "its attempt");
        let behind = claimed.iter().filter(|claimed| claimed.parcel.envelope.id != "k1");
        let mut outcomes = vec![settled(one(&claimed, "k1")?, later("second"))];
        outcomes.extend(behind.map(|claimed| settled(claimed, Outcome::Behind)));
        driver.settle(outcomes).await?;
    }
    bench.pass(SECOND * 5);
    ensure_eq!(driver.drain().await?, ["k1", "k2"], "what comes in the end");
    Ok(())
}

/// Fails the head of one key: later events of that key are not handed out, those of other keys and without are.
pub async fn only_the_key_of_a_parked_event_waits(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("a1", "a")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND * 60)).await?;
    bench.publish_keyed(&[("a2", "a"), ("b1", "b"), ("a3", "a")]).await?;
    bench.publish(&["none"]).await?;
    ensure_eq!(driver.drain().await?, ["b1", "none"], "what goes on");
    for id in ["a2", "a3"] {
        ensure_eq!(bench.state(&main.name, id).await?, EventState::Behind, "the state of {id}");
    }
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.waiting, stats.delivered, stats.unread), (3, 2, 0), "waiting, delivered, unread");
    Ok(())
}

/// Lets many events wait behind one, also across a crash: when the head is delivered they come, all in order.
pub async fn what_waits_behind_a_key_drains_in_order(bench: StoreBench) -> LawResult {
    let expected: Vec<String> = (0..50).map(|n| format!("k{n:02}")).collect();
    bench.publish_all(vec![keyed("k00", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND * 5)).await?;
    bench.publish_all(expected[1..].iter().map(|id| keyed(id, "k")).collect()).await?;
    ensure!(driver.drain().await?.is_empty(), "an event overtook the head of its key");
    drop(driver);
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, expected, "the order of the key");
    Ok(())
}

/// Claims three of a key, fails the first, and says of the others that they were not sent: they come back in order after
/// it, again and again.
pub async fn unsent_events_of_a_failed_key_come_back_in_order(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k"), ("k3", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    for attempt in 1..=3 {
        let claimed = driver.claim_all().await?;
        ensure_eq!(ids(&claimed)[0], "k1", "the head of the key on attempt {attempt}");
        let outcomes = claimed.iter().map(|claimed| match claimed.parcel.envelope.id.as_str() {
            "k1" => settled(claimed, retry(SECOND)),
            _ => settled(claimed, Outcome::Behind),
        });
        driver.settle(outcomes.collect()).await?;
        ensure!(driver.claim_all().await?.is_empty(), "the key was handed out before its head is due");
        bench.pass(SECOND);
        driver.renew().await?;
    }
    let claimed = driver.claim_all().await?;
    ensure_eq!(one(&claimed, "k1")?.parcel.attempt, 4, "the head's attempt");
    driver.deliver(&claimed).await?;
    let mut seen = ids(&claimed);
    seen.extend(driver.drain().await?);
    ensure_eq!(seen, ["k1", "k2", "k3"], "the order of the key");
    Ok(())
}

/// Says of an event that it was not sent although nothing of its key is parked any more: it must not wait for ever.
pub async fn an_event_behind_nobody_does_not_wait(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k")]).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, Outcome::Behind).await?;
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["k1"], "what is claimed");
    ensure_eq!(claimed[0].parcel.attempt, 1, "its attempt");
    Ok(())
}

/// A lane without order: a parked event holds nobody of its key.
pub async fn without_order_nobody_waits(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k")]).await?;
    let mut spec = lane("main");
    spec.order = Order::None;
    let driver = bench.drive(&spec).await?;
    let claimed = driver.claim(1).await?;
    driver.settle_as(&claimed, retry(SECOND * 60)).await?;
    bench.publish_keyed(&[("k3", "k")]).await?;
    ensure_eq!(driver.drain().await?, ["k2", "k3"], "what goes on");
    Ok(())
}

/// Publishes an event for later between two others of its key: they pass it, and it comes when it is due.
pub async fn a_scheduled_event_holds_nobody_and_is_claimed_when_due(bench: StoreBench) -> LawResult {
    let mut later = keyed("later", "k");
    later.available = Some(Moment::In(SECOND * 60));
    bench.publish_all(vec![keyed("k1", "k"), later, keyed("k2", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["k1", "k2"], "what goes on");
    let view = bench.view(&main.name, "later").await?;
    ensure_eq!(view.state, EventState::Scheduled, "its state");
    ensure_eq!(view.available_at, Some(bench.rig.now().after(SECOND * 60)), "when it is due");
    ensure_eq!(bench.stats(&main.name).await?.unread, 0, "unread");
    bench.publish_keyed(&[("k3", "k")]).await?;
    ensure_eq!(driver.drain().await?, ["k3"], "what goes on when it is parked");
    bench.pass(SECOND * 59);
    driver.renew().await?;
    ensure!(driver.drain().await?.is_empty(), "claimed before its time");
    bench.pass(SECOND);
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["later"], "what is claimed when it is due");
    ensure_eq!(claimed[0].parcel.attempt, 1, "its attempt");
    Ok(())
}

/// Publishes an event that is worth nothing in a minute and reads after that: it is discarded, counted and found.
pub async fn an_expired_event_is_discarded_with_a_record(bench: StoreBench) -> LawResult {
    let mut short = keyed("short", "k");
    short.expires = Some(Moment::In(SECOND * 60));
    let mut long = keyed("long", "k");
    long.expires = Some(Moment::In(SECOND * 3_600));
    bench.publish_all(vec![short, long]).await?;
    bench.pass(SECOND * 60);
    let main = lane("main");
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["long"], "what is claimed");
    let view = bench.view(&main.name, "short").await?;
    ensure_eq!(view.state, EventState::Discarded, "its state");
    ensure_eq!(view.code.as_deref(), Some("expired"), "its code");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!(
        (stats.accepted, stats.delivered, stats.discarded),
        (2, 1, 1),
        "accepted, delivered, discarded"
    );
    Ok(())
}

/// The same for an event that fails first and expires before its retry is due; who waits behind it goes on.
pub async fn an_event_that_expires_while_parked_is_discarded_with_a_record(bench: StoreBench) -> LawResult {
    let mut short = keyed("short", "k");
    short.expires = Some(Moment::In(SECOND * 5));
    bench.publish_all(vec![short]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND * 8)).await?;
    bench.publish_keyed(&[("next", "k")]).await?;
    ensure!(driver.drain().await?.is_empty(), "an event overtook the head of its key");
    bench.pass(SECOND * 8);
    ensure_eq!(driver.drain().await?, ["next"], "what goes on");
    let view = bench.view(&main.name, "short").await?;
    ensure_eq!(view.state, EventState::Discarded, "its state");
    ensure_eq!(view.code.as_deref(), Some("expired"), "its code");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.delivered, stats.discarded, stats.waiting), (1, 1, 0), "delivered, discarded, waiting");
    Ok(())
}

/// One event is sent and never answered: parked as slow, the place moves on, its key waits, and its late answer ends it.
pub async fn a_slow_event_does_not_hold_the_place_and_its_answer_settles_it(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("slow", "k"), ("a", "a"), ("b", "b")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.deliver(&claimed[1..]).await?;
    ensure_eq!(bench.stats(&main.name).await?.unread, 3, "unread while it holds the place");
    driver.settle_as(&claimed[..1], Outcome::Slow).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.delivered, stats.waiting), (0, 2, 1), "unread, delivered, waiting");
    ensure_eq!(bench.state(&main.name, "slow").await?, EventState::Delivering, "its state");
    bench.publish_keyed(&[("k2", "k"), ("c", "c")]).await?;
    ensure_eq!(driver.drain().await?, ["c"], "what goes on while it is unanswered");
    driver.deliver(&claimed[..1]).await?;
    ensure_eq!(driver.drain().await?, ["k2"], "what goes on after its answer");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.delivered, stats.waiting), (5, 0), "delivered and waiting in the end");
    Ok(())
}

/// A relay crashes with a slow event out: the next lease hands it out again, on the same attempt.
pub async fn a_slow_event_is_handed_out_again_after_a_crash(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("slow", "k"), ("k2", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], Outcome::Slow), settled(&claimed[1], Outcome::Behind)]).await?;
    ensure!(driver.claim_all().await?.is_empty(), "a slow event was handed out twice in one lease");
    drop(driver);
    bench.pass(main.lease + SECOND);
    let reopened = bench.again().await?;
    let driver = reopened.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed)[0], "slow", "what comes first");
    ensure_eq!(claimed[0].parcel.attempt, 1, "its attempt");
    driver.deliver(&claimed).await?;
    let mut seen = ids(&claimed);
    seen.extend(driver.drain().await?);
    ensure_eq!(seen, ["slow", "k2"], "the order of the key");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 2, "delivered");
    Ok(())
}

/// Parks the second of two while the first is unanswered, then crashes: the parked one comes from its row and only from it.
pub async fn a_parked_event_above_the_place_is_not_handed_out_from_the_log_again(
    bench: StoreBench,
) -> LawResult {
    bench.publish_all(["a", "b", "c"].map(event).into()).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed[1..2], retry(SECOND * 600)).await?;
    drop(driver);
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["a", "c"], "what a crash gives back");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.delivered, stats.waiting), (3, 2, 1), "accepted, delivered, waiting");
    bench.pass(SECOND * 600);
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["b"], "what is due");
    ensure_eq!(claimed[0].parcel.attempt, 2, "its attempt");
    Ok(())
}

/// A crash gives back an event that comes before a parked one of its key, and a later one is published: the first is handed
/// out, for nothing before it is parked, and the later one still waits for the parked one.
pub async fn a_key_given_back_below_its_parked_event_is_still_held_above_it(bench: StoreBench) -> LawResult {
    bench.publish_all(vec![event("gap"), keyed("k1", "k"), keyed("k2", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![settled(&claimed[1], Outcome::Delivered), settled(&claimed[2], retry(SECOND * 30))])
        .await?;
    drop(driver);
    bench.publish_keyed(&[("k3", "k")]).await?;
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["gap", "k1"], "what a crash gives back");
    ensure_eq!(bench.state(&main.name, "k3").await?, EventState::Behind, "the state of k3");
    bench.pass(SECOND * 30);
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["k2", "k3"], "the rest of the key");
    Ok(())
}

/// An event is found slow and answered before that is recorded: both in one settle, in their order, and the answer counts.
pub async fn a_slow_event_may_be_answered_in_the_same_settle(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("a", "a"), ("b", "b"), ("b2", "b")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], Outcome::Slow),
            settled(&claimed[1], Outcome::Slow),
            settled(&claimed[2], Outcome::Behind),
            settled(&claimed[0], Outcome::Delivered),
            settled(&claimed[1], retry(SECOND)),
        ])
        .await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.delivered, stats.waiting, stats.unread), (1, 2, 0), "delivered, waiting, unread");
    ensure_eq!(bench.state(&main.name, "b").await?, EventState::Retrying, "the state of b");
    ensure!(driver.drain().await?.is_empty(), "an event was handed out before it was due");
    bench.pass(SECOND);
    ensure_eq!(driver.drain().await?, ["b", "b2"], "what is due");
    Ok(())
}

/// A scheduled event fails while the head of its key is parked, so two of the key are retried: each when it is due, and what
/// is behind both waits for both.
pub async fn what_is_behind_two_retries_waits_for_both(bench: StoreBench) -> LawResult {
    let mut later = keyed("k2", "k");
    later.available = Some(Moment::In(SECOND));
    bench.publish_all(vec![keyed("k1", "k"), later]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND * 5)).await?;
    bench.pass(SECOND);
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["k2"], "what is due after a second");
    driver.settle_as(&claimed, retry(SECOND * 7)).await?;
    bench.publish_keyed(&[("k3", "k")]).await?;
    ensure!(driver.drain().await?.is_empty(), "an event overtook its key");
    bench.pass(SECOND * 4);
    ensure_eq!(driver.drain().await?, ["k1"], "what is due after five seconds");
    bench.pass(SECOND * 3);
    ensure_eq!(driver.drain().await?, ["k2", "k3"], "what is due after eight seconds");
    Ok(())
}
