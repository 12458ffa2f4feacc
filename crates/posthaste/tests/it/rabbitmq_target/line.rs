//! A relay in front of the target.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use posthaste::admin::{LaneState, LaneStats, all_lanes};
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream, Result};

use crate::rabbitmq_target::stand::{Stand, event, until};

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
            assert!(out.0.insert(key.clone()), "two events of {key} are unconfirmed");
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

/// Every key's events are in the queue in the order in which they were published, and no key ever had two unconfirmed.
#[tokio::test(flavor = "multi_thread")]
async fn no_key_has_two_events_unconfirmed_and_its_order_holds() {
    let Some(stand) = Stand::shared("no_key_has_two_events_unconfirmed_and_its_order_holds").await else {
        return;
    };
    let queue = stand.queue("t", &[]).await;
    let store = Arc::new(Memory::new());
    let events = (0..3_000_u32).map(|n| {
        let mut event = event(format!("{n:06}"), "t");
        event.key = Some(format!("k{}", n % 97));
        event
    });
    store.publish(events.collect()).await.unwrap();
    let out = Arc::default();
    let target = Watched { target: stand.open(""), out: Arc::clone(&out) };
    let relay = Relay::new(store).lane(Lane::named("main").unwrap().to(Arc::new(target)));
    assert_eq!(relay.once().await.unwrap().delivered, 3_000);
    let most = out.lock().unwrap().1;
    assert!(most > 20, "keys pass each other: at most {most} were unconfirmed at once");
    let ids: Vec<u32> = stand.ids(&queue).await.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 3_000);
    for key in 0..97 {
        assert!(ids.iter().filter(|n| *n % 97 == key).is_sorted(), "key {key}");
    }
    stand.clear(&queue).await;
}

/// The exchange comes back without a queue behind it: no event is acknowledged, and the lane says all the
/// same that it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_goes_on_when_its_exchange_is_there_though_no_queue_takes_its_events() {
    let trial = "a_lane_goes_on_when_its_exchange_is_there_though_no_queue_takes_its_events";
    let Some(stand) = Stand::shared(trial).await else { return };
    stand.channel.exchange_delete(stand.name.as_str().into(), Default::default()).await.unwrap();
    let store = Arc::new(Memory::new());
    store.publish((0..6).map(|n| event(n.to_string(), "nowhere")).collect()).await.unwrap();
    let target = Arc::new(stand.open("unrouted=dead"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relay = Relay::new(store.clone()).lane(Lane::named("main").unwrap().to(target));
    let watched = async {
        let is = async |wanted: &dyn Fn(&LaneStats) -> bool| {
            all_lanes(&*store).await.unwrap().first().is_some_and(wanted)
        };
        until("the lane waits for the exchange", async || {
            is(&|lane| lane.state == LaneState::Unavailable).await
        })
        .await;
        stand.declare_exchange().await;
        until("every event is dead", async || is(&|lane| lane.dead == 6).await).await;
        until("the lane goes on", async || {
            is(&|lane| lane.state == LaneState::Active && lane.reason.is_none()).await
        })
        .await;
        stop.send(()).unwrap();
    };
    let (relayed, ()) = tokio::join!(relay.run(async { stopped.await.unwrap_or_default() }), watched);
    relayed.unwrap();
    stand.clear("").await;
}
