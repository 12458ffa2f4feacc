//! Brokers that die, connections that break, queues that vanish: the consumer goes on, and nothing is lost.

use std::time::Duration;

use posthaste::broker::amqp::AmqpBroker;
use posthaste_testkit::proxy::{Proxy, Weather};

use crate::rabbitmq_consume::seen::{Running, Seen, TOPIC, consumer, ids, publish};
use crate::rabbitmq_target::stand::{Stand, address, blocking, until};

/// The queue is deleted while a consumer reads it: the consumer is not ready, makes it again, and gets what comes then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_under_a_consumer_is_made_again() {
    let Some(stand) = Stand::shared("a_queue_that_is_deleted_under_a_consumer").await else { return };
    let (broker, seen, group) = (stand.open(""), Seen::default(), stand.name.clone());
    let consumer = consumer(&group, &seen);
    let mut readiness = consumer.readiness();
    let running = Running::start(consumer, &broker).await;
    publish(&broker, &ids("before", 3)).await;
    seen.has(&ids("before", 3)).await;
    let (deleted, noticed) = tokio::join!(
        stand.channel.queue_delete(format!("{group}.{TOPIC}").into(), Default::default()),
        tokio::time::timeout(Duration::from_secs(20), readiness.lost()),
    );
    deleted.unwrap();
    noticed.unwrap();
    until("the consumer is ready again", async || readiness.is_ready()).await;
    publish(&broker, &ids("after", 3)).await;
    seen.has(&ids("after", 3)).await;
    running.stop().await;
}

/// The broker is killed and comes back while events are published and consumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_under_load_loses_nothing() {
    let Some(mut stand) = Stand::private("a_broker_that_is_killed_under_load", |_| String::new()).await
    else {
        return;
    };
    let (broker, seen) = (stand.open("confirm_timeout=2s"), Seen::default());
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

/// The consumer's connection is cut, and later goes mute without a word: both are noticed, and everything comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_or_goes_mute_is_made_anew() {
    let Some(stand) = Stand::shared("a_connection_that_is_cut_or_goes_mute").await else { return };
    let proxy = Proxy::in_front_of(address(&stand.url)).await.unwrap();
    let url = stand.url.replace(&address(&stand.url).to_string(), &proxy.address().to_string());
    let settings = "heartbeat=1s&connect_timeout=1s&monitor=500ms";
    let through = AmqpBroker::at(&format!("{url}?exchange={}&{settings}", stand.name)).unwrap();
    let (straight, seen, group) = (stand.open(""), Seen::default(), stand.name.clone());
    let running = Running::start(consumer(&group, &seen), &through).await;
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
}
