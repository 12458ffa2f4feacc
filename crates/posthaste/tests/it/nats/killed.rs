//! The server is killed while events are delivered and consumed. Where the server can sync every message, it does.

use std::sync::Arc;

use async_nats::jetstream::stream::Config;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;

use crate::nats::line::{Relaying, delivered};
use crate::nats::seen::{Running, Seen, consumer, ids, publish};
use crate::nats::stand::{Stand, blocking, event, until};

/// SIGKILL under load, twice: what was acknowledged is there afterwards, what was not is sent again, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_restarted_loses_nothing() {
    let Some(mut stand) = Stand::private("a_server_that_is_killed_and_restarted_loses_nothing", "").await
    else {
        return;
    };
    stand.make(Config::default()).await;
    let store = Arc::new(Memory::new());
    let relaying = Relaying::start(&store, stand.open(""));
    let mut sent = 0;
    for _ in 0..2 {
        store.publish((sent..sent + 2_000).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
        sent += 2_000;
        let before = delivered(&store).await;
        until("some are delivered", async || delivered(&store).await > before).await;
        blocking(|| stand.server().kill().unwrap());
        blocking(|| stand.server().start().unwrap());
    }
    until("everything is delivered", async || delivered(&store).await == sent).await;
    relaying.stop().await;
    stand.reconnect().await;
    let mut ids: Vec<u64> = stand.ids().await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent, "every acknowledged event is in the stream");
}

/// The server is killed and comes back while events are published and consumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_a_consumer_loses_nothing() {
    let Some(mut stand) = Stand::private("a_server_that_is_killed_under_a_consumer", "").await else {
        return;
    };
    stand.make(Config::default()).await;
    let (broker, seen) = (stand.open("ack_timeout=2s"), Seen::default());
    let running = Running::start(consumer("g", &seen), &broker).await;
    let all = ids("e", 200);
    let publishing = publish(&broker, &all);
    let killing = async {
        until("the load has begun", async || seen.ids().len() > 20).await;
        blocking(|| {
            stand.server().kill().unwrap();
            stand.server().start().unwrap();
        });
    };
    tokio::join!(publishing, killing);
    seen.has(&all).await;
    running.stop().await;
}
