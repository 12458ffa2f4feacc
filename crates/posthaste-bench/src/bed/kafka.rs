//! Kafka: a topic, and the bare client with as much in its queue as a lane may have on its way.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::BoxFuture;
use posthaste_terminal::exit::{Code, Failure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde_json::Value;
use tokio::time::Instant;

use super::{Bed, Load, Message, halves, name};

/// The topic of the bench's events.
const TOPIC: &str = "bench.event";
const PARTITIONS: i32 = 6;
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const FLUSHED_WITHIN: Duration = Duration::from_secs(120);
/// How long to hear reports when enough is on its way.
const HEAR: Duration = Duration::from_millis(5);
/// So many of them are waited for then, or the client would be asked about each.
const HEARD: usize = 50;

/// A topic of the bench's own.
pub(super) struct Topic {
    config: ClientConfig,
    name: String,
    url: String,
}

/// Counts reports.
#[derive(Default)]
struct Counting {
    acknowledged: AtomicU64,
}

impl ClientContext for Counting {}

impl ProducerContext for Counting {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, (): ()) {
        if report.is_ok() {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Topic {
    /// Makes it; the raw side has a client of its own in every round.
    pub(super) async fn make(url: &str) -> Result<Self, Failure> {
        let (address, settings) = halves(url);
        let hosts = address.strip_prefix("kafka://").unwrap_or(address).trim_end_matches('/');
        if hosts.contains('@') {
            return Err(Failure::usage("the bench measures in a Kafka that asks for no password"));
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", hosts);
        let prefix = format!("{}.", name());
        let name = format!("{prefix}{TOPIC}");
        let admin = admin(&config)?;
        let topic = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(-1));
        let made = admin.create_topics([&topic], &options()).await.map_err(failed("make a topic"))?;
        if let Some(Err((_, code))) = made.into_iter().next() {
            return Err(failed("make a topic")(code));
        }
        let url = format!("{address}?{settings}&prefix={prefix}");
        config.set("acks", setting(settings, "acks").unwrap_or("all"));
        config.set("enable.idempotence", (config.get("acks") == Some("all")).to_string());
        config.set("compression.type", setting(settings, "compression").unwrap_or("none"));
        if let Some(linger) = setting(settings, "linger").and_then(|linger| linger.strip_suffix("ms")) {
            config.set("linger.ms", linger);
        }
        Ok(Self { config, name, url })
    }
}

/// A setting of the URL.
fn setting<'a>(settings: &'a str, wanted: &str) -> Option<&'a str> {
    let mut pairs = settings.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

fn admin(config: &ClientConfig) -> Result<AdminClient<DefaultClientContext>, Failure> {
    config.create().map_err(failed("make a client of the broker"))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWERED_WITHIN)).operation_timeout(Some(ANSWERED_WITHIN))
}

/// What the target writes on a message beside its key.
fn headers(key: &str) -> OwnedHeaders {
    let id = posthaste::envelope::fresh_id();
    let headers = [
        ("X-Event-ID", id.as_str()),
        ("ce_specversion", "1.0"),
        ("ce_id", &id),
        ("ce_source", "/posthaste/bench"),
        ("ce_type", TOPIC),
        ("ce_time", "1970-01-01T00:00:00Z"),
        ("ce_partitionkey", key),
        ("content-type", "application/octet-stream"),
    ];
    let put = |all: OwnedHeaders, (key, value): (&str, &str)| all.insert(Header { key, value: Some(value) });
    headers.into_iter().fold(OwnedHeaders::new_with_capacity(8), put)
}

/// Hears reports until there is room in the window again.
fn hear(producer: &BaseProducer<Counting>, window: usize) {
    let on_its_way = || usize::try_from(producer.in_flight_count()).unwrap_or(0);
    if on_its_way() >= window {
        while on_its_way() + HEARD.min(window) > window {
            producer.poll(HEAR);
        }
    }
}

/// Hands everything to the client as fast as the window and its queue allow, and waits for all reports.
fn publish_all(
    config: &ClientConfig,
    topic: &str,
    message: Message,
    load: Load,
) -> Result<Duration, Failure> {
    let producer: BaseProducer<Counting> =
        config.create_with_context(Counting::default()).map_err(failed("make a client of the broker"))?;
    // What the client must know before it can send is no part of the figure.
    producer.client().fetch_metadata(Some(topic), ANSWERED_WITHIN).map_err(failed("look for the topic"))?;
    let Load { events, size, window } = load;
    let payload = vec![b'x'; size];
    let start = Instant::now();
    for number in 0..events {
        hear(&producer, window);
        // Also without a header: a key decides the partition, and without one the client fills one partition after another.
        let key = format!("key-{}", number % 1_000);
        let mut record = BaseRecord::to(topic).payload(&payload).key(&key);
        if message == Message::Same {
            record = record.headers(headers(&key));
        }
        while let Err((error, refused)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(failed("publish")(error));
            }
            producer.poll(HEAR);
            record = refused;
        }
    }
    producer.flush(FLUSHED_WITHIN).map_err(failed("publish"))?;
    let took = start.elapsed();
    match producer.client().context().acknowledged.load(Ordering::Relaxed) {
        all if all == events => Ok(took),
        some => Err(failed("publish")(format!("{some} of {events} were acknowledged"))),
    }
}

impl Bed for Topic {
    fn url(&self) -> &str {
        &self.url
    }

    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            let mut all = TopicPartitionList::new();
            for partition in 0..PARTITIONS {
                all.add_partition_offset(&self.name, partition, Offset::End)
                    .map_err(failed("empty the topic"))?;
            }
            let emptied = admin(&self.config)?.delete_records(&all, &options()).await;
            emptied.map(drop).map_err(failed("empty the topic"))
        })
    }

    fn publish(&self, message: Message, load: Load) -> BoxFuture<'_, Result<Duration, Failure>> {
        let (config, topic) = (self.config.clone(), self.name.clone());
        Box::pin(async move {
            let publishing = tokio::task::spawn_blocking(move || publish_all(&config, &topic, message, load));
            publishing.await.map_err(failed("publish"))?
        })
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move {
            let removed = admin(&self.config)?.delete_topics(&[&self.name], &options()).await;
            removed.map(drop).map_err(failed("remove the topic"))
        })
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        vec![("kafka_partitions", Value::from(PARTITIONS))]
    }
}

fn failed<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(Code::Target, format!("{doing}: {}", posthaste::redact::clean(&error.to_string())))
    }
}
