//! The operator's side: a group's dead letters, listed without being disturbed, sent again, or given up.
//!
//! AMQP can only take messages. To look, they are taken on a channel of their own and not acknowledged; when it closes the
//! broker puts them back, each at its place. Meanwhile nobody else sees them. A look takes at most [`LOOK_MAX`] messages and
//! [`LOOK_BYTES_MAX`] bytes of each queue, the oldest first.

use std::ops::ControlFlow;
use std::time::Duration;

use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use posthaste_core::admin::{Applied, Filter, LaneStats, Pace, Record};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::index;
use super::label::Label;
use crate::broker::amqp::AmqpBroker;
use crate::broker::amqp::link::{Refusal, refusal, told};
use crate::broker::amqp::naming::Names;
use crate::broker::amqp::wire::Body;
use crate::broker::amqp::wire::decode::decode;
use crate::broker::letter::{self, DeadLetters, Fate, LOOK_BYTES_MAX, LOOK_MAX, admin_of_dead_letters};

/// How long what was looked at may take to be in its queue again, and how often to see whether it is.
const BACK_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

admin_of_dead_letters!(AmqpBroker);

impl DeadLetters for AmqpBroker {
    const BROKER: &'static str = "RabbitMQ";
    type Place = Names;

    async fn groups(&self) -> Result<Vec<LaneStats>> {
        let groups = self.consume.groups().clone();
        let channel = self.consume.link.channel().await?.channel;
        let mut lanes = Vec::new();
        for (group, topics) in groups {
            let mut stats = LaneStats::new(group.parse()?);
            for names in self.names_of(&group, &topics)? {
                for queue in std::iter::once(&names.queue).chain(&names.retry) {
                    stats.waiting += u64::from(count(&channel, queue).await?.unwrap_or(0));
                }
                stats.dead += u64::from(count(&channel, &names.dead).await?.unwrap_or(0));
            }
            stats.accepted = stats.waiting + stats.dead;
            lanes.push(stats);
        }
        Ok(lanes)
    }

    /// The queues of the filter's group, for the topics that its consumers have said they read.
    async fn places(&self, group: &LaneName, filter: &Filter) -> Result<Vec<Names>> {
        let channel = self.consume.link.channel().await?.channel;
        let index = self.settings.consuming.naming.index(group.as_str());
        let mut topics = index::read(&channel, &index).await?;
        if topics.is_empty() {
            // An account that may not declare has not said what it reads.
            topics = self.consume.groups().get(group.as_str()).cloned().unwrap_or_default();
            topics.extend(filter.topic.clone().filter(|topic| !topics.contains(topic)));
        }
        if topics.is_empty() {
            return Err(Error::not_found(format!(
                "nothing is known of a group {group} at this broker; check its name, or name the topic that it reads"
            )));
        }
        self.names_of(group.as_str(), &topics)
    }

    fn name_of(place: &Names) -> &str {
        &place.dead
    }

    async fn walk(
        &self,
        filter: &Filter,
        names: &Names,
        bounded: bool,
        applied: &mut Applied,
        pace: &Pace<'_>,
        mut tell: impl FnMut(Record) -> Fate + Send,
    ) -> Result<ControlFlow<()>> {
        let channel = self.consume.link.channel().await?.channel;
        let Some(there) = count(&channel, &names.dead).await? else {
            return Ok(ControlFlow::Continue(()));
        };
        let (mut bytes, mut kept, mut goes_on) = (0, Vec::new(), ControlFlow::Continue(()));
        let mut left = if bounded { there.min(LOOK_MAX) } else { there };
        // What dies meanwhile is not for this walk: it would have no end.
        while left > 0 && goes_on.is_continue() && (!bounded || bytes < LOOK_BYTES_MAX) {
            left -= 1;
            let got = channel.basic_get(names.dead.as_str().into(), BasicGetOptions::default()).await;
            let got = got.map_err(|error| told(&format!("read the queue {:?}", names.dead), &error))?;
            let Some(message) = got else { break };
            let message = message.delivery;
            bytes += message.data.len() as u64;
            let label =
                Label::read(&message.properties, message.exchange.as_str(), message.routing_key.as_str());
            let letter = seen(filter, &message, &label)?;
            if !letter::is_meant(filter, &letter) {
                kept.push(message.delivery_tag);
                continue;
            }
            let tag = message.delivery_tag;
            if pace.after(*applied).await.is_break() {
                kept.push(tag);
                goes_on = ControlFlow::Break(());
                continue;
            }
            match tell(letter) {
                Fate::Keep => kept.push(tag),
                fate => {
                    self.act(&channel, names, fate, message, label).await?;
                    applied.changed += 1;
                }
            }
            applied.matched += 1;
        }
        applied.is_partial |= bounded && (there > LOOK_MAX || (left > 0 && bytes >= LOOK_BYTES_MAX));
        give_back(&channel, &names.dead, &kept).await?;
        Ok(goes_on)
    }
}

impl AmqpBroker {
    fn names_of(&self, group: &str, topics: &[posthaste_core::pattern::Pattern]) -> Result<Vec<Names>> {
        let naming = &self.settings.consuming.naming;
        let tiers = self.consume.tiers.times().len();
        topics.iter().map(|topic| naming.of(group, topic, tiers)).collect()
    }

    /// Takes one dead letter out of its queue: for ever, or to be handled again.
    async fn act(
        &self,
        channel: &Channel,
        names: &Names,
        fate: Fate,
        message: lapin::message::Delivery,
        label: Label,
    ) -> Result<()> {
        if matches!(fate, Fate::Redrive) {
            let properties = label.redriven().on(&message.properties);
            self.consume.mover.put(&names.queue, properties, Body::own(message.data)).await?;
        }
        let acked = channel.basic_ack(message.delivery_tag, BasicAckOptions::default()).await;
        acked.map_err(|error| told(&format!("take a message out of the queue {:?}", names.dead), &error))
    }
}

/// Gives these messages back to their queue and waits until they are there again: a quorum queue answers before it has put
/// anything back, and whoever looks next would find nothing.
async fn give_back(channel: &Channel, queue: &str, kept: &[u64]) -> Result<()> {
    let Some(last) = kept.last() else { return Ok(()) };
    let nacked = channel.basic_nack(*last, BasicNackOptions { multiple: true, requeue: true }).await;
    nacked.map_err(|error| told(&format!("give back what was looked at in the queue {queue:?}"), &error))?;
    let there = async {
        while count(channel, queue).await?.is_some_and(|ready| (ready as usize) < kept.len()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    // Somebody else may have taken some of them meanwhile; that is no reason to wait for ever.
    tokio::time::timeout(BACK_WITHIN, there).await.unwrap_or(Ok(()))
}

/// How many messages are ready in a queue; `None` if it is not there.
async fn count(channel: &Channel, queue: &str) -> Result<Option<u32>> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    match channel.queue_declare(queue.into(), passive, FieldTable::default()).await {
        Ok(queue) => Ok(Some(queue.message_count())),
        Err(error) if matches!(refusal(&error), Some((Refusal::NotFound, _))) => Ok(None),
        Err(error) => Err(told(&format!("look at the queue {queue:?}"), &error)),
    }
}

/// A dead letter as an operator sees it.
fn seen(filter: &Filter, message: &lapin::message::Delivery, label: &Label) -> Result<Record> {
    let (properties, mut body) = (&message.properties, message.data.clone());
    let bytes = body.len() as u64;
    let envelope = decode(properties, &label.routing_key, &mut body);
    // What is no event is shown as far as it goes.
    let envelope = envelope.unwrap_or_else(|_| {
        let text = |value: &Option<ShortString>| value.as_ref().map(ToString::to_string);
        let mut envelope = Envelope::new(text(properties.kind()).unwrap_or_default(), body);
        envelope.id = text(properties.message_id()).unwrap_or_default();
        envelope.topic.clone_from(&label.routing_key);
        envelope
    });
    let seconds = properties.timestamp().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
    let published_at = Timestamp::from_micros(seconds.saturating_mul(1_000_000));
    letter::record(filter, envelope, bytes, published_at, &label.story)
}
