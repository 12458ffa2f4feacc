//! Moves messages to another queue, by its name, and waits until the broker has them.

use std::time::Duration;

use lapin::BasicProperties;
use posthaste_core::{Error, Result};

use crate::broker::amqp::link::Link;
use crate::broker::amqp::publisher::{Publisher, Said};
use crate::broker::amqp::wire::{Body, Message};

/// Publishes on a connection of its own: a broker that is short of memory or disk stops reading from whoever publishes, and
/// acknowledgements on the same connection, which would free both, would not be heard either.
#[derive(Clone, Debug)]
pub(super) struct Mover {
    publisher: Publisher,
    patience: Duration,
}

impl Mover {
    pub(super) fn new(link: Link, patience: Duration) -> Self {
        Self { publisher: Publisher::new(link, patience, true), patience }
    }

    /// Puts a message into this queue and waits until the broker has it.
    ///
    /// # Errors
    /// `Unavailable` when it is not certain that the broker has it: the queue is missing or full, or nothing was heard.
    pub(super) async fn put(&self, queue: &str, properties: BasicProperties, body: Body) -> Result<()> {
        let message = Message { exchange: "".into(), routing_key: queue.into(), properties, body };
        let mut answers = self.publisher.publish(vec![(0, message)]).await;
        let said = answers.recv().await.and_then(|mut said| said.pop());
        let refused = match said.map(|(_, said)| said) {
            Some(Said::Confirmed) => return Ok(()),
            Some(Said::Returned(_)) => {
                "it does not exist; let the consumer declare it, or create it".to_owned()
            }
            Some(Said::Nacked) => "the broker refused it; is the queue full?".to_owned(),
            Some(Said::Silent | Said::Mute) => format!("not confirmed within {:?}", self.patience),
            Some(Said::TooLarge(limit)) => {
                format!("it is larger than {limit} bytes, the broker's max_message_size")
            }
            Some(Said::Refused(_, words) | Said::Lost(words)) => words,
            Some(Said::Blocked(reason)) => format!("the broker takes nothing ({reason})"),
            None => "nothing was heard of it".to_owned(),
        };
        Err(Error::unavailable(refused).during(format!("move a message to the queue {queue:?}")))
    }
}
