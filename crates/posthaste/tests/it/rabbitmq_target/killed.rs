//! The broker is killed while events are delivered.

use std::sync::Arc;

use lapin::types::AMQPValue;
use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::rabbitmq_target::stand::{Stand, blocking, event, until};

/// SIGKILL under load, twice: what was confirmed is there afterwards, what was not is sent again, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_and_restarted_loses_nothing() {
    let name = "a_broker_that_is_killed_and_restarted_loses_nothing";
    let Some(mut stand) = Stand::private(name, |_| String::new()).await else { return };
    let queue = stand.queue("t", &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    let store = Arc::new(Memory::new());
    let lane = Lane::named("main").unwrap().to(Arc::new(stand.open("")));
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane.retry(Backoff::default().attempts(1)));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut sent = 0;
    for _ in 0..2 {
        for _ in 0..5 {
            store.publish((sent..sent + 1_000).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
            sent += 1_000;
        }
        let before = delivered(&store).await;
        // Not with the very first of them: killed within a second after it was declared, a quorum queue of RabbitMQ 3.10 was seen
        // without a leader for more than a minute.
        until("some are delivered", async || delivered(&store).await > before + 2_000).await;
        blocking(|| stand.server().kill().unwrap());
        blocking(|| stand.server().start().unwrap());
    }
    until("everything is delivered", async || delivered(&store).await == sent).await;
    let _ = stop.send(());
    tasks.join_next().await.unwrap().unwrap().unwrap();
    stand.reconnect().await;
    let mut ids: Vec<u64> = stand.ids(&queue).await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent, "every confirmed event is in the queue");
}

async fn delivered(store: &Memory) -> u64 {
    all_lanes(store).await.unwrap().first().map_or(0, |lane| lane.delivered)
}
