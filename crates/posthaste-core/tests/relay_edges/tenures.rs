//! A lane that nobody drives shows: its store was changed while it was driven, or no lease comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_core::ErrorKind;
use posthaste_core::publisher::Publisher as _;
use posthaste_core::relay::{Relay, Trouble};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::hanging::Hanging;
use crate::{LONG, answering, keyed, lane, store_with, yes};

const LEASE: Duration = Duration::from_secs(5);

/// Waits in virtual time until this holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_unusable_while_it_is_driven_makes_the_relay_wait_and_go_on() {
    let store = Arc::new(Hanging::on(store_with(&["a"]).await));
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let target = answering(move |burst| {
        counted.fetch_add(burst.len(), Ordering::SeqCst);
        yes(burst)
    });
    let relay = Relay::new(Arc::<Hanging>::clone(&store)).lane(lane(target).lease(LEASE));
    let tenure = relay.tenures().remove(0);
    let (stop, stopped) = oneshot::channel::<()>();
    let checking = async {
        until("the first event is delivered", || sent.load(Ordering::SeqCst) == 1).await;
        assert_eq!(tenure.trouble(), None);
        store.is_unusable.store(true, Ordering::SeqCst);
        until("the relay gives the lane up", || tenure.trouble() == Some(Trouble::Refused)).await;
        store.inner.publish(vec![keyed("b")]).await.expect("memory takes it");
        store.is_unusable.store(false, Ordering::SeqCst);
        until("it goes on by itself", || sent.load(Ordering::SeqCst) == 2).await;
        assert_eq!(tenure.trouble(), None);
        drop(stop);
    };
    let (ended, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), checking);
    ended.expect("it was told to end");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_unusable_at_the_start_ends_the_relay() {
    let store = Arc::new(Hanging::on(store_with(&["a"]).await));
    store.is_unusable.store(true, Ordering::SeqCst);
    let relay = Relay::new(store).lane(lane(answering(yes)).lease(LEASE));
    let ended = timeout(LONG, relay.run(std::future::pending())).await.expect("it ends by itself");
    assert_eq!(ended.expect_err("the store is unusable").kind(), ErrorKind::Config);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_gets_no_lease_for_several_leases_is_in_trouble() {
    let store = Arc::new(Hanging::on(store_with(&["a"]).await));
    let relay = Relay::new(Arc::<Hanging>::clone(&store)).lane(lane(answering(yes)).lease(LEASE));
    let tenure = relay.tenures().remove(0);
    let (stop, stopped) = oneshot::channel::<()>();
    let checking = async {
        sleep(LEASE * 10).await;
        assert_eq!(tenure.trouble(), None, "an idle lane is held");
        store.acquire_hangs.store(true, Ordering::SeqCst);
        store.claim_hangs.store(true, Ordering::SeqCst);
        store.settle_hangs.store(true, Ordering::SeqCst);
        until("it shows", || matches!(tenure.trouble(), Some(Trouble::NoLease(age)) if age >= LEASE * 3))
            .await;
        store.acquire_hangs.store(false, Ordering::SeqCst);
        store.claim_hangs.store(false, Ordering::SeqCst);
        store.settle_hangs.store(false, Ordering::SeqCst);
        until("it is over", || tenure.trouble().is_none()).await;
        drop(stop);
    };
    let (ended, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), checking);
    ended.expect("it was told to end");
    sleep(LEASE * 10).await;
    assert_eq!(tenure.trouble(), None, "nobody waits for a lane whose relay ended");
}
