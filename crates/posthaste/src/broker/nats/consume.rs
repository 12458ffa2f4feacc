//! NATS as a broker: groups as durable pull consumers, retries by delayed negative acknowledgements, dead
//! letters in a stream of their own. `naming.rs` shows the subjects.
//!
//! * **A retry stays where it is.** It is given back with a delay and not copied. `notes.rs` counts its
//!   failures, in a stream with one message per event, and reads it only for what comes again.
//! * **A redrive reaches one group.** A stream has no queue per group, so what is redriven goes to a work
//!   queue beside it, from which the members of the group also pull.
//! * **Order per key is one event at a time.** A consumer with more in flight hands out later events of a key
//!   while an earlier one waits at a member that died. Pinned clients (server 2.11) do not change that.
//! * **A feed that is dropped does not unsubscribe at once.** What the server hands out between the last pull
//!   and the end of the subscription would count as delivered and wait for `ack_wait`. So pulls are short,
//!   and until the last one has ended, everything that comes is given back.

mod buried;
mod dead;
mod feed;
mod notes;
mod pull;
mod receipt;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull as pulling};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use posthaste_core::broker::{Broker, Feed, FeedSpec};
use posthaste_core::lane::Order;
use posthaste_core::pattern::Pattern;
use posthaste_core::{BoxFuture, Error, Result, redact};

use self::feed::NatsFeed;
use self::notes::{Notes, Over};
use self::receipt::Line;
use super::NatsBroker;
use super::link::{Link, Live};
use super::naming::{self, Names};
use super::settings::{Begin, Settings};
use super::target::stream_of;

/// How long it is remembered how often an event failed.
const NOTES_AGE_MAX: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// What consuming needs beside the settings.
#[derive(Debug)]
pub(super) struct Consume {
    link: Link,
    /// The groups that feeds were opened for, with their topics.
    groups: Mutex<BTreeMap<String, Vec<Pattern>>>,
    /// Trials that are over, and whose records could not be taken back.
    over: Over,
}

/// Where deliveries come from: a durable consumer on a stream.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) stream: String,
    pub(super) names: Names,
    /// What is known of an event of this source is kept under this subject and the event's number.
    notes: String,
}

impl Consume {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let link = Link::new(&settings.link, "consume")?;
        Ok(Self { link, groups: Mutex::default(), over: Over::default() })
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Pattern>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a feed of this group is opened.
    fn enter(&self, spec: &FeedSpec) {
        let mut groups = self.groups();
        let topics = groups.entry(spec.group.clone()).or_default();
        for topic in &spec.topics {
            if !topics.contains(topic) {
                topics.push(topic.clone());
            }
        }
    }
}

impl NatsBroker {
    async fn open(&self, spec: &FeedSpec) -> Result<NatsFeed> {
        let (settings, side) = (&*self.settings, &*self.consume);
        let names = naming::of_all(&settings.publishing.prefix, &spec.group, &spec.topics)?;
        side.enter(spec);
        let live = side.link.live().await?;
        self.prepare(&live).await?;
        if settings.consuming.declare {
            self.declare_own(&live).await?;
        }
        let mut sources = Vec::new();
        for names in names {
            let stream = match &settings.publishing.stream {
                Some(name) => name.clone(),
                None => stream_of(&live, &names.filters[0]).await?,
            };
            let again = Names { filters: vec![names.again.clone()], ..names.clone() };
            let own = settings.consuming.again_stream.clone();
            for (stream, names, kind) in [(stream, names, "m"), (own, again, "a")] {
                self.consumer(&live, &stream, &names, spec.order).await?;
                let notes = format!("{}.{kind}", names.notes);
                sources.push(Arc::new(Source { stream, names, notes }));
            }
        }
        let notes = Notes::new(side.link.clone(), &settings.consuming, Arc::clone(&side.over));
        let prefetch = usize::try_from(spec.prefetch).unwrap_or(usize::MAX);
        let line = Line::open(side.link.clone(), notes, settings.consuming.ack_wait, prefetch);
        NatsFeed::open(
            live,
            line,
            side.link.clone(),
            sources,
            spec.clone(),
            settings.publishing.prefix.clone(),
        )
        .await
    }

    /// Makes the streams that are ours.
    async fn declare_own(&self, live: &Live) -> Result<()> {
        let consuming = &self.settings.consuming;
        let stream = |name: &str, kind: &str| Config {
            name: name.to_owned(),
            subjects: vec![naming::all_own(kind)],
            num_replicas: self.settings.publishing.replicas,
            ..Config::default()
        };
        let dead = stream(&consuming.dead_stream, "dead");
        let again =
            Config { retention: RetentionPolicy::WorkQueue, ..stream(&consuming.again_stream, "again") };
        let notes = Config {
            max_messages_per_subject: 1,
            max_age: NOTES_AGE_MAX,
            ..stream(&consuming.notes_stream, "notes")
        };
        for config in [dead, again, notes] {
            let name = config.name.clone();
            let made = live.jetstream.get_or_create_stream(config).await;
            made.map_err(|error| told(&format!("make the stream {name:?}"), &error))?;
        }
        Ok(())
    }

    /// Makes a group's consumer on a stream, or sees that it is there as it must be.
    async fn consumer(&self, live: &Live, stream: &str, names: &Names, order: Order) -> Result<()> {
        let consuming = &self.settings.consuming;
        let in_order = order == Order::PerKey;
        // One event at a time: a stream's consumer has no other way to keep an order over several members.
        let max_ack_pending = if in_order { 1 } else { i64::from(consuming.max_ack_pending) };
        let there =
            live.jetstream.get_consumer_from_stream::<pulling::Config, _, _>(&names.consumer, stream).await;
        match there {
            Ok(consumer) if (consumer.cached_info().config.max_ack_pending == 1) == in_order => return Ok(()),
            Ok(_) => {
                let (was, now) = if in_order { ("without", "with") } else { ("with", "without") };
                return Err(Error::config(format!(
                    "the consumer {:?} of the stream {stream:?} was made {was} order per key and cannot be used {now} it; end its members and delete it, or choose another group",
                    names.consumer
                )));
            }
            Err(error) if !consuming.declare => {
                return Err(told(
                    &format!("find the consumer {:?} of the stream {stream:?}", names.consumer),
                    &error,
                ));
            }
            Err(_) => {}
        }
        let mut config = pulling::Config {
            durable_name: Some(names.consumer.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: consuming.ack_wait,
            max_deliver: -1,
            max_ack_pending,
            deliver_policy: match consuming.from {
                Begin::New if stream != consuming.again_stream => DeliverPolicy::New,
                _ => DeliverPolicy::All,
            },
            ..pulling::Config::default()
        };
        match names.filters.as_slice() {
            [all] if all == ">" => {}
            [one] => config.filter_subject.clone_from(one),
            // A server before 2.10 reads everything then; what is not meant is left out by the feed.
            several => config.filter_subjects = several.to_vec(),
        }
        let made = live.jetstream.create_consumer_on_stream(config, stream).await;
        made.map(drop).map_err(|error| {
            told(&format!("make the consumer {:?} on the stream {stream:?}", names.consumer), &error)
        })
    }
}

impl Broker for NatsBroker {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move { Ok(Box::new(self.open(spec).await?) as Box<dyn Feed>) })
    }
}

impl std::convert::From<NatsBroker> for Arc<dyn Broker> {
    fn from(broker: NatsBroker) -> Self {
        Arc::new(broker)
    }
}

/// An error of the client while we were doing this. Everything may mend: rights and names are in other hands.
fn told(doing: &str, error: &dyn std::fmt::Display) -> Error {
    Error::unavailable(redact::clean(&error.to_string())).during(doing)
}
