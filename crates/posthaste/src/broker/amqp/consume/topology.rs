//! Makes what a group needs: the exchange, its queues, their retry queues and dead queues.
//!
//! ```text
//!  exchange ──topic──► G.T ──────────► consumer
//!                       ▲ │  ▲            │ move, confirmed, then acknowledged
//!     after the tier's  │ │  └─ redrive ─┐│
//!     time, by name     │ │              │├──► G.T.retry.N   (no consumer; the broker brings it back to G.T)
//!                       └─│──────────────┼┘
//!                         └──────────────┴───► G.T.dlq        (what failed for good, of this queue alone)
//! ```
//!
//! Retry and dead queues are reached by their names through the default exchange, and the way back from a retry queue leads to
//! `G.T` by its name too: through the shared exchange every other group would get the retry.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};
use posthaste_core::lane::Order;
use posthaste_core::{Error, Result};

use crate::broker::amqp::link::{Refusal, refusal, told};
use crate::broker::amqp::mapping::Mapping;
use crate::broker::amqp::naming::Names;
use crate::broker::amqp::settings::{Consuming, Publishing, QueueType};
use crate::broker::amqp::tiers::Tiers;

/// The consumer decides when an event is dead. A quorum queue of RabbitMQ 4 gives a message up after 20 deliveries by itself,
/// and being looked at counts as one.
const DELIVERY_LIMIT: i64 = 1_000_000_000;

/// What is to be there.
pub(super) struct Topology<'a> {
    pub(super) publishing: &'a Publishing,
    pub(super) consuming: &'a Consuming,
    pub(super) tiers: &'a Tiers,
    pub(super) order: Order,
}

impl Topology<'_> {
    /// Makes what is missing; what is there as it should be stays as it is.
    ///
    /// # Errors
    /// `Config` when something is there with other arguments or must not be made; the message names it.
    pub(super) async fn declare(&self, channel: &Channel, names: &[Names]) -> Result<()> {
        for names in names {
            let exchange = self.exchange_of(names)?;
            self.exchange(channel, exchange, &self.consuming.exchange_type).await?;
            queue(channel, &names.dead, dead_arguments(self.consuming.queue_type)).await?;
            queue(channel, &names.queue, self.arguments(names)).await?;
            for (name, time) in names.retry.iter().zip(self.tiers.times()) {
                let arguments = retry_arguments(self.consuming.retry_queue_type, *time, &names.queue);
                queue(channel, name, arguments).await?;
            }
            bind(channel, &names.queue, exchange, self.binding_of(names)).await?;
            if self.consuming.dead_exchange {
                let name = format!("{}_dlq", self.publishing.exchange);
                self.exchange(channel, &name, "direct").await?;
                bind(channel, &names.dead, &name, &names.queue).await?;
            }
        }
        Ok(())
    }

    /// Sees that everything is there, for accounts that may not make anything.
    ///
    /// # Errors
    /// `Unavailable` with the name of what is missing.
    pub(super) async fn look(&self, channel: &Channel, names: &[Names]) -> Result<()> {
        for names in names {
            for name in [&names.queue, &names.dead].into_iter().chain(&names.retry) {
                is_there(channel, name).await?;
            }
        }
        Ok(())
    }

    fn exchange_of<'n>(&'n self, names: &'n Names) -> Result<&'n str> {
        match &self.publishing.mapping {
            Mapping::Key if !names.topic.is_literal() => Err(Error::config(format!(
                "with mapping=key every topic has an exchange of its own, so the pattern {} cannot be read; name the topics",
                names.topic
            ))),
            Mapping::Key => Ok(names.topic.as_str()),
            _ if self.consuming.exchange_type == "direct" && !names.topic.is_literal() => {
                Err(Error::config(format!(
                    "a direct exchange knows no patterns, so {} cannot be read; name the topics, or use exchange_type=topic",
                    names.topic
                )))
            }
            _ => Ok(&self.publishing.exchange),
        }
    }

    fn binding_of<'n>(&self, names: &'n Names) -> &'n str {
        match &self.publishing.mapping {
            // Whatever the key: the exchange is the topic.
            Mapping::Key => "#",
            _ => names.topic.as_str(),
        }
    }

    async fn exchange(&self, channel: &Channel, name: &str, kind: &str) -> Result<()> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let custom = ExchangeKind::Custom(kind.to_owned());
        let declared = channel.exchange_declare(name.into(), custom, options, FieldTable::default()).await;
        declared.map_err(|error| {
            let otherwise = format!("of another type than {kind} or not durable; say its type with exchange_type=TYPE, choose another exchange, or use it as it is with declare=false");
            refused(&error, &format!("exchange {name:?}"), &otherwise)
        })
    }

    pub(super) fn arguments(&self, names: &Names) -> FieldTable {
        let kind = self.consuming.queue_type;
        let mut arguments = of_type(kind);
        // What the broker itself would drop, because it expired or came back too often, is kept as dead.
        dead_letters_to(&mut arguments, kind, &names.dead);
        if kind == QueueType::Quorum {
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
        }
        if self.order == Order::PerKey {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        arguments
    }
}

fn of_type(kind: QueueType) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.as_str().into()));
    arguments
}

fn dead_letters_to(arguments: &mut FieldTable, kind: QueueType, queue: &str) {
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(queue.into()));
    if kind == QueueType::Quorum {
        // A message leaves one queue when it is safe in the other; a classic queue lets go of it before.
        arguments.insert("x-dead-letter-strategy".into(), AMQPValue::LongString("at-least-once".into()));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    }
}

pub(super) fn retry_arguments(kind: QueueType, time: Duration, back_to: &str) -> FieldTable {
    let mut arguments = of_type(kind);
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
    dead_letters_to(&mut arguments, kind, back_to);
    arguments
}

pub(super) fn dead_arguments(kind: QueueType) -> FieldTable {
    let mut arguments = of_type(kind);
    if kind == QueueType::Quorum {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
    }
    arguments
}

/// Sees that a queue is there.
///
/// # Errors
/// `Unavailable` with its name if it is missing.
pub(super) async fn is_there(channel: &Channel, name: &str) -> Result<()> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let looked = channel.queue_declare(name.into(), passive, FieldTable::default()).await;
    looked.map(drop).map_err(|error| match refusal(&error) {
        Some((Refusal::NotFound, _)) => Error::unavailable(format!(
            "the queue {name:?} is missing, and declare=false forbids to make it; create it, or let a consumer with the right to do so declare it once"
        )),
        _ => told(&format!("look for the queue {name:?}"), &error),
    })
}

pub(super) async fn queue(channel: &Channel, name: &str, arguments: FieldTable) -> Result<()> {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(name.into(), options, arguments).await;
    declared.map(drop).map_err(|error| {
        refused(&error, &format!("queue {name:?}"), "with other arguments; set tiers, queue_type and the order of the consumer back to what it was made with, or delete the queue when it is empty, or use it as it is with declare=false")
    })
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) -> Result<()> {
    let options = QueueBindOptions::default();
    let bound =
        channel.queue_bind(queue.into(), exchange.into(), key.into(), options, FieldTable::default()).await;
    bound.map_err(|error| {
        let what = format!("binding of the queue {queue:?} to the exchange {exchange:?}");
        refused(&error, &what, "in another form")
    })
}

/// What the broker said about a thing that we wanted to make.
fn refused(error: &lapin::Error, what: &str, otherwise: &str) -> Error {
    match refusal(error) {
        Some((Refusal::NotAsDeclared, said)) => {
            Error::config(format!("the {what} is there already, {otherwise} ({said})"))
        }
        Some((Refusal::NotAllowed, said)) => Error::config(format!(
            "this account may not make the {what}; give it the right, or create it yourself and say declare=false ({said})"
        )),
        _ => told(&format!("declare the {what}"), error),
    }
}
