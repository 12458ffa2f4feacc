//! Connections that are cut, and connections that nobody answers on.

use std::sync::Arc;

use posthaste::broker::nats::NatsBroker;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::target::{DeliverKind, Target};
use posthaste_testkit::proxy::{Proxy, Weather};

use crate::nats::line::{Relaying, delivered};
use crate::nats::seen::{Running, Seen, consumer, ids, publish};
use crate::nats::stand::{Stand, address, event, send, until};

async fn behind(stand: &Stand, settings: &str) -> (Proxy, NatsBroker) {
    let proxy = Proxy::in_front_of(address(&stand.url)).await.unwrap();
    let broker = stand.open_at(&format!("nats://{}", proxy.address()), settings);
    (proxy, broker)
}

/// Cut again and again while a relay delivers: everything arrives, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_loses_nothing_and_costs_no_attempt() {
    let name = "a_connection_that_is_cut_loses_nothing_and_costs_no_attempt";
    let Some(stand) = Stand::shared(name).await else { return };
    let (proxy, target) = behind(&stand, "").await;
    let store = Arc::new(Memory::new());
    let relaying = Relaying::start(&store, target);
    let mut sent = 0;
    for _ in 0..5 {
        store.publish((sent..sent + 300).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
        sent += 300;
        let before = delivered(&store).await;
        until("something is delivered", async || delivered(&store).await > before).await;
        proxy.cut();
    }
    until("everything is delivered", async || delivered(&store).await == sent).await;
    relaying.stop().await;
    let mut ids: Vec<u64> = stand.ids().await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent);
}

/// Nobody answers any more and nobody hangs up: after the acknowledgement's time the connection is tried, given up, and made
/// anew. What was unacknowledged is unknown, not failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_by_a_late_acknowledgement() {
    let Some(stand) = Stand::shared("a_half_open_connection_is_noticed_by_a_late_acknowledgement").await
    else {
        return;
    };
    let (proxy, target) = behind(&stand, "ack_timeout=1s&connect_timeout=1s").await;
    until("the target is there", async || send(&target, vec![event("1", "t")]).await[0].is_ok()).await;
    proxy.set(Weather::HalfOpen);
    let answers = send(&target, vec![event("2", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "connection lost"), "{error}");
    proxy.set(Weather::Fair);
    proxy.cut();
    until("the target is back", async || target.ping().await.is_ok()).await;
    // The cut may still be on its way.
    until("the event is taken", async || send(&target, vec![event("2", "t")]).await[0].is_ok()).await;
}

/// The consumer's connection is cut, and later goes mute without a word: both are noticed, and everything comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_s_connection_that_is_cut_or_goes_mute_is_made_anew() {
    let Some(stand) = Stand::shared("a_consumer_s_connection_that_is_cut_or_goes_mute").await else { return };
    let (proxy, broker) = behind(&stand, "ping=1s&connect_timeout=1s").await;
    let (direct, seen) = (stand.open(""), Seen::default());
    let running = Running::start(consumer(&stand.name, &seen), &broker).await;
    publish(&direct, &ids("before", 5)).await;
    seen.has(&ids("before", 5)).await;
    proxy.cut();
    publish(&direct, &ids("cut", 5)).await;
    seen.has(&ids("cut", 5)).await;
    proxy.set(Weather::HalfOpen);
    publish(&direct, &ids("mute", 5)).await;
    // Nobody hangs up: connections that were mute stay so, and only a new one hears anything.
    proxy.set(Weather::Fair);
    seen.has(&ids("mute", 5)).await;
    running.stop().await;
}
