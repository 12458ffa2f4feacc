//! A bed in RabbitMQ to measure in: an exchange and a queue of the bench's own, gone at its end; and the raw limit there,
//! the bare client with pipelined confirms.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind, PublisherConfirm,
};
use tokio::time::Instant;

use super::QueueType;
use super::figures::Round;
use crate::exit::{Code, Failure};

/// What the raw side keeps unconfirmed, and how much of it is handed over at once: the best of what was tried.
const WINDOW: usize = 1_000;
const BURST: usize = 200;
const PERSISTENT: u8 = 2;

/// Whether a target's URL is for RabbitMQ.
pub(super) fn is_url(url: &str) -> bool {
    url.starts_with("amqp:") || url.starts_with("amqps:")
}

/// An exchange and a queue that takes everything from it.
pub(super) struct Bed {
    _connection: Connection,
    channel: Channel,
    name: String,
    url: String,
}

impl Bed {
    /// Makes it; for the raw side over a connection of the bare client.
    pub(super) async fn make(url: &str, queue: QueueType) -> Result<Self, Failure> {
        // The settings in the URL are ours, and the client would not know them.
        let (address, settings) = url.split_once('?').unwrap_or((url, ""));
        let connected = Connection::connect(address, ConnectionProperties::default()).await;
        let connection = connected.map_err(failed("connect to the broker"))?;
        let channel = connection.create_channel().await.map_err(failed("open a channel"))?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed("turn confirms on"))?;
        let name = format!("posthaste-bench-{:08x}", fastrand::u32(..));
        let url = format!("{address}?{settings}&exchange={name}");
        let bed = Self { _connection: connection, channel, name, url };
        bed.declare(queue).await.map_err(failed("make an exchange and a queue"))?;
        Ok(bed)
    }

    async fn declare(&self, queue: QueueType) -> lapin::Result<()> {
        let name = || self.name.as_str().into();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(name(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(queue.name().into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name(), durable, arguments).await?;
        let options = QueueBindOptions::default();
        self.channel.queue_bind(name(), name(), "#".into(), options, FieldTable::default()).await
    }

    /// Where a target finds the exchange.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether the target adds nothing to a payload but properties.
    pub(super) fn is_bare(&self) -> bool {
        self.url.split(['?', '&']).any(|setting| setting == "format=raw")
    }

    /// Empties the queue, so that every round begins alike.
    pub(super) async fn empty(&self) -> Result<(), Failure> {
        let purged = self.channel.queue_purge(self.name.as_str().into(), QueuePurgeOptions::default()).await;
        purged.map(drop).map_err(failed("empty the queue"))
    }

    /// Takes everything away again.
    pub(super) async fn remove(self) -> Result<(), Failure> {
        let name = || self.name.as_str().into();
        let removed = async {
            self.channel.queue_delete(name(), Default::default()).await?;
            self.channel.exchange_delete(name(), Default::default()).await
        };
        removed.await.map_err(failed("remove the exchange and the queue"))
    }

    /// The bare client publishes, persistent, in bursts, with a window of confirms: messages that are a payload and nothing
    /// else.
    pub(super) async fn raw_round(&self, events: u64, size: usize) -> Result<Round, Failure> {
        self.round("raw", events, size, false, |_| BasicProperties::default().with_delivery_mode(PERSISTENT))
            .await
    }

    /// The same with messages as the target sends them: `mandatory`, and with the attributes of CloudEvents, which the broker
    /// has to read for every message.
    pub(super) async fn same_round(&self, events: u64, size: usize) -> Result<Round, Failure> {
        self.round("same", events, size, true, dressed).await
    }

    async fn round(
        &self,
        side: &'static str,
        events: u64,
        size: usize,
        mandatory: bool,
        properties: impl Fn(u64) -> BasicProperties,
    ) -> Result<Round, Failure> {
        let payload = vec![b'x'; size];
        let start = Instant::now();
        let published = self.publish(events, &payload, mandatory, properties).await;
        let took = start.elapsed();
        published.map_err(failed("publish"))?;
        self.empty().await?;
        Ok(Round { side, events, took })
    }

    async fn publish(
        &self,
        events: u64,
        payload: &[u8],
        mandatory: bool,
        properties: impl Fn(u64) -> BasicProperties,
    ) -> lapin::Result<()> {
        let options = BasicPublishOptions { mandatory, immediate: false };
        let mut unconfirmed: VecDeque<PublisherConfirm> = VecDeque::with_capacity(WINDOW);
        let mut left = events;
        while left > 0 {
            let burst = left.min(BURST as u64);
            while unconfirmed.len() + burst as usize > WINDOW {
                confirmed(unconfirmed.pop_front()).await?;
            }
            let publishing = (0..burst).map(|number| {
                let (exchange, topic) = (self.name.as_str().into(), "bench.event".into());
                self.channel.basic_publish(exchange, topic, options, payload, properties(left - number))
            });
            unconfirmed.extend(try_join_all(publishing).await?);
            left -= burst;
        }
        while !unconfirmed.is_empty() {
            confirmed(unconfirmed.pop_front()).await?;
        }
        Ok(())
    }
}

/// The properties of an event of the bench, as the target makes them.
fn dressed(number: u64) -> BasicProperties {
    let id = posthaste::envelope::fresh_id();
    let mut headers = FieldTable::default();
    let attributes = [
        ("cloudEvents_specversion", "1.0"),
        ("cloudEvents_id", &id),
        ("cloudEvents_source", "/posthaste/bench"),
        ("cloudEvents_type", "bench.event"),
        ("cloudEvents_time", "1970-01-01T00:00:00Z"),
        ("cloudEvents_partitionkey", &format!("key-{}", number % 1_000)),
    ];
    for (name, value) in attributes {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    BasicProperties::default()
        .with_message_id(id.into())
        .with_type("bench.event".into())
        .with_content_type("application/octet-stream".into())
        .with_timestamp(0)
        .with_app_id("posthaste".into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}

async fn confirmed(confirm: Option<PublisherConfirm>) -> lapin::Result<()> {
    let Some(confirm) = confirm else { return Ok(()) };
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(std::io::Error::other(format!("an event was not taken: {other:?}")).into()),
    }
}

fn failed(doing: &'static str) -> impl FnOnce(lapin::Error) -> Failure {
    move |error| {
        Failure::new(Code::Target, format!("{doing}: {}", posthaste::redact::clean(&error.to_string())))
    }
}
