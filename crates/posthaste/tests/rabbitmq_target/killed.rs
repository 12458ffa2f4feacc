//! The broker is killed while events are delivered.

use std::sync::Arc;

use lapin::types::AMQPValue;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::schema::Backend;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::stand::{Stand, blocking, event, until};

/// SIGKILL under load, twice: what was confirmed is there afterwards, what was not is sent again, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_and_restarted_loses_nothing() {
    let name = "a_broker_that_is_killed_and_restarted_loses_nothing";
    let Some(mut stand) = Stand::private(name, |_| String::new()).await else { return };
    let queue = stand.queue("t", &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    // The memory backend counts what is unread anew at every look, and a test looks often: it would be the slowest part.
    let folder = tempfile::tempdir().unwrap();
    let store =
        posthaste::store::open(&format!("sqlite://{}", folder.path().join("t.db").display())).await.unwrap();
    let lane = Lane::named("main").unwrap().to(Arc::new(stand.open("")));
    let relay =
        Relay::new(Arc::<dyn Backend>::clone(&store) as _).lane(lane.retry(Backoff::default().attempts(1)));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut sent = 0;
    for _ in 0..2 {
        for _ in 0..10 {
            store.publish((sent..sent + 250).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
            sent += 250;
        }
        let before = delivered(&store).await;
        until("some are delivered", async || delivered(&store).await > before).await;
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

async fn delivered(store: &Arc<dyn Backend>) -> u64 {
    store.lanes().await.unwrap().first().map_or(0, |lane| lane.delivered)
}
