//! Connections that are cut, and connections that nobody answers on.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::target::{DeliverKind, Target};
use posthaste_testkit::proxy::{Proxy, Weather};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::rabbitmq_target::stand::{Stand, address, event, send, until};

async fn behind(stand: &Stand, settings: &str) -> (Proxy, posthaste::broker::amqp::AmqpBroker) {
    let proxy = Proxy::in_front_of(address(&stand.url)).await.unwrap();
    let url = stand.url.replace(&address(&stand.url).to_string(), &proxy.address().to_string());
    let url = format!("{url}?exchange={}&{settings}", stand.name);
    (proxy, posthaste::broker::amqp::AmqpBroker::at(&url).unwrap())
}

/// Cut again and again while a relay delivers: everything arrives, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_loses_nothing_and_costs_no_attempt() {
    let name = "a_connection_that_is_cut_loses_nothing_and_costs_no_attempt";
    let Some(stand) = Stand::shared(name).await else { return };
    let queue = stand.queue("t", &[]).await;
    let (proxy, target) = behind(&stand, "").await;
    let store = Arc::new(Memory::new());
    // One attempt: an event that fails is dead.
    let lane = Lane::named("main").unwrap().to(Arc::new(target)).retry(Backoff::default().attempts(1));
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane);
    let mut tasks = JoinSet::new();
    tasks.spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut sent = 0;
    for _ in 0..6 {
        store.publish((sent..sent + 500).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
        sent += 500;
        until("something is delivered", async || delivered(&store).await > 0).await;
        proxy.cut();
    }
    until("everything is delivered", async || delivered(&store).await == sent).await;
    let _ = stop.send(());
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let mut ids: Vec<u64> = stand.ids(&queue).await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent);
    stand.clear(&queue).await;
}

async fn delivered(store: &Memory) -> u64 {
    all_lanes(store).await.unwrap().first().map_or(0, |lane| lane.delivered)
}

/// Nobody answers any more and nobody hangs up: after the confirm's time the connection is tried, given up, and made anew.
/// What was unconfirmed is unknown, not failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_by_a_late_confirm() {
    let Some(stand) = Stand::shared("a_half_open_connection_is_noticed_by_a_late_confirm").await else {
        return;
    };
    let queue = stand.queue("t", &[]).await;
    let (proxy, target) = behind(&stand, "confirm_timeout=300ms&connect_timeout=500ms").await;
    // On a busy machine the first confirm may be late as well.
    until("an event is confirmed", async || send(&target, vec![event("1", "t")]).await[0].is_ok()).await;
    proxy.set(Weather::HalfOpen);
    let answers = send(&target, vec![event("2", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "connection lost"), "{error}");
    assert!(target.ping().await.is_err());
    proxy.set(Weather::Fair);
    proxy.cut();
    until("the target is back", async || send(&target, vec![event("2", "t")]).await[0].is_ok()).await;
    stand.clear(&queue).await;
}

/// A target that nobody delivers to notices by itself that the broker is gone, and that it is back.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_watched() {
    let Some(stand) = Stand::shared("an_idle_connection_is_watched").await else { return };
    let (proxy, target) = behind(&stand, "monitor=100ms&connect_timeout=300ms").await;
    until("it is there", async || target.ping().await.is_ok()).await;
    proxy.set(Weather::HalfOpen);
    let begun = std::time::Instant::now();
    until("it is noticed", async || {
        let pinged = tokio::time::timeout(Duration::from_millis(50), target.ping()).await;
        matches!(pinged, Ok(Err(_)))
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(10), "long before a heartbeat would tell");
    proxy.set(Weather::Fair);
    proxy.cut();
    until("it is back", async || target.ping().await.is_ok()).await;
    stand.clear("").await;
}
