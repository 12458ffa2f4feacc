//! Connections that are cut, and connections that nobody answers on.

use std::sync::Arc;

use posthaste::admin::all_lanes;
use posthaste::broker::redis::RedisBroker;
use posthaste::envelope::Envelope;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::target::{DeliverKind, Target};
use posthaste_testkit::proxy::{Proxy, Weather};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::redis_target::stand::{Stand, address, event, send, until};

/// A relay that runs until it is stopped. Every event has one attempt: one that fails is dead.
pub(crate) struct Relaying {
    pub(crate) store: Arc<Memory>,
    stop: oneshot::Sender<()>,
    tasks: JoinSet<posthaste::Result<()>>,
}

impl Relaying {
    pub(crate) async fn start(target: impl Target + 'static) -> Self {
        let store = Arc::new(Memory::new());
        let lane = Lane::named("main").unwrap().to(Arc::new(target)).retry(Backoff::default().attempts(1));
        let relay = Relay::new(Arc::clone(&store) as _).lane(lane);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(async { drop(stopped.await) }));
        Self { store, stop, tasks }
    }

    pub(crate) async fn publish(&self, events: impl Iterator<Item = Envelope>) {
        let events: Vec<Envelope> = events.collect();
        for some in events.chunks(1_000) {
            self.store.publish(some.to_vec()).await.unwrap();
        }
    }

    pub(crate) async fn delivered(&self) -> u64 {
        all_lanes(&*self.store).await.unwrap().first().map_or(0, |lane| lane.delivered)
    }

    pub(crate) async fn stop(mut self) {
        let _ = self.stop.send(());
        self.tasks.join_next().await.unwrap().unwrap().unwrap();
    }
}

async fn behind(stand: &Stand, settings: &str) -> (Proxy, RedisBroker) {
    let server = address(&stand.url);
    let proxy = Proxy::in_front_of(server).await.unwrap();
    let url = stand.url.replace(&server.to_string(), &proxy.address().to_string());
    (proxy, RedisBroker::at(&format!("{url}?prefix={}&{settings}", stand.prefix)).unwrap())
}

/// Cut again and again while a relay delivers: everything arrives, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_loses_nothing_and_costs_no_attempt() {
    let name = "a_connection_that_is_cut_loses_nothing_and_costs_no_attempt";
    let Some(stand) = Stand::shared(name).await else { return };
    let (proxy, target) = behind(&stand, "").await;
    let relaying = Relaying::start(target).await;
    let mut sent = 0;
    for _ in 0..6 {
        relaying.publish((sent..sent + 500).map(|n| event(n.to_string(), "t"))).await;
        sent += 500;
        until("something is delivered", async || relaying.delivered().await > 0).await;
        proxy.cut();
    }
    until("everything is delivered", async || relaying.delivered().await == sent).await;
    relaying.stop().await;
    let mut ids: Vec<u64> = stand.ids("t").await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent);
    stand.clear().await;
}

/// Nobody answers any more and nobody hangs up: after the answer's time the connection is given up and made anew. What was
/// unanswered is unknown, not failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_by_a_late_answer() {
    let Some(stand) = Stand::shared("a_half_open_connection_is_noticed_by_a_late_answer").await else {
        return;
    };
    let (proxy, target) = behind(&stand, "answer_timeout=300ms&connect_timeout=500ms").await;
    until("the target is there", async || send(&target, vec![event("1", "t")]).await[0].is_ok()).await;
    proxy.set(Weather::HalfOpen);
    let answers = send(&target, vec![event("2", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "connection lost"), "{error}");
    assert!(target.ping().await.is_err());
    proxy.set(Weather::Fair);
    proxy.cut();
    until("the target is back", async || send(&target, vec![event("2", "t")]).await[0].is_ok()).await;
    stand.clear().await;
}
