//! What a handler answers decides what becomes of the event.

use std::time::Duration;

use posthaste_core::admin::{Admin, all_lanes};
use posthaste_core::consumer::{Class, Consumer, Cx, Failure, NoDatabase, Unhandled};
use posthaste_core::envelope::Envelope;
use posthaste_core::local::LocalBroker;
use posthaste_core::memory::Memory;
use posthaste_core::publish::Publish;
use posthaste_core::retry::Backoff;
use tokio::time::Instant;

use crate::{Placed, Seen, run_on};

type C = Cx<NoDatabase, Seen>;

fn stock(seen: &Seen) -> Consumer<NoDatabase, Seen> {
    let policy = Backoff::fixed(Duration::from_secs(10)).attempts(3);
    Consumer::with_state("stock", seen.clone()).retry(policy)
}

async fn always_fails(cx: &mut C, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    Err("the shelf is empty")?
}

#[tokio::test(start_paused = true)]
async fn an_error_is_tried_again_by_the_policy_and_then_dead_with_its_reason() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    run_on(&broker, stock(&seen).on(always_fails), &[(1, None)]).await;
    let times: Vec<_> =
        seen.all().iter().map(|(_, attempt, at)| (*attempt, (*at - start).as_secs())).collect();
    assert_eq!(times, [(1, 0), (2, 10), (3, 20)]);
    let dead = broker.dead();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].attempts, dead[0].group.as_str()), (3, "stock"));
    assert_eq!(
        (dead[0].reason.code.as_str(), dead[0].reason.message.as_str()),
        ("error", "the shelf is empty")
    );
    let stats = &all_lanes(&broker).await.unwrap()[0];
    assert!(stats.adds_up() && stats.dead == 1, "{stats:?}");
}

async fn rejects_and_defers(cx: &mut C, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    match (event.order, cx.state().orders().iter().filter(|order| **order == event.order).count()) {
        (1, _) => Err(Failure::reject("never").code("no such shelf")),
        (2, 1..=4) => Err(Failure::later(Duration::from_secs(60))),
        (3, 1) => panic!("a bug"),
        (4, 1) => std::future::pending().await,
        _ => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn reject_is_dead_now_and_later_does_not_count_and_panics_and_timeouts_are_errors() {
    let (broker, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let consumer = stock(&seen).timeout(Duration::from_secs(5)).on(rejects_and_defers);
    run_on(&broker, consumer, &[(1, None), (2, None), (3, None), (4, None)]).await;
    let of = |wanted: u32| -> Vec<u32> {
        seen.attempts().iter().filter(|(order, _)| *order == wanted).map(|(_, attempt)| *attempt).collect()
    };
    assert_eq!(of(1), [1]);
    assert_eq!(of(2), [1, 1, 1, 1, 1], "a budget of 3 would be over");
    assert_eq!(of(3), [1, 2]);
    assert_eq!(of(4), [1, 2]);
    assert_eq!(start.elapsed().as_secs(), 240);
    let dead: Vec<_> = broker.dead().iter().map(|letter| letter.reason.code.clone()).collect();
    assert_eq!(dead, ["no such shelf"]);
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_decode_and_one_of_a_newer_version_are_dead_with_the_reason() {
    let (broker, seen) = (LocalBroker::new(), Seen::default());
    let consumer = stock(&seen).on(always_fails).workers(1);
    consumer.declare(&broker).await.unwrap();
    broker.publish(Publish::raw("order.placed", "{").id("broken")).await.unwrap();
    broker.publish(Publish::of(&Placed { order: 1 }).version(2).id("newer")).await.unwrap();
    run_on(&broker, consumer, &[]).await;
    let dead: Vec<_> =
        broker.dead().iter().map(|letter| (letter.envelope.id.clone(), letter.reason.code.clone())).collect();
    assert_eq!(dead, [("broken".into(), "undecodable".into()), ("newer".into(), "version".into())]);
    assert!(seen.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_handles_is_ignored_or_dead_as_declared() {
    for (policy, dead) in [(Unhandled::Ignore, 0), (Unhandled::Dead, 1)] {
        let (broker, seen) = (LocalBroker::new(), Seen::default());
        let consumer = stock(&seen).on(always_fails).topics(["#"]).unhandled(policy);
        consumer.declare(&broker).await.unwrap();
        broker.publish(Publish::raw("order.cancelled", "{}")).await.unwrap();
        run_on(&broker, consumer, &[]).await;
        assert_eq!(broker.dead().len(), dead);
        assert!(broker.dead().iter().all(|letter| letter.reason.code == "unhandled"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_classifier_decides_before_the_handler_s_word() {
    let (broker, seen) = (LocalBroker::new(), Seen::default());
    let rejects =
        |failure: &Failure, _: &Envelope| failure.to_string().contains("empty").then_some(Class::Reject);
    run_on(&broker, stock(&seen).on(always_fails).classify(rejects), &[(1, None)]).await;
    assert_eq!((seen.attempts().len(), broker.dead().len()), (1, 1));
}

async fn publishes_and_fails(cx: &mut Cx<Memory, Seen>, event: Placed) -> Result<(), Failure> {
    cx.publish(Publish::raw("order.answered", event.order.to_string())).await?;
    cx.state().note(event.order, cx.attempt());
    if cx.attempt() < 3 { Err("not yet")? } else { Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_handler_published_was_never_published() {
    let (broker, seen, store) = (LocalBroker::new(), Seen::default(), Memory::new());
    let policy = Backoff::fixed(Duration::from_secs(1)).attempts(3);
    let consumer = Consumer::new("stock", store.clone(), seen.clone()).retry(policy).on(publishes_and_fails);
    run_on(&broker, consumer, &[(1, None)]).await;
    let found = store.find(&Default::default(), posthaste_core::admin::Page::first(10)).await.unwrap();
    assert_eq!((seen.attempts().len(), found.records.len()), (3, 1));
}
