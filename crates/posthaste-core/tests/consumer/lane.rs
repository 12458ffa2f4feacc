//! A lane straight into handlers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::admin::{Admin, all_lanes};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::memory::Memory;
use posthaste_core::outbox::Outbox;
use posthaste_core::publish::Publish;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::retry::Backoff;

use crate::{Placed, Seen};

/// Order 1 stumbles once, order 3 is rejected.
async fn reserve(cx: &mut Cx<Memory, Seen>, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    cx.publish(Publish::raw("stock.reserved", event.order.to_string())).await?;
    match (event.order, cx.attempt()) {
        (1, 1) => Err("stumbled")?,
        (3, _) => Err(Failure::reject("never")),
        _ => Ok(()),
    }
}

async fn on_lane(consumer: Consumer<Memory, Seen>, store: &Memory, seen: &Seen) {
    let outbox = Outbox::new("/shop");
    let mut tx = store.begin();
    for (order, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "b")] {
        outbox.publish(&mut tx, Publish::of(&Placed { order }).key(key)).await.unwrap();
    }
    tx.commit().unwrap();
    let policy = Backoff::fixed(Duration::ZERO).attempts(3);
    let lane = Lane::named("stock").unwrap().topics(["order.*"]).unwrap().retry(policy);
    let relay = Relay::new(Arc::new(store.clone())).lane(lane.to(consumer.target().unwrap()));
    for _ in 0..3 {
        relay.once().await.unwrap();
    }
    let stats = &all_lanes(store).await.unwrap()[0];
    assert_eq!((stats.delivered, stats.dead, stats.waiting), (3, 1, 0), "{stats:?}");
    let of = |orders: [u32; 2]| -> Vec<_> {
        seen.attempts().into_iter().filter(|(order, _)| orders.contains(order)).collect()
    };
    assert_eq!(of([1, 2]).last(), Some(&(2, 1)), "the key's order across the retry");
    let reserved =
        store.find(&Default::default(), posthaste_core::admin::Page::first(100)).await.unwrap().records;
    let reserved = reserved.iter().filter(|record| record.envelope.event_type == "stock.reserved").count();
    assert_eq!(reserved, 3, "each effect once");
}

/// Puts every event off twice.
async fn put_off(cx: &mut Cx<Memory, Seen>, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    if cx.state().orders().len() < 3 { Err(Failure::later(Duration::from_millis(1))) } else { Ok(()) }
}

/// The lane allows one attempt: what is put off must not use it up.
#[tokio::test]
async fn what_is_put_off_in_a_lane_counts_no_attempt() {
    for batch in [1, 10] {
        let (store, seen) = (Memory::new(), Seen::default());
        let mut tx = store.begin();
        Outbox::new("/shop").publish(&mut tx, Publish::of(&Placed { order: 7 })).await.unwrap();
        tx.commit().unwrap();
        let consumer = Consumer::new("stock", store.clone(), seen.clone()).on(put_off).batch(batch);
        let failed = Arc::new(Mutex::new(0));
        let lane = Lane::named("stock").unwrap().retry(Backoff::fixed(Duration::ZERO).attempts(1));
        let heard = Arc::clone(&failed);
        let relay = Relay::new(Arc::new(store.clone()))
            .on_failed(move |_| *heard.lock().unwrap() += 1)
            .lane(lane.to(consumer.target().unwrap()));
        let began = tokio::time::Instant::now();
        while all_lanes(&store).await.unwrap().first().is_none_or(|lane| lane.delivered == 0) {
            assert!(began.elapsed() < Duration::from_secs(20), "it is not delivered");
            relay.once().await.unwrap();
        }
        assert_eq!(seen.attempts(), [(7, 1), (7, 1), (7, 1)], "each time the first attempt");
        let stats = &all_lanes(&store).await.unwrap()[0];
        assert_eq!((stats.delivered, stats.dead, stats.waiting), (1, 0, 0), "{stats:?}");
        assert_eq!(*failed.lock().unwrap(), 0, "to be put off is no failure");
    }
}

#[tokio::test]
async fn a_lane_delivers_into_handlers_with_the_same_promises() {
    let (store, seen) = (Memory::new(), Seen::default());
    let consumer = Consumer::new("stock", store.clone(), seen.clone()).on(reserve);
    on_lane(consumer, &store, &seen).await;
}

#[tokio::test]
async fn a_lane_delivers_into_batches_with_the_same_promises() {
    let (store, seen) = (Memory::new(), Seen::default());
    let consumer = Consumer::new("stock", store.clone(), seen.clone()).on(reserve).batch(10);
    on_lane(consumer, &store, &seen).await;
}
