//! A relay in front of the target.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use posthaste::admin::all_lanes;
use posthaste::broker::nats::NatsBroker;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream, Result};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::nats::stand::{Stand, event};

/// A relay that runs until it is stopped, for which an event that fails once is dead.
pub(crate) struct Relaying {
    stop: oneshot::Sender<()>,
    task: JoinSet<Result<()>>,
}

impl Relaying {
    pub(crate) fn start(store: &Arc<Memory>, target: NatsBroker) -> Self {
        let lane = Lane::named("main").unwrap().to(Arc::new(target)).retry(Backoff::default().attempts(1));
        let relay = Relay::new(Arc::clone(store) as _).lane(lane);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut task = JoinSet::new();
        task.spawn(async move { relay.run(async { drop(stopped.await) }).await.map(drop) });
        Self { stop, task }
    }

    pub(crate) async fn stop(mut self) {
        let _ = self.stop.send(());
        self.task.join_next().await.unwrap().unwrap().unwrap();
    }
}

pub(crate) async fn delivered(store: &Memory) -> u64 {
    all_lanes(store).await.unwrap().first().map_or(0, |lane| lane.delivered)
}

/// Looks over the target's shoulder: which keys are unanswered at any moment.
struct Watched<T> {
    target: T,
    out: Arc<Mutex<(BTreeSet<String>, usize)>>,
}

impl<T: Target> Target for Watched<T> {
    fn capabilities(&self) -> &Capabilities {
        self.target.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let keys: Vec<String> = burst.iter().map(|parcel| parcel.envelope.key.clone().unwrap()).collect();
        let mut out = self.out.lock().unwrap();
        for key in &keys {
            assert!(out.0.insert(key.clone()), "two events of {key} are unacknowledged");
        }
        out.1 = out.1.max(out.0.len());
        let out = Arc::clone(&self.out);
        Box::pin(self.target.deliver(burst).inspect(move |answer| {
            out.lock().unwrap().0.remove(&keys[answer.index]);
        }))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.target.ping()
    }
}

/// Every key's events are in the stream in the order in which they were published, and no key ever had two unacknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn no_key_has_two_events_unacknowledged_and_its_order_holds() {
    let Some(stand) = Stand::shared("no_key_has_two_events_unacknowledged_and_its_order_holds").await else {
        return;
    };
    let store = Arc::new(Memory::new());
    let events = (0..2_000_u32).map(|n| {
        let mut event = event(format!("{n:06}"), "t");
        event.key = Some(format!("k{}", n % 97));
        event
    });
    store.publish(events.collect()).await.unwrap();
    let out = Arc::default();
    let target = Watched { target: stand.open(""), out: Arc::clone(&out) };
    let relay = Relay::new(store).lane(Lane::named("main").unwrap().to(Arc::new(target)));
    assert_eq!(relay.once().await.unwrap().delivered, 2_000);
    let most = out.lock().unwrap().1;
    assert!(most > 20, "keys pass each other: at most {most} were unacknowledged at once");
    let ids: Vec<u32> = stand.ids().await.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 2_000);
    for key in 0..97 {
        assert!(ids.iter().filter(|n| *n % 97 == key).is_sorted(), "key {key}");
    }
}
