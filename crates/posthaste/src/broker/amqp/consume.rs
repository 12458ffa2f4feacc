//! RabbitMQ as a broker: groups as queues, retries in tiers, dead letters in queues of their own.
//!
//! `consume/topology.rs` draws what a group has and creates it. `feed.rs` reads, `receipt.rs` answers,
//! `mover.rs` publishes what is moved, `label.rs` is what is written on it, and `dead.rs` is the operator's
//! side.
//!
//! * With order per key, a queue has a single active consumer. An event that is given back is not requeued
//!   alone, because what was fetched behind it would then come before it. Everything goes back together, with
//!   the feed's channel.
//! * A pause beyond the longest tier travels as what is left of it and not as a time, because the clocks of
//!   two machines differ.
//! * A trial is recorded as a message in a queue of the group and not in a header. A header changes only by
//!   publishing the event again, behind others of its key.

mod dead;
mod examine;
mod feed;
mod index;
mod label;
mod mover;
mod receipt;
mod sift;
mod topology;
mod trial;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use posthaste_core::broker::{Broker, Feed, FeedSpec};
use posthaste_core::lane::Order;
use posthaste_core::pattern::Pattern;
use posthaste_core::{BoxFuture, Error, Result};

use self::feed::AmqpFeed;
use self::mover::Mover;
use self::receipt::Line;
use self::topology::Topology;
use self::trial::{Court, Over};
use super::AmqpBroker;
use super::link::{Link, Role, told};
use super::naming::Names;
use super::settings::Settings;
use super::tiers::Tiers;

/// What consuming needs beside the settings.
#[derive(Debug)]
pub(super) struct Consume {
    link: Link,
    mover: Mover,
    tiers: Tiers,
    /// The groups that feeds were opened for, with their topics.
    groups: Mutex<BTreeMap<String, Vec<Pattern>>>,
    /// Trials that are over, and whose records could not be taken back.
    over: Over,
}

impl Consume {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            link: Link::new(&settings.link, Role::Consume)?,
            mover: Mover::new(Link::new(&settings.link, Role::Move)?, settings.publishing.confirm_timeout),
            tiers: Tiers::new(settings.consuming.tiers.clone())?,
            groups: Mutex::default(),
            over: Over::default(),
        })
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Pattern>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a feed of this group is opened.
    fn enter(&self, settings: &Settings, spec: &FeedSpec) -> Result<()> {
        let mut groups = self.groups();
        let other = groups.keys().find(|group| **group != spec.group);
        if let (Some(other), false) = (other, settings.consuming.naming.tells_groups_apart()) {
            return Err(Error::config(format!(
                "the groups {other:?} and {:?} would share their queues, because the prefix of the broker's URL has no {{group}} in it; put it there, or give each group its own URL",
                spec.group
            )));
        }
        let topics = groups.entry(spec.group.clone()).or_default();
        for topic in &spec.topics {
            if !topics.contains(topic) {
                topics.push(topic.clone());
            }
        }
        Ok(())
    }
}

impl AmqpBroker {
    async fn open(&self, spec: &FeedSpec) -> Result<AmqpFeed> {
        let (settings, side) = (&*self.settings, &*self.consume);
        let naming = &settings.consuming.naming;
        let names = naming.of_all(&spec.group, &spec.topics, side.tiers.times().len())?;
        side.enter(settings, spec)?;
        self.prepare(spec, &names).await?;
        let opened = side.link.channel().await?;
        let channel = opened.channel;
        let prefetch = u16::try_from(spec.prefetch).unwrap_or(u16::MAX);
        let asked = channel.basic_qos(prefetch, BasicQosOptions::default()).await;
        asked.map_err(|error| told("say how many messages may be unsettled", &error))?;
        let ordered = spec.order == Order::PerKey;
        let (mover, tiers) = (side.mover.clone(), side.tiers.clone());
        let line = Arc::new(Line::new(channel.clone(), mover, tiers, ordered, usize::from(prefetch)));
        let sieve = (settings.consuming.exchange_type == "fanout").then(|| spec.clone());
        let court = Court {
            link: side.link.clone(),
            mover: side.mover.clone(),
            queue: naming.trials(&spec.group),
            over: Arc::clone(&side.over),
        };
        let mut feed = AmqpFeed::new(Arc::clone(&line), side.link.clone(), opened.generation, sieve, court);
        for names in names {
            let (tag, options) = ("".into(), BasicConsumeOptions::default());
            let queue = names.queue.as_str();
            let consuming = channel.basic_consume(queue.into(), tag, options, FieldTable::default()).await;
            let consumer =
                consuming.map_err(|error| told(&format!("consume from the queue {queue:?}"), &error))?;
            if line.ordered {
                line.keep(consumer.clone());
            }
            feed.add(consumer, names);
        }
        Ok(feed)
    }

    /// Makes what the group needs, or sees that it is there.
    async fn prepare(&self, spec: &FeedSpec, names: &[Names]) -> Result<()> {
        let (settings, side) = (&*self.settings, &*self.consume);
        let topology = Topology {
            publishing: &settings.publishing,
            consuming: &settings.consuming,
            tiers: &side.tiers,
            order: spec.order,
        };
        // What the broker refuses closes the channel.
        let channel = side.link.channel().await?.channel;
        if !settings.consuming.declare {
            return topology.look(&channel, names).await;
        }
        topology.declare(&channel, names).await?;
        trial::declare(&channel, &settings.consuming.naming.trials(&spec.group)).await?;
        let index = settings.consuming.naming.index(&spec.group);
        index::add(&channel, &side.mover, &index, &spec.topics).await
    }
}

impl Broker for AmqpBroker {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move { Ok(Box::new(self.open(spec).await?) as Box<dyn Feed>) })
    }
}

impl From<AmqpBroker> for Arc<dyn Broker> {
    fn from(broker: AmqpBroker) -> Self {
        Arc::new(broker)
    }
}
