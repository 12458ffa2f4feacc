//! Remembers which topics a group reads, at the broker itself: AMQP cannot list queues, and whoever looks for a group's dead
//! letters knows only the group.
//!
//! The list is the one message of a queue that holds one. Whoever opens a feed adds its topics. Two that add different ones in
//! the same moment may lose one of them until a feed of it is opened again.

use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use posthaste_core::Result;
use posthaste_core::pattern::Pattern;

use super::mover::Mover;
use super::topology;
use crate::broker::amqp::link::{Refusal, refusal, told};
use crate::broker::amqp::wire::Body;

/// Adds these topics to the list in this queue, which is made if it is missing.
pub(super) async fn add(channel: &Channel, mover: &Mover, queue: &str, topics: &[Pattern]) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
    topology::queue(channel, queue, arguments).await?;
    let (mut all, found) = get(channel, queue).await?;
    let known = all.len();
    all.extend(topics.iter().map(|topic| topic.as_str().to_owned()));
    all.sort();
    all.dedup();
    let doing = |error| told(&format!("read the topics of the group in {queue:?}"), &error);
    match found {
        Some(acker) if all.len() == known => {
            let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            acker.nack(requeue).await.map_err(doing)?;
        }
        found => {
            let body = serde_json::to_vec(&all).unwrap_or_default();
            let properties =
                BasicProperties::default().with_content_type("application/json".into()).with_delivery_mode(2);
            mover.put(queue, properties, Body::own(body)).await?;
            if let Some(acker) = found {
                acker.ack(BasicAckOptions::default()).await.map_err(doing)?;
            }
        }
    }
    Ok(())
}

/// The topics in this queue; none if it is not there.
pub(super) async fn read(channel: &Channel, queue: &str) -> Result<Vec<Pattern>> {
    let (topics, found) = get(channel, queue).await?;
    if let Some(acker) = found {
        let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        acker
            .nack(requeue)
            .await
            .map_err(|error| told(&format!("give back the list in {queue:?}"), &error))?;
    }
    Ok(topics.iter().filter_map(|topic| topic.parse().ok()).collect())
}

async fn get(channel: &Channel, queue: &str) -> Result<(Vec<String>, Option<lapin::Acker>)> {
    match channel.basic_get(queue.into(), BasicGetOptions::default()).await {
        Ok(Some(message)) => {
            // What is no list is replaced by one.
            let topics = serde_json::from_slice(&message.delivery.data).unwrap_or_default();
            Ok((topics, Some(message.delivery.acker)))
        }
        Ok(None) => Ok((Vec::new(), None)),
        Err(error) if matches!(refusal(&error), Some((Refusal::NotFound, _))) => Ok((Vec::new(), None)),
        Err(error) => Err(told(&format!("read the topics of the group in {queue:?}"), &error)),
    }
}
