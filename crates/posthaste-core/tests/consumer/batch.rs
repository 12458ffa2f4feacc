//! One transaction for many events.

use std::sync::{Arc, Mutex};

use posthaste_core::admin::{Admin, Filter, Page};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::local::LocalBroker;
use posthaste_core::memory::{Memory, MemoryTx};
use posthaste_core::publish::Publish;
use posthaste_sql::{BoxFuture, Database, Result as SqlResult};

use crate::{Placed, Seen, run_on};

/// A store that counts its commits.
#[derive(Clone)]
struct Counted(Memory, Arc<Mutex<u32>>);

thread_local! {
    static COMMITS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Database for Counted {
    type Tx = MemoryTx;

    fn begin(&self) -> BoxFuture<'_, SqlResult<MemoryTx>> {
        *self.1.lock().unwrap() += 1;
        Database::begin(&self.0)
    }

    fn commit(tx: MemoryTx) -> BoxFuture<'static, SqlResult<()>> {
        COMMITS.set(COMMITS.get() + 1);
        <Memory as Database>::commit(tx)
    }
}

async fn answer(cx: &mut Cx<Counted, Seen>, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    cx.publish(Publish::raw("order.answered", event.order.to_string()).id(format!("answer-{}", event.order)))
        .await?;
    if event.order == 5 { Err(Failure::reject("five is right out")) } else { Ok(()) }
}

async fn answers(store: &Memory) -> Vec<String> {
    let found = store.find(&Filter::default(), Page::first(100)).await.unwrap();
    let mut ids: Vec<_> = found.records.into_iter().map(|record| record.envelope.id).collect();
    ids.sort();
    ids
}

fn stock(store: &Memory, seen: &Seen) -> Consumer<Counted, Seen> {
    Consumer::new("stock", Counted(store.clone(), Arc::default()), seen.clone())
        .on(answer)
        .workers(1)
        .batch(8)
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_transaction() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    let orders: Vec<_> = (10..18).map(|order| (order, None)).collect();
    run_on(&broker, stock(&store, &seen), &orders).await;
    assert_eq!((COMMITS.get(), answers(&store).await.len()), (1, 8));
}

/// Of eight, the sixth is rejected: it alone is dead, and all others have their effect once.
#[tokio::test(start_paused = true)]
async fn a_failing_event_is_found_by_halving_and_the_others_have_their_effect_once() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    let orders: Vec<_> = (0..8).map(|order| (order, None)).collect();
    run_on(&broker, stock(&store, &seen), &orders).await;
    let expected: Vec<_> =
        (0..8).filter(|order| *order != 5).map(|order| format!("answer-{order}")).collect();
    assert_eq!(answers(&store).await, expected);
    let dead: Vec<_> = broker.dead().iter().map(|letter| letter.envelope.id.clone()).collect();
    assert_eq!(dead, ["order-5"]);
    assert_eq!(COMMITS.get(), 3, "0 to 3, then 4, then 6 and 7");
}

/// Half of a batch was handled before.
#[tokio::test(start_paused = true)]
async fn duplicates_in_a_batch_are_left_out() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    run_on(&broker, stock(&store, &seen), &[(1, None), (3, None)]).await;
    let again = LocalBroker::new();
    run_on(&again, stock(&store, &seen), &[(1, None), (2, None), (3, None), (4, None)]).await;
    assert_eq!(seen.orders(), [1, 3, 2, 4]);
    assert_eq!(answers(&store).await.len(), 4);
    let third = LocalBroker::new();
    run_on(&third, stock(&store, &seen), &[(1, None), (2, None)]).await;
    assert_eq!(seen.orders().len(), 4, "all were duplicates");
}
