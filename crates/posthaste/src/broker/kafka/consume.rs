//! Kafka as a broker: consumer groups that commit the settled prefix of each partition, retries in a topic of the group's own, dead
//! letters in another.
//!
//! ```text
//!  <topic>                   the topic, which all groups read
//!  <topic>.<group>.retry     the group's own: what was released for later, with the time when it is due, or was sent again
//!  <topic>.<group>.dlq       the dead letters, each by where it died; a record without a value takes one back (compacted)
//! ```
//!
//! What is known of a partition beyond the group's offset stands in the note beside that offset; `offsets.rs` says what.
//!
//! **A retry waits in a topic where order does not count, and in memory where it does.** An attempt must
//! survive its process, and a delay must not hold up others. A copy in the group's own topic does both and
//! lets the offset go on. With order per key, a copy would let later events of the key pass, so the consumer
//! holds the key, and the offset waits with it.
//!
//! The due time of a copy is written and read by the clocks of the hosts, which may differ.

mod dead;
mod feed;
mod member;
mod moving;
mod offsets;
mod reader;
mod receipt;
mod settings;
mod state;
mod sweep;
mod topics;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::broker::{Broker, Feed, FeedSpec};
use posthaste_core::{BoxFuture, Error, Result, redact};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::Consumer as _;
use tokio::time::{Instant, timeout_at};

use self::feed::KafkaFeed;
use self::member::{Member, Source};
use self::reader::{Reader, Watch};
use self::receipt::Line;
pub use self::settings::Beginning;
pub(super) use self::settings::Consuming;
use self::topics::Names;
use super::KafkaBroker;
use super::link::client_config;
use super::producer::Link;
use super::settings::{Publishing, Settings};

/// How long a new member waits for the group to share out its partitions.
const JOIN_MAX: Duration = Duration::from_secs(15);
/// How long it waits for one of them, where there may be more members than partitions, or others may be busy with theirs.
const SHARE_MAX: Duration = Duration::from_secs(3);

/// What consuming needs beside the settings.
#[derive(Debug)]
pub(super) struct Consume {
    /// Writes to the groups' own topics, with the acknowledgement of all.
    moving: Link,
    /// The groups that feeds were opened for, with their topics.
    groups: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Consume {
    pub(super) fn new(settings: &Settings) -> Self {
        let publishing = Publishing {
            linger: Duration::from_millis(1),
            ack_timeout: settings.publishing.ack_timeout,
            ..Publishing::default()
        };
        let moving = Link::new(Arc::new(Settings { publishing, ..settings.clone() }));
        Self { moving, groups: Mutex::default() }
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a feed of this group is opened.
    fn enter(&self, group: &str, topics: Vec<String>) {
        let mut groups = self.groups();
        let known = groups.entry(group.to_owned()).or_default();
        let new: Vec<String> = topics.into_iter().filter(|topic| !known.contains(topic)).collect();
        known.extend(new);
    }
}

impl KafkaBroker {
    async fn open(&self, spec: &FeedSpec) -> Result<KafkaFeed> {
        let settings = &*self.settings;
        let topics = match &settings.topics.topic {
            Some(topic) => vec![topic.clone()],
            None => literal(spec)?,
        };
        let names = topics.iter().map(|topic| Names::of(settings, &spec.group, topic).map(Arc::new));
        let names = names.collect::<Result<Vec<_>>>()?;
        self.prepare(&spec.group, &names).await?;
        let both =
            |names: &Arc<Names>| [false, true].map(|is_own| Source { names: Arc::clone(names), is_own });
        let sources: Vec<Source> = names.iter().flat_map(both).collect();
        let has_sieve = settings.topics.topic.is_some();
        let (patience, moving) = (settings.link.patience, self.consume.moving.clone());
        let member = Arc::new(Member::new(spec, sources, has_sieve, &settings.consuming, patience, moving));
        self.consume.enter(&spec.group, topics);
        let reader: Reader = group_config(settings, &spec.group)
            .create_with_context(Watch { member: Arc::clone(&member) })
            .map_err(|error| told("make a consumer", &error))?;
        let subscribed: Vec<&str> = member.sources.iter().map(Source::topic).collect();
        reader.subscribe(&subscribed).map_err(|error| told("join the group", &error))?;
        let feed = KafkaFeed::new(Arc::new(Line(Arc::clone(&member))));
        // The runtime waits for it at its end, so that the group is left in order.
        drop(tokio::task::spawn_blocking(move || reader::run(reader)));
        joined(&member).await?;
        Ok(feed)
    }
}

/// Waits until the group has shared out its partitions, so that what is published from now on is not moved from one member to the
/// other at once.
async fn joined(member: &Member) -> Result<()> {
    let (mut until, mut has_joined) = (Instant::now() + JOIN_MAX, false);
    loop {
        let mut news = std::pin::pin!(member.news.notified());
        news.as_mut().enable();
        if let Some(error) = member.failure() {
            return Err(error);
        }
        let (shared_out, has_any) = {
            let state = member.lock();
            (state.shared_out > 0, !state.parts.is_empty())
        };
        if has_any {
            return Ok(());
        }
        if shared_out && !has_joined {
            (until, has_joined) = (Instant::now() + SHARE_MAX, true);
        }
        if timeout_at(until, news).await.is_err() {
            // It joins while it is read.
            return Ok(());
        }
    }
}

/// How a member of a group is set up.
fn group_config(settings: &Settings, group: &str) -> ClientConfig {
    let session = settings.consuming.session_timeout;
    let mut config = client_config(&settings.link, "consume");
    let millis = |span: Duration| span.as_millis().to_string();
    let poll_max = Duration::from_secs(300).max(session).max(settings.consuming.rebalance_wait * 3);
    config
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        // Partitions that stay where they are go on while others move.
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("session.timeout.ms", millis(session))
        .set("heartbeat.interval.ms", millis((session / 10).min(Duration::from_secs(3))))
        .set("max.poll.interval.ms", millis(poll_max))
        // What waits in the client is beside what waits in the feed.
        .set("queued.min.messages", "2000")
        .set("queued.max.messages.kbytes", "16384")
        .set("fetch.wait.max.ms", "500")
        .set("fetch.error.backoff.ms", "200")
        .set("socket.timeout.ms", millis(settings.link.patience.max(Duration::from_secs(1))));
    config
}

/// The topics of a feed, each once.
fn literal(spec: &FeedSpec) -> Result<Vec<String>> {
    let mut topics: Vec<String> = Vec::new();
    for pattern in &spec.topics {
        if !pattern.is_literal() {
            return Err(Error::config(format!(
                "the group {:?} reads {pattern}, and a Kafka group reads topics by their names; name every topic, or put all of them into one (topic=NAME in the URL)",
                spec.group
            )));
        }
        if !topics.iter().any(|topic| topic == pattern.as_str()) {
            topics.push(pattern.as_str().to_owned());
        }
    }
    Ok(topics)
}

/// An error of the client while we were doing this. Everything may mend: rights and names are in other hands.
fn told(doing: &str, error: &dyn std::fmt::Display) -> Error {
    Error::unavailable(redact::clean(&error.to_string())).during(doing)
}

/// Does what waits for an answer, without keeping others waiting.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::unavailable(format!("a question to Kafka was given up: {error}"))))
}

impl Broker for KafkaBroker {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move { Ok(Box::new(self.open(spec).await?) as Box<dyn Feed>) })
    }
}

impl From<KafkaBroker> for Arc<dyn Broker> {
    fn from(broker: KafkaBroker) -> Self {
        Arc::new(broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pattern_of_topics_is_refused_before_anything_is_asked() {
        let broker = KafkaBroker::at("kafka://127.0.0.1:1").unwrap();
        let spec = FeedSpec::new("g", vec!["orders.*".parse().unwrap()]);
        let error = broker.feed(&spec).await.err().unwrap();
        assert!(!error.retryable() && error.to_string().contains("orders.*"), "{error}");
    }
}
