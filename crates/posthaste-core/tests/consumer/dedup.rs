//! Idempotency by a store, around any handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_core::consumer::{
    Begun, Consumer, Cx, Dedup, DedupKey, Failure, Finished, Idempotent, MemoryDedup, NoDatabase, Token,
};
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use posthaste_core::{BoxFuture, Error, Result};

use crate::{Placed, Seen, run_on};

async fn note(cx: &mut Cx<NoDatabase, Seen>, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    if event.order == 2 && cx.attempt() == 1 { Err("stumbled")? } else { Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn a_processed_event_is_skipped_and_a_failed_one_is_tried_again() {
    let (broker, seen, store) = (LocalBroker::new(), Seen::default(), Arc::new(MemoryDedup::new()));
    let consumer =
        Consumer::with_state("stock", seen.clone()).on(note).around(Idempotent::by(store)).workers(1);
    consumer.declare(&broker).await.unwrap();
    for order in [1, 1, 2, 2] {
        broker.publish(Publish::of(&Placed { order }).id(format!("order-{order}"))).await.unwrap();
    }
    run_on(&broker, consumer, &[]).await;
    let (ones, twos): (Vec<_>, Vec<_>) = seen.attempts().into_iter().partition(|(order, _)| *order == 1);
    assert_eq!(ones.len(), 1);
    assert!(
        twos.len() == 2 || twos.len() == 3,
        "the second copy may come before or after the retry: {twos:?}"
    );
    assert!(broker.dead().is_empty());
}

/// A store that is away until it is told to come back.
struct Flaky(MemoryDedup, AtomicBool);

impl Dedup for Flaky {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        Box::pin(async move {
            if self.1.load(Ordering::SeqCst) {
                return Err(Error::unavailable("away"));
            }
            self.0.begin(key, abandoned_after).await
        })
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        self.0.finish(key, token, end)
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        self.0.prune(older_than, rows_max)
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_the_handler_is_not_run_and_nothing_is_dead() {
    let (broker, seen) = (LocalBroker::new(), Seen::default());
    let store = Arc::new(Flaky(MemoryDedup::new(), AtomicBool::new(true)));
    let consumer = Consumer::with_state("stock", seen.clone()).on(note).around(Idempotent::by(store.clone()));
    let back = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(seen.all().is_empty(), "run without the store");
        store.1.store(false, Ordering::SeqCst);
    };
    tokio::join!(run_on(&broker, consumer, &[(1, None)]), back);
    assert_eq!(seen.attempts(), [(1, 1)], "an hour away counts as no attempt");
}
