//! Lanes to several brokers from one log.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste_testkit::harness::Settings;
use posthaste_testkit::proxy::{Proxy, Weather};
use posthaste_testkit::wait::eventually;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::nats::stand::event;

/// How long the other lanes may take, which is far less than whoever waits for the mute broker waits.
const WITHIN: Duration = Duration::from_secs(60);
const MUTE_FOR: &str = "300s";
const EVENTS: u64 = 100;

#[derive(Clone, Copy)]
struct Broker {
    /// Also of its lane.
    name: &'static str,
    variable: &'static str,
    /// What to write in its URL for events of this name.
    settings: fn(name: &str) -> String,
}

/// In a place of its own: it may be missing, and is told of a proxy when it starts.
const KAFKA: Broker = Broker {
    name: "kafka",
    variable: "POSTHASTE_TEST_KAFKA",
    settings: |name| {
        format!("prefix={name}.&create_topics=1&ack_timeout={MUTE_FOR}&connect_timeout={MUTE_FOR}")
    },
};

const BROKERS: [Broker; 3] = [
    Broker {
        name: "rabbitmq",
        variable: "POSTHASTE_TEST_RABBITMQ",
        settings: |name| format!("exchange={name}&confirm_timeout={MUTE_FOR}&connect_timeout={MUTE_FOR}"),
    },
    Broker {
        name: "nats",
        variable: "POSTHASTE_TEST_NATS",
        settings: |name| {
            format!(
                "prefix={name}&stream={name}&create_stream=true&ack_timeout={MUTE_FOR}&connect_timeout={MUTE_FOR}"
            )
        },
    },
    Broker {
        name: "redis",
        variable: "POSTHASTE_TEST_REDIS",
        settings: |name| format!("prefix={name}:&answer_timeout={MUTE_FOR}&connect_timeout={MUTE_FOR}"),
    },
];

/// Each broker in turn takes everything and says nothing, for so long that nobody could wait for it: the other lanes deliver
/// what is published meanwhile. When it speaks again its lane has missed nothing, and no attempt was counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_answer_delays_no_lane_but_its_own() {
    let trial = "a_broker_that_does_not_answer_delays_no_lane_but_its_own";
    let Some(servers) = servers(trial) else { return };
    let name = format!("t-{}", posthaste::envelope::fresh_id());
    let rabbitmq = Connection::connect(&servers[0], ConnectionProperties::default()).await.unwrap();
    make_queue(&rabbitmq, &name).await;
    let store = Arc::new(Memory::new());
    let (mut relay, mut proxies) = (Relay::new(Arc::clone(&store) as _), Vec::new());
    let kafka = crate::kafka::behind::behind(&format!("{trial} with Kafka"));
    let mut brokers = Vec::new();
    for (broker, server) in BROKERS.into_iter().zip(&servers) {
        let (proxy, url) = behind(server).await;
        brokers.push((broker, url));
        proxies.push(proxy);
    }
    // Its server ends with the test.
    let _server = kafka.map(|(stand, proxy)| {
        brokers.push((KAFKA, stand.url.clone()));
        proxies.push(proxy);
        stand
    });
    for (broker, url) in &brokers {
        let target = posthaste::target::open(&format!("{url}?{}", (broker.settings)(&name))).unwrap();
        relay =
            relay.lane(Lane::named(broker.name).unwrap().to(target).retry(Backoff::default().attempts(1)));
    }
    let brokers: Vec<Broker> = brokers.into_iter().map(|(broker, _)| broker).collect();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut task = JoinSet::new();
    task.spawn(async move { relay.run(async { drop(stopped.await) }).await.map(drop) });

    let mut sent = publish(&store, 0).await;
    for broker in brokers.iter().copied() {
        until_delivered(&store, broker, sent).await;
    }
    for (mute, proxy) in brokers.iter().zip(&proxies) {
        proxy.set(Weather::Stall);
        let before = sent;
        sent = publish(&store, before).await;
        for other in brokers.iter().filter(|other| other.name != mute.name) {
            until_delivered(&store, *other, sent).await;
        }
        assert_eq!(delivered(&store, *mute).await, before, "nobody knows what {} did", mute.name);
        proxy.set(Weather::Fair);
        until_delivered(&store, *mute, sent).await;
    }
    let lanes = all_lanes(&*store).await.unwrap();
    assert!(lanes.iter().all(|lane| lane.dead == 0), "with one attempt each, nothing has failed: {lanes:?}");
    stop.send(()).unwrap();
    task.join_next().await.unwrap().unwrap().unwrap();
    remove(&rabbitmq, &servers, &name).await;
}

/// The URLs of all servers; `None`, said on stderr, where one is missing.
fn servers(trial: &str) -> Option<Vec<String>> {
    let url = |broker: &Broker| {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests learn from the environment where their servers are"
        )]
        let url = std::env::var(broker.variable).ok();
        if url.is_none() {
            assert!(!Settings::from_env().all_required, "{trial} needs {}", broker.variable);
            eprintln!("skipped: {trial}: {} is not set", broker.variable);
        }
        url
    };
    BROKERS.iter().map(url).collect()
}

/// A proxy in front of the server, and the URL that leads through it.
async fn behind(url: &str) -> (Proxy, String) {
    let rest = url.split_once("://").unwrap().1;
    let address = rest.rsplit('@').next().unwrap().split('/').next().unwrap();
    let proxy = Proxy::in_front_of(address.parse().unwrap()).await.unwrap();
    let url = url.replace(address, &proxy.address().to_string());
    (proxy, url)
}

/// Publishes some more; answers how many there are.
async fn publish(store: &Memory, before: u64) -> u64 {
    let sent = before + EVENTS;
    store.publish((before..sent).map(|number| event(number.to_string(), "t")).collect()).await.unwrap();
    sent
}

async fn delivered(store: &Memory, broker: Broker) -> u64 {
    let lanes = all_lanes(store).await.unwrap();
    lanes.iter().find(|lane| lane.lane.as_str() == broker.name).map_or(0, |lane| lane.delivered)
}

async fn until_delivered(store: &Memory, broker: Broker, sent: u64) {
    let what = format!("everything is delivered to {}", broker.name);
    eventually(WITHIN, &what, async || delivered(store, broker).await == sent).await.unwrap();
}

async fn make_queue(connection: &Connection, name: &str) {
    let channel = connection.create_channel().await.unwrap();
    let (exchange, queue) =
        (ExchangeDeclareOptions::default(), QueueDeclareOptions { durable: true, ..Default::default() });
    let nothing = FieldTable::default;
    channel.exchange_declare(name.into(), ExchangeKind::Topic, exchange, nothing()).await.unwrap();
    channel.queue_declare(name.into(), queue, nothing()).await.unwrap();
    let bound = QueueBindOptions::default();
    channel.queue_bind(name.into(), name.into(), "#".into(), bound, nothing()).await.unwrap();
}

async fn remove(rabbitmq: &Connection, servers: &[String], name: &str) {
    let channel = rabbitmq.create_channel().await.unwrap();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await.unwrap();
    let nats = async_nats::connect(servers[1].as_str()).await.unwrap();
    async_nats::jetstream::new(nats).delete_stream(name).await.unwrap();
    let redis = redis::Client::open(servers[2].as_str()).unwrap();
    let mut redis = redis.get_multiplexed_async_connection().await.unwrap();
    let _: u64 = redis::cmd("DEL").arg(format!("{name}:t")).query_async(&mut redis).await.unwrap();
}
