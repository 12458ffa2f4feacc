//! A broker that lacks disk takes nothing from publishers, and says so.

use std::sync::Arc;

use posthaste::admin::{LaneState, all_lanes};
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::target::Target;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::rabbitmq_target::stand::{Stand, blocking, event, until};

/// The lane pauses with the reason, no attempt is counted, and it goes on when the alarm is over.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_pauses_the_lane_until_it_is_cleared() {
    let name = "an_alarm_pauses_the_lane_until_it_is_cleared";
    let Some(mut stand) = Stand::private(name, |_| String::new()).await else { return };
    let queue = stand.queue("t", &[]).await;
    let (store, target) = (Arc::new(Memory::new()), stand.open(""));
    let lane = Lane::named("main").unwrap().to(Arc::new(target.clone()));
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane.retry(Backoff::default().attempts(1)));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(relay.run(async {
        let _ = stopped.await;
    }));
    store.publish(vec![event("0", "t")]).await.unwrap();
    until("the first is delivered", async || delivered(&store).await == 1).await;

    blocking(|| stand.server().control(&["set_disk_free_limit", "1000000GB"]).unwrap());
    // The broker raises the alarm in its own time, and tells a connection about it when that publishes.
    let mut published = 1;
    until("the lane waits and says why", async || {
        if delivered(&store).await == published {
            store.publish(vec![event(published.to_string(), "t")]).await.unwrap();
            published += 1;
        }
        let lanes = all_lanes(&*store).await.unwrap();
        lanes[0].state == LaneState::Unavailable
            && lanes[0].reason.as_deref().is_some_and(|why| why.contains("blocked"))
    })
    .await;
    let error = target.ping().await.unwrap_err().to_string();
    assert!(error.contains("takes nothing from publishers") && error.contains("disk"), "{error}");
    store.publish((0..50).map(|n| event((published + n).to_string(), "t")).collect()).await.unwrap();
    assert_eq!(delivered(&store).await, published - 1, "nothing passes a broker that takes nothing");
    published += 50;

    blocking(|| stand.server().control(&["set_disk_free_limit", "50MB"]).unwrap());
    until("everything is delivered", async || delivered(&store).await == published).await;
    assert!(target.ping().await.is_ok());
    let _ = stop.send(());
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let mut ids = stand.ids(&queue).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len() as u64, published);
}

async fn delivered(store: &Memory) -> u64 {
    all_lanes(store).await.unwrap().first().map_or(0, |lane| lane.delivered)
}
