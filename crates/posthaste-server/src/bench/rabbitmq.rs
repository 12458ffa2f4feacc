//! A bed in RabbitMQ to measure in: an exchange and a queue of the bench's own, gone at its end; and the raw limit there,
//! the bare client with pipelined confirms.

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

    /// The bare client publishes, persistent, in bursts, with a window of confirms.
    pub(super) async fn raw_round(&self, events: u64, size: usize) -> Result<Round, Failure> {
        let payload = vec![b'x'; size];
        let start = Instant::now();
        let published = self.publish(events, &payload).await;
        let took = start.elapsed();
        published.map_err(failed("publish"))?;
        self.empty().await?;
        Ok(Round { side: "raw", events, took })
    }

    async fn publish(&self, events: u64, payload: &[u8]) -> lapin::Result<Duration> {
        let mut unconfirmed: VecDeque<PublisherConfirm> = VecDeque::with_capacity(WINDOW);
        let mut left = events;
        let start = Instant::now();
        while left > 0 {
            let burst = left.min(BURST as u64);
            while unconfirmed.len() + burst as usize > WINDOW {
                confirmed(unconfirmed.pop_front()).await?;
            }
            let publishing = (0..burst).map(|_| {
                self.channel.basic_publish(
                    self.name.as_str().into(),
                    "bench.event".into(),
                    BasicPublishOptions::default(),
                    payload,
                    BasicProperties::default().with_delivery_mode(PERSISTENT),
                )
            });
            unconfirmed.extend(try_join_all(publishing).await?);
            left -= burst;
        }
        while !unconfirmed.is_empty() {
            confirmed(unconfirmed.pop_front()).await?;
        }
        Ok(start.elapsed())
    }
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
