//! Effect, inbox row and what is published are committed together or not at all.

use std::time::Duration;

use posthaste::consumer::{Consumer, Cx, Failure};
use posthaste::local::LocalBroker;
use posthaste::retry::Backoff;
use posthaste::sql::{Database, Statement, Tx};

use crate::inbox::place::Place;
use crate::inbox::{Placed, Reserved, drain, effect, on_every_driver, placed};

on_every_driver! {
    what_fails_leaves_nothing_and_its_retry_has_everything,
    what_is_rejected_leaves_nothing_and_can_be_handled_when_it_is_redriven,
    a_handler_that_takes_too_long_leaves_nothing,
}

/// How a handler ends at its first attempt, after it did everything.
#[derive(Clone, Copy, Debug)]
enum First {
    Fails,
    Panics,
    Rejects,
    Hangs,
}

async fn stumble<D: Database>(cx: &mut Cx<D, First>, event: Placed) -> Result<(), Failure> {
    let before = Statement::new("UPDATE effects SET order_id = order_id", Vec::new());
    assert_eq!(cx.tx().execute(before).await?, 0, "something of the first attempt is there");
    effect(cx, event.order).await?;
    cx.publish(&Reserved { order: event.order }).await?;
    match (cx.attempt(), *cx.state()) {
        (1, First::Fails) => Err("stumbled")?,
        (1, First::Panics) => panic!("stumbled"),
        (1, First::Rejects) => Err(Failure::reject("never")),
        (1, First::Hangs) => std::future::pending().await,
        _ => Ok(()),
    }
}

fn consumer<D: Database>(place: &Place<D>, first: First) -> Consumer<D, First> {
    let quickly = Backoff::exponential(Duration::from_millis(1)).attempts(3);
    Consumer::new("stock", place.database.clone(), first).on(stumble::<D>).retry(quickly)
}

async fn what_fails_leaves_nothing_and_its_retry_has_everything<D: Database>(place: Place<D>) {
    for first in [First::Fails, First::Panics] {
        let broker = LocalBroker::new();
        let consumer = consumer(&place, first);
        consumer.declare(&broker).await.unwrap();
        broker.publish(placed(1)).await.unwrap();
        drain(&broker, consumer).await;
        assert!(broker.dead().is_empty(), "{first:?}");
        let outgoing = place.outgoing().await;
        assert_eq!((place.effects().await, place.inbox_rows().await, outgoing), (1, 1, 1), "{first:?}");
        place.say("DELETE FROM effects").await;
        place.say("DELETE FROM posthaste_inbox").await;
        place.say("DELETE FROM posthaste_events").await;
    }
}

async fn what_is_rejected_leaves_nothing_and_can_be_handled_when_it_is_redriven<D: Database>(
    place: Place<D>,
) {
    for (first, effects) in [(First::Rejects, 0), (First::Fails, 1)] {
        let broker = LocalBroker::new();
        let consumer = consumer(&place, first);
        consumer.declare(&broker).await.unwrap();
        broker.publish(placed(1)).await.unwrap();
        drain(&broker, consumer).await;
        let outgoing = place.outgoing().await as u64;
        assert_eq!((place.effects().await, place.inbox_rows().await, outgoing), (effects, effects, effects));
    }
}

async fn a_handler_that_takes_too_long_leaves_nothing<D: Database>(place: Place<D>) {
    let broker = LocalBroker::new();
    let consumer = consumer(&place, First::Hangs).timeout(Duration::from_secs(2));
    consumer.declare(&broker).await.unwrap();
    broker.publish(placed(1)).await.unwrap();
    drain(&broker, consumer).await;
    assert!(broker.dead().is_empty());
    assert_eq!((place.effects().await, place.inbox_rows().await, place.outgoing().await), (1, 1, 1));
}
