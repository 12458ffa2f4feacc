//! RabbitMQ: an exchange and a queue, and the bare client with pipelined confirms.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::try_join_all;
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind, PublisherConfirm,
};
use posthaste::BoxFuture;
use posthaste_terminal::exit::{Code, Failure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::QueueType;
use super::{Bed, Load, Message, halves, name};

/// How much of the window is handed over at once: the best of what was tried.
const BURST: usize = 200;
const PERSISTENT: u8 = 2;

/// An exchange and a queue that takes everything from it.
pub(super) struct Queue {
    _connection: Connection,
    channel: Channel,
    name: String,
    url: String,
    kind: QueueType,
}

impl Queue {
    /// Makes it; for the raw side over a connection of the bare client.
    pub(super) async fn make(url: &str, queue: QueueType) -> Result<Self, Failure> {
        let (address, settings) = halves(url);
        let connected = Connection::connect(address, ConnectionProperties::default()).await;
        let connection = connected.map_err(failed("connect to the broker"))?;
        let channel = connection.create_channel().await.map_err(failed("open a channel"))?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed("turn confirms on"))?;
        let name = name();
        let url = format!("{address}?{settings}&exchange={name}");
        let bed = Self { _connection: connection, channel, name, url, kind: queue };
        bed.declare().await.map_err(failed("make an exchange and a queue"))?;
        Ok(bed)
    }

    async fn declare(&self) -> lapin::Result<()> {
        let name = || self.name.as_str().into();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(name(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(self.kind.name().into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name(), durable, arguments).await?;
        let options = QueueBindOptions::default();
        self.channel.queue_bind(name(), name(), "#".into(), options, FieldTable::default()).await
    }

    async fn send(
        &self,
        load: Load,
        payload: &[u8],
        mandatory: bool,
        properties: impl Fn(u64) -> BasicProperties,
    ) -> lapin::Result<()> {
        let options = BasicPublishOptions { mandatory, immediate: false };
        let mut unconfirmed: VecDeque<PublisherConfirm> = VecDeque::with_capacity(load.window);
        let mut left = load.events;
        while left > 0 {
            let burst = left.min(BURST as u64);
            while !unconfirmed.is_empty() && unconfirmed.len() + burst as usize > load.window {
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

impl Bed for Queue {
    fn url(&self) -> &str {
        &self.url
    }

    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            let purged =
                self.channel.queue_purge(self.name.as_str().into(), QueuePurgeOptions::default()).await;
            purged.map(drop).map_err(failed("empty the queue"))
        })
    }

    /// Persistent, in bursts, with a window of confirms; as the target sends them also `mandatory`.
    fn publish(&self, message: Message, load: Load) -> BoxFuture<'_, Result<Duration, Failure>> {
        Box::pin(async move {
            let payload = vec![b'x'; load.size];
            let start = Instant::now();
            let sent = match message {
                Message::Raw => {
                    let bare = |_| BasicProperties::default().with_delivery_mode(PERSISTENT);
                    self.send(load, &payload, false, bare).await
                }
                Message::Same => self.send(load, &payload, true, dressed).await,
            };
            sent.map_err(failed("publish"))?;
            Ok(start.elapsed())
        })
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move {
            let name = || self.name.as_str().into();
            let removed = async {
                self.channel.queue_delete(name(), Default::default()).await?;
                self.channel.exchange_delete(name(), Default::default()).await
            };
            removed.await.map_err(failed("remove the exchange and the queue"))
        })
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        vec![("queue", json!(self.kind.name()))]
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
