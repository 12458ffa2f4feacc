//! A bed in a broker to measure in: something of the bench's own that takes everything, gone at the end; and the raw limit there,
//! the broker's bare client with as much on its way as it can have.
//!
//! A further broker is a file here and a line in [`make`].

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "amqp")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;

use std::time::Duration;

use posthaste::BoxFuture;
use posthaste_terminal::exit::Failure;
use serde_json::Value;

use super::QueueType;
use super::figures::Round;

/// What the bare clients publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A payload, and a key where that decides the place.
    Raw,
    /// What the target sends: with id, key and the attributes of CloudEvents, which the broker has to read for every message.
    Same,
}

impl Message {
    fn side(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Same => "same",
        }
    }
}

/// What a round publishes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) events: u64,
    /// Bytes of each payload.
    pub(super) size: usize,
    /// How much may be on its way and unanswered, for the bare client as for the target.
    pub(super) window: usize,
}

/// A place in a broker that takes everything.
pub(super) trait Bed: Send + Sync {
    /// Where a target finds it.
    fn url(&self) -> &str;
    /// Empties it, so that every round begins alike; what was sent before is not remembered either.
    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>>;
    /// Publishes all of it with the bare client; answers how long it took.
    fn publish(&self, message: Message, load: Load) -> BoxFuture<'_, Result<Duration, Failure>>;
    /// Takes everything away again.
    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>>;
    /// What was measured there, to be shown beside the figures.
    fn facts(&self) -> Vec<(&'static str, Value)>;
}

impl dyn Bed + '_ {
    /// Whether the target adds nothing to a payload but what the broker itself has a place for.
    pub(super) fn is_bare(&self) -> bool {
        self.url().split(['?', '&']).any(|setting| setting == "format=raw")
    }

    /// A round of the bare client, and an empty bed after it.
    pub(super) async fn round(&self, message: Message, load: Load) -> Result<Round, Failure> {
        let took = self.publish(message, load).await?;
        self.empty().await?;
        Ok(Round { side: message.side(), events: load.events, took })
    }
}

/// The brokers in which this build can measure.
const SCHEMES: &[&str] = &[
    #[cfg(feature = "amqp")]
    "amqp",
    #[cfg(feature = "amqp")]
    "amqps",
    #[cfg(feature = "kafka")]
    "kafka",
    #[cfg(feature = "nats")]
    "nats",
    #[cfg(feature = "redis")]
    "redis",
];

/// Whether a URL is for one of them.
pub(super) fn is_for(url: &str) -> bool {
    SCHEMES.contains(&url.split(':').next().unwrap_or_default())
}

/// Makes a bed in the broker at this URL.
pub(super) async fn make(url: &str, queue: QueueType) -> Result<Box<dyn Bed>, Failure> {
    // Not every build has a broker that needs it.
    let _ = queue;
    match url.split(':').next().unwrap_or_default() {
        #[cfg(feature = "amqp")]
        "amqp" | "amqps" => Ok(Box::new(rabbitmq::Queue::make(url, queue).await?)),
        #[cfg(feature = "kafka")]
        "kafka" => Ok(Box::new(kafka::Topic::make(url).await?)),
        #[cfg(feature = "nats")]
        "nats" => Ok(Box::new(nats::Stream::make(url).await?)),
        #[cfg(feature = "redis")]
        "redis" => Ok(Box::new(redis::Stream::make(url).await?)),
        _ => Err(Failure::usage(format!(
            "--to takes the URL of a broker in which this build can measure: {}",
            SCHEMES.join(", ")
        ))),
    }
}

/// A name that nobody else has.
fn name() -> String {
    format!("posthaste-bench-{:08x}", fastrand::u32(..))
}

/// The address and the settings of a URL; the settings are ours, and a client would not know them.
fn halves(url: &str) -> (&str, &str) {
    url.split_once('?').unwrap_or((url, ""))
}
