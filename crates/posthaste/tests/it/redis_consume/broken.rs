//! Servers that die, connections that break, streams that vanish: the consumer goes on, and nothing is lost.

use posthaste::broker::redis::RedisBroker;
use posthaste_testkit::proxy::{Proxy, Weather};

use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::redis_target::stand::{Stand, address, blocking, until};

/// The stream is deleted while a consumer reads it: the group is made again, and gets what comes then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_deleted_under_a_consumer_is_made_again() {
    let Some(stand) = Stand::shared("a_stream_that_is_deleted_under_a_consumer").await else { return };
    let (broker, seen) = (stand.open(""), Seen::default());
    let running = Running::start(consumer("g", &seen), &broker).await;
    publish(&broker, &ids("before", 3)).await;
    seen.has(&ids("before", 3)).await;
    let _: i64 = stand.ask(&["DEL", &stand.stream(TOPIC)]).await;
    publish(&broker, &ids("after", 3)).await;
    seen.has(&ids("after", 3)).await;
    running.stop().await;
    stand.clear().await;
}

/// The server is killed and comes back while events are published and consumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_loses_nothing() {
    let Some(mut stand) = Stand::private("a_server_that_is_killed_under_load").await else { return };
    let (broker, seen) = (stand.open("answer_timeout=2s&claim_after=2s"), Seen::default());
    let running = Running::start(consumer("g", &seen), &broker).await;
    let all = ids("e", 300);
    let publishing = publish(&broker, &all);
    let killing = async {
        until("the load has begun", async || seen.ids().len() > 30).await;
        blocking(|| {
            stand.server().kill().unwrap();
            stand.server().start().unwrap();
        });
    };
    tokio::join!(publishing, killing);
    seen.has(&all).await;
    running.stop().await;
}

/// The consumer's connections are cut, and later go mute without a word: both are noticed, and everything comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_or_goes_mute_is_made_anew() {
    let Some(stand) = Stand::shared("a_connection_that_is_cut_or_goes_mute").await else { return };
    let server = address(&stand.url);
    let proxy = Proxy::in_front_of(server).await.unwrap();
    let url = stand.url.replace(&server.to_string(), &proxy.address().to_string());
    let settings = "answer_timeout=500ms&connect_timeout=500ms&claim_after=1s";
    let through = RedisBroker::at(&format!("{url}?prefix={}&{settings}", stand.prefix)).unwrap();
    let (straight, seen) = (stand.open(""), Seen::default());
    let running = Running::start(consumer("g", &seen), &through).await;
    publish(&straight, &ids("a", 5)).await;
    seen.has(&ids("a", 5)).await;
    proxy.cut();
    publish(&straight, &ids("b", 5)).await;
    seen.has(&ids("b", 5)).await;
    proxy.set(Weather::HalfOpen);
    publish(&straight, &ids("c", 5)).await;
    proxy.set(Weather::Fair);
    seen.has(&ids("c", 5)).await;
    running.stop().await;
    stand.clear().await;
}
