//! What happens at the end of a lease, and what claims and settles that cross must not do.

use super::*;
use posthaste_core::admin::{Actor, Command, Filter, Pace, Seek, all_lanes};

/// Fails the first delivery after a while and publishes a follower of its key, before that while or after it.
fn failing_first(
    publisher: Memory,
    fails_after: Duration,
    follower_first: bool,
    sent: Arc<Mutex<Vec<String>>>,
) -> Arc<dyn Target> {
    answering(move |burst| {
        let mut sent = sent.lock().expect("nobody panics while holding it");
        sent.extend(burst.iter().map(|parcel| parcel.envelope.id.clone()));
        if sent.len() > 1 {
            return yes(burst);
        }
        let publisher = publisher.clone();
        let publish = move || publisher.publish(vec![keyed("b")]).now_or_never();
        if follower_first {
            publish();
        }
        Box::pin(stream::once(async move {
            tokio::time::sleep(fails_after).await;
            if !follower_first {
                publish();
            }
            Answer::failed(0, DeliverError::new(DeliverKind::Failed, "no", "no"))
        }))
    })
}

/// A claim that was answered before a failure was recorded, and heard after it, must not let a follower pass; whether it
/// began before the settle or would begin beside it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_crosses_a_parking_settle_lets_nobody_overtake() {
    for (fails_after, follower_first, settle_is_slow) in [(200, true, false), (2_000, false, true)] {
        let memory = store_with(&["a"]).await;
        let sent = Arc::new(Mutex::new(Vec::new()));
        let fails_after = Duration::from_millis(fails_after);
        let target = failing_first(memory.clone(), fails_after, follower_first, Arc::clone(&sent));
        let store = Arc::new(Hanging::on(memory));
        store.claim_is_late.store(true, Ordering::SeqCst);
        store.settle_is_slow.store(settle_is_slow, Ordering::SeqCst);
        let lane = lane(target).retry(Backoff::fixed(Duration::from_secs(5)));
        let all = async {
            while sent.lock().unwrap().len() < 3 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(LONG, Relay::new(store).lane(lane).run(all)).await.expect("three deliveries").unwrap();
        assert_eq!(*sent.lock().unwrap(), ["a", "a", "b"]);
    }
}

/// The lease cannot be renewed: what comes in its last tenth is left to whoever has the next one.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_at_the_end_of_a_lease_that_is_not_renewed() {
    let store = Arc::new(Hanging::on(store_with(&[]).await));
    store.settle_hangs.store(true, Ordering::SeqCst);
    let (sent, arrived) = tokio::sync::oneshot::channel();
    let sent = Mutex::new(Some(sent));
    let target = answering(move |burst| {
        sent.lock().unwrap().take().map(|sent| sent.send(Instant::now()));
        yes(burst)
    });
    let since = Instant::now();
    let relay = Relay::new(store.clone()).lane(lane(target).lease(Duration::from_secs(10)));
    let late = async {
        tokio::time::sleep(Duration::from_millis(9_500)).await;
        store.inner.publish(vec![keyed("late")]).await.unwrap();
        assert!(arrived.await.unwrap() - since >= Duration::from_secs(10), "under the next lease");
        store.settle_hangs.store(false, Ordering::SeqCst);
    };
    timeout(LONG, relay.run(late)).await.unwrap().unwrap();
}

/// A seek fences whoever drives the lane: the relay must notice, acquire anew and read from there.
#[tokio::test(start_paused = true)]
async fn a_lane_that_was_fenced_is_acquired_anew() {
    let store = store_with(&["a"]).await;
    let sent = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&sent);
    let target = answering(move |burst| {
        seen.fetch_add(1, Ordering::SeqCst);
        yes(burst)
    });
    let relay = Relay::new(Arc::new(store.clone())).lane(lane(target));
    let fence = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut filter = Filter::default();
        filter.lane = Some("main".parse().unwrap());
        let seek = Command::Seek { to: Seek::Beginning, dry_run: false };
        store.apply(&filter, seek, &Actor::new("somebody", "test"), &Pace::full()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    };
    relay.run(fence).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn the_place_moves_on_past_an_event_that_is_not_answered_for_long() {
    let store = store_with(&["a"]).await;
    let mute = answering(|_| Box::pin(stream::pending()));
    let relay = Relay::new(Arc::new(store.clone())).lane(lane(mute).slow_after(Duration::from_secs(1)));
    let looked = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let lane = &all_lanes(&store).await.unwrap()[0];
        assert_eq!((lane.unread, lane.waiting), (0, 1));
    };
    relay.run(looked).await.unwrap();
}
