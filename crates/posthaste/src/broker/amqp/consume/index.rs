//! Remembers which topics a group reads, at the broker itself: AMQP cannot list queues, and whoever looks for a group's dead
//! letters knows only the group.
//!
//! Every message of the queue is a list of topics, and all of them together are the group's. Whoever opens a feed adds a message
//! with those that it did not find, and changes no other: what two add in the same moment is there afterwards, at worst twice,
//! and whoever comes next takes out what says nothing new.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use posthaste_core::Result;
use posthaste_core::pattern::Pattern;

use super::mover::Mover;
use super::sift::sift;
use super::topology;
use crate::broker::amqp::link::{Refusal, refusal, told};
use crate::broker::amqp::wire::Body;

/// How many lists are read; no group has nearly so many.
const LISTS_MAX: i64 = 10_000;

/// Adds these topics to the lists in this queue, which is made if it is missing.
pub(super) async fn add(channel: &Channel, mover: &Mover, queue: &str, topics: &[Pattern]) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(LISTS_MAX));
    topology::queue(channel, queue, arguments).await?;
    let known = take_stock(channel, queue).await?;
    let new: Vec<&str> = topics.iter().map(Pattern::as_str).filter(|topic| !known.contains(*topic)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let body = serde_json::to_vec(&new).unwrap_or_default();
    let properties =
        BasicProperties::default().with_content_type("application/json".into()).with_delivery_mode(2);
    mover.put(queue, properties, Body::own(body)).await
}

/// The topics in this queue; none if it is not there. Nothing is taken out.
pub(super) async fn look(channel: &Channel, queue: &str) -> Result<Vec<Pattern>> {
    let known = gather(channel, queue, |_| false).await?;
    Ok(known.iter().filter_map(|topic| topic.parse().ok()).collect())
}

/// The topics in this queue; none if it is not there.
pub(super) async fn read(channel: &Channel, queue: &str) -> Result<Vec<Pattern>> {
    let known = take_stock(channel, queue).await?;
    Ok(known.iter().filter_map(|topic| topic.parse().ok()).collect())
}

/// Looks at every list, takes out what says nothing new, and answers what all of them say.
async fn take_stock(channel: &Channel, queue: &str) -> Result<BTreeSet<String>> {
    gather(channel, queue, |is_new| !is_new).await
}

/// What all lists say; `takes` says of a list whether it is taken out, by whether it said something new.
async fn gather(channel: &Channel, queue: &str, takes: impl Fn(bool) -> bool) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    let sifted = sift(channel, queue, LISTS_MAX, |list| {
        let before = known.len();
        // What is no list says nothing.
        known.extend(serde_json::from_slice::<Vec<String>>(list).unwrap_or_default());
        takes(known.len() > before)
    });
    match sifted.await {
        Err(error) if !matches!(refusal(&error), Some((Refusal::NotFound, _))) => {
            Err(told(&format!("read the topics of the group in {queue:?}"), &error))
        }
        _ => Ok(known),
    }
}
