//! A server that is killed under a relay.

use std::sync::Arc;

use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::kafka::stand::{Stand, blocking, event, until};

/// Killed twice while a relay delivers: everything is there, in the order of its key, and no attempt was counted, for an event
/// that fails once is dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_loses_nothing_and_costs_no_attempt() {
    let name = "a_server_that_is_killed_loses_nothing_and_costs_no_attempt";
    let Some(mut stand) = Stand::private(name, |settings| settings) else { return };
    stand.make("t", &[]).await;
    let store = Arc::new(Memory::new());
    let target = Arc::new(stand.open("ack_timeout=2s&connect_timeout=2s"));
    let lane = Lane::named("main").unwrap().to(target).retry(Backoff::default().attempts(1));
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(async move { relay.run(async { drop(stopped.await) }).await.map(drop) });
    let delivered = async || all_lanes(&*store).await.unwrap().first().map_or(0, |lane| lane.delivered);
    let mut sent = 0;
    for _ in 0..2 {
        publish(&store, &mut sent).await;
        until("something is delivered", async || delivered().await > sent - 1_000).await;
        blocking(|| stand.server().kill().unwrap());
        publish(&store, &mut sent).await;
        blocking(|| stand.server().start().unwrap());
    }
    until("everything is delivered", async || delivered().await == sent).await;
    let _ = stop.send(());
    running.join_next().await.unwrap().unwrap().unwrap();
    // What is sent again may be there twice; the first ones count.
    let mut firsts: Vec<u64> = Vec::new();
    for id in stand.ids("t") {
        let id = id.parse().unwrap();
        if !firsts.contains(&id) {
            firsts.push(id);
        }
    }
    assert_eq!(firsts.len() as u64, sent);
    for key in 0..50 {
        assert!(firsts.iter().filter(|n| *n % 50 == key).is_sorted(), "key {key}");
    }
}

async fn publish(store: &Memory, sent: &mut u64) {
    let events = (*sent..*sent + 1_000).map(|n| {
        let mut event = event(n.to_string(), "t");
        event.key = Some((n % 50).to_string());
        event
    });
    store.publish(events.collect()).await.unwrap();
    *sent += 1_000;
}
