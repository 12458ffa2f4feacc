//! The thin slice: publish, handle, acknowledge; with and without a database.

use std::sync::{Arc, Mutex};

use posthaste_core::Result;
use posthaste_core::admin::{Admin, Filter, Page, all_lanes};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::local::LocalBroker;
use posthaste_core::memory::Memory;
use posthaste_core::publish::Publish;

use crate::Placed;

type Numbers = Arc<Mutex<Vec<u32>>>;

async fn note(
    cx: &mut Cx<posthaste_core::consumer::NoDatabase, Numbers>,
    event: Placed,
) -> Result<(), Failure> {
    cx.state().lock().unwrap().push(event.order);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_published_is_handled_and_acknowledged() {
    let (broker, seen) = (LocalBroker::new(), Numbers::default());
    let consumer = Consumer::with_state("stock", Arc::clone(&seen)).on(note);
    consumer.declare(&broker).await.unwrap();
    for order in 0..100 {
        broker.publish(&Placed { order }).await.unwrap();
    }
    let (ran, closed) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran.unwrap();
    assert_eq!(closed.left, 0);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let stats = &all_lanes(&broker).await.unwrap()[0];
    assert_eq!((stats.accepted, stats.delivered), (100, 100));
}

async fn answer(cx: &mut Cx<Memory>, event: Placed) -> Result<(), Failure> {
    cx.publish(Publish::raw("order.answered", event.order.to_string())).await?;
    Ok(())
}

/// The same event comes three times (another delivery, not another event): one effect.
#[tokio::test(start_paused = true)]
async fn an_event_that_comes_again_has_its_effect_once() {
    let (broker, store) = (LocalBroker::new(), Memory::new());
    let consumer = Consumer::new("stock", store.clone(), ()).on(answer).workers(1);
    consumer.declare(&broker).await.unwrap();
    for _ in 0..3 {
        broker.publish(Publish::of(&Placed { order: 7 }).id("one")).await.unwrap();
    }
    let (ran, _) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran.unwrap();
    let found = store.find(&Filter::default(), Page::first(10)).await.unwrap();
    assert_eq!(found.records.len(), 1);
    assert_eq!(found.records[0].envelope.headers["correlation-id"], "one");
}
