//! Moves messages to another queue, by its name, and waits until the broker has them.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use posthaste_core::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::broker::amqp::link::{Link, told};

/// Publishes on a connection of its own: a broker that is short of memory or disk stops reading from whoever publishes, and
/// acknowledgements on the same connection, which would free both, would not be heard either.
#[derive(Clone, Debug)]
pub(super) struct Mover(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    channel: Mutex<Option<Channel>>,
    patience: Duration,
}

impl Mover {
    pub(super) fn new(link: Link, patience: Duration) -> Self {
        Self(Arc::new(Inner { link, channel: Mutex::new(None), patience }))
    }

    /// Puts a message into this queue and waits until the broker has it.
    ///
    /// # Errors
    /// `Unavailable` when it is not certain that the broker has it: the queue is missing or full, or nothing was heard.
    pub(super) async fn put(&self, queue: &str, properties: BasicProperties, body: &[u8]) -> Result<()> {
        let doing = || format!("move a message to the queue {queue:?}");
        if let Some(reason) = self.0.link.blocked() {
            return Err(Error::unavailable(format!("the broker takes nothing ({reason})")).during(doing()));
        }
        let confirmed = timeout(self.0.patience, self.publish(queue, properties, body)).await;
        let confirmation = match confirmed {
            Ok(confirmation) => confirmation?,
            Err(_) => {
                // What may be confirmed later is no more waited for on this channel.
                *self.0.channel.lock().await = None;
                let patience = self.0.patience;
                return Err(Error::unavailable(format!("not confirmed within {patience:?}")).during(doing()));
            }
        };
        let refused = match confirmation {
            Confirmation::Ack(None) => return Ok(()),
            Confirmation::Ack(Some(_)) => "it does not exist; let the consumer declare it, or create it",
            Confirmation::Nack(_) => "the broker refused it; is the queue full?",
            Confirmation::NotRequested => "the broker does not confirm on this channel",
        };
        Err(Error::unavailable(refused).during(doing()))
    }

    async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) -> Result<Confirmation> {
        let told = |error: lapin::Error| told(&format!("move a message to the queue {queue:?}"), &error);
        let channel = self.channel().await?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = channel.basic_publish("".into(), queue.into(), options, body, properties).await;
        sent.map_err(told)?.await.map_err(told)
    }

    /// The channel that confirms; a new one where the last one has ended.
    async fn channel(&self) -> Result<Channel> {
        let mut kept = self.0.channel.lock().await;
        if let Some(channel) = kept.as_ref().filter(|channel| channel.status().connected()) {
            return Ok(channel.clone());
        }
        let channel = self.0.link.channel().await?.channel;
        let confirming = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirming.map_err(|error| told("ask for confirms", &error))?;
        *kept = Some(channel.clone());
        Ok(channel)
    }
}
