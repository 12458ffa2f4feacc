//! Whether a lane's loop turns: it does beside a store and a target that do not answer, and it does not while something holds its thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::stream;
use posthaste_core::relay::Relay;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::hanging::{Hanging, acquire_hangs, claim_hangs, settle_hangs};
use crate::{answering, lane, store_with, yes};

const LEASE: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_secs(3_600);

/// Runs a relay for an hour, in which its lane's heartbeat must never be older than this.
async fn never_older(relay: Relay, age: Duration) {
    let heartbeat = relay.heartbeats().remove(0);
    let end = Instant::now() + HOUR;
    let watching = async {
        while Instant::now() < end {
            assert!(!heartbeat.is_late() && heartbeat.age() <= age, "{:?}", heartbeat.age());
            sleep(Duration::from_millis(100)).await;
        }
    };
    let (ended, ()) = tokio::join!(relay.run(tokio::time::sleep_until(end)), watching);
    ended.expect("nothing is wrong with the store");
    sleep(HOUR).await;
    assert!(!heartbeat.is_late(), "a loop that ended as it was told is not waited for");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_never_answers_does_not_stop_the_loop() {
    let mute = answering(|_| Box::pin(stream::pending()));
    let store = store_with(&["a", "b"]).await;
    never_older(Relay::new(Arc::new(store)).lane(lane(mute).lease(LEASE)), LEASE).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_does_not_stop_the_loop() {
    for hangs in [acquire_hangs, claim_hangs, settle_hangs] {
        let store = Arc::new(Hanging::on(store_with(&["a", "b"]).await));
        hangs(&store).store(true, Ordering::SeqCst);
        // It waits for its lease, and then a little before it asks again.
        let longest = LEASE + Duration::from_secs(6);
        never_older(Relay::new(store).lane(lane(answering(yes)).lease(LEASE)), longest).await;
    }
}

/// A target that holds on to the thread until it is let go: the loop's heartbeat stops meanwhile, and goes on after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_the_thread_stops_the_loop() {
    let (let_go, held) = mpsc::channel::<()>();
    let (held, (here, arrived)) = (Mutex::new(held), oneshot::channel());
    let here = Mutex::new(Some(here));
    let holding = answering(move |burst| {
        if let Some(here) = here.lock().expect("nobody panics").take() {
            let _ = here.send(());
            let _ = held.lock().expect("nobody panics").recv();
        }
        yes(burst)
    });
    let store = store_with(&["a"]).await;
    let relay = Relay::new(Arc::new(store)).lane(lane(holding).lease(Duration::from_millis(200)));
    let patience = Duration::from_secs(1);
    let heartbeat = relay.heartbeats().remove(0).patience(patience);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut relaying = JoinSet::new();
    relaying.spawn(relay.run(async { drop(stopped.await) }));
    let deadline = Duration::from_secs(30);
    timeout(deadline, arrived).await.expect("it is sent").expect("the target is there");
    let until = async |is_late: bool| {
        while heartbeat.is_late() != is_late {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(deadline, until(true)).await.expect("a loop that does not turn is late");
    let_go.send(()).expect("the target waits");
    timeout(deadline, until(false)).await.expect("it turns again");
    drop(stop);
    let ended = timeout(deadline, relaying.join_next()).await.expect("it ends").expect("there is one");
    ended.expect("no panic").expect("no error");
}
