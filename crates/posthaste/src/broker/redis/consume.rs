//! Redis as a broker: groups on streams, retries that wait in a sorted set, dead letters in a stream of their own.
//!
//! ```text
//!  <topic>                   the stream, which all groups read
//!  <topic>:<group>:retry     a stream of the group's own: what was released, given back by an operator, or is due again
//!  <topic>:<group>:later     a sorted set: what was released for later, by the time when it is due
//!  <topic>:<group>:dlq       a stream: the dead letters
//!  <topic>:<group>:trials    a hash: what is handled alone because it came back too often
//!  <topic>:<group>:active    with order per key: the one member that reads, until when it was heard of last
//!  <group>:topics            a set: the topics that the group reads
//! ```
//!
//! Whatever moves an entry from one to another is a script: it happens as a whole or not at all.
//!
//! With order per key, one member of a group reads: the one that the key `…:active` names, which has a time
//! to live and which its keeper renews. The member lets go of it after it gave everything back. A blocking
//! `XREADGROUP` could be answered after another member has begun. So a script reads new entries only while
//! the key names this member, and what waits is an `XREAD`, which takes nothing.
//!
//! A retry travels as one value with all fields packed. The script that moves it when it is due need not look
//! into it, and trimming the stream cannot remove it.

mod dead;
mod entry;
mod feed;
mod keeper;
mod receipt;
mod trial;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::broker::{Broker, Feed, FeedSpec};
use posthaste_core::envelope::fresh_id;
use posthaste_core::lane::Order;
use posthaste_core::{BoxFuture, Error, Result};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use self::feed::RedisFeed;
use self::keeper::Keeper;
use self::receipt::Line;
use super::RedisBroker;
use super::link::{Link, refused};
use super::settings::{Beginning, Settings};

/// Who has what was given back; no consumer is called so.
const NOBODY: &str = "given-back";

/// What consuming needs beside the settings.
#[derive(Debug)]
pub(super) struct Consume {
    /// On which answers travel: never a command that waits.
    link: Link,
    known: Mutex<Known>,
}

/// What this process knows of groups and their feeds.
#[derive(Debug, Default)]
struct Known {
    /// The groups that feeds were opened for, with their topics.
    groups: BTreeMap<String, Vec<String>>,
    /// One task for each feed; ends when the feed and all its deliveries are gone and what they had is given back.
    keepers: JoinSet<()>,
}

impl Consume {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        Ok(Self { link: Link::new(&settings.link)?, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of one topic of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Names {
    topic: String,
    stream: String,
    retry: String,
    later: String,
    dead: String,
    trials: String,
    active: String,
}

impl Names {
    fn of(prefix: &str, group: &str, topic: &str) -> Self {
        let stream = format!("{prefix}{topic}");
        let own = |what: &str| format!("{stream}:{group}:{what}");
        Self {
            topic: topic.to_owned(),
            retry: own("retry"),
            later: own("later"),
            dead: own("dlq"),
            trials: own("trials"),
            active: own("active"),
            stream,
        }
    }
}

/// One of the streams that a feed reads.
#[derive(Clone, Debug)]
struct Source {
    names: Arc<Names>,
    /// Whether it is the group's own: what is done with is removed from it.
    is_own: bool,
    /// Whether this feed may read it: with order per key, whether it is the one that does.
    is_active: Arc<AtomicBool>,
}

impl Source {
    fn stream(&self) -> &str {
        if self.is_own { &self.names.retry } else { &self.names.stream }
    }
}

/// What a feed, its deliveries and its keeper have in common.
#[derive(Debug)]
struct Member {
    link: Link,
    group: String,
    /// What Redis calls a consumer: this feed, and no other ever.
    name: String,
    sources: Vec<Source>,
    prefetch: usize,
    claim_after: Duration,
    /// Whether the order of a key counts: then one member of the group reads, and the others wait until it is gone.
    is_ordered: bool,
    /// Only these topics are meant, where the stream is for all.
    sieve: Option<FeedSpec>,
    /// Rings when there is room for deliveries again, and at the end.
    room: Notify,
    /// Why nothing more may come on this feed.
    failure: Mutex<Option<String>>,
}

impl Member {
    /// Ends the feed with this error: it is opened anew, and everything that was not settled comes again, in order.
    fn fail(&self, error: &Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        self.room.notify_one();
    }

    fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map(Error::unavailable)
    }
}

/// Another member reads what this one has read until now.
fn superseded() -> Error {
    Error::unavailable(
        "another consumer of the group reads the stream by now: there was no sign of life from this one for too long",
    )
}

/// A script as a command.
fn script(text: &'static str, keys: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl RedisBroker {
    async fn open(&self, spec: &FeedSpec) -> Result<RedisFeed> {
        let side = &*self.consume;
        let topics = match &self.settings.stream {
            Some(stream) => vec![stream.clone()],
            None => literal(spec)?,
        };
        let names: Vec<Arc<Names>> = topics
            .iter()
            .map(|topic| Arc::new(Names::of(&self.settings.prefix, &spec.group, topic)))
            .collect();
        self.prepare(&spec.group, &topics, &names).await?;
        let source = |names: &Arc<Names>, is_own| Source {
            names: Arc::clone(names),
            is_own,
            is_active: Arc::default(),
        };
        let both = |names: &Arc<Names>| [false, true].map(|is_own| source(names, is_own));
        let member = Arc::new(Member {
            link: side.link.clone(),
            group: spec.group.clone(),
            name: format!("posthaste-{}", fresh_id()),
            sources: names.iter().flat_map(both).collect(),
            prefetch: spec.prefetch as usize,
            claim_after: self.settings.consuming.claim_after,
            is_ordered: spec.order == Order::PerKey,
            sieve: self.settings.stream.is_some().then(|| spec.clone()),
            room: Notify::new(),
            failure: Mutex::default(),
        });
        let (notes, heard) = mpsc::unbounded_channel();
        side.enter(spec, topics, Keeper::new(Arc::clone(&member), heard));
        let line = Arc::new(Line { member, notes, outstanding: AtomicUsize::new(0) });
        Ok(RedisFeed::new(line, side.link.another()))
    }

    /// Makes what the group needs, or sees that it is there.
    async fn prepare(&self, group: &str, topics: &[String], names: &[Arc<Names>]) -> Result<()> {
        let consuming = &self.settings.consuming;
        let begin = match consuming.from {
            Beginning::Start => "0",
            Beginning::Now => "$",
        };
        let mut questions = Pipeline::new();
        let mut asked = Vec::new();
        for names in names {
            for (stream, begin) in [(&names.stream, begin), (&names.retry, "0")] {
                let mut command = redis::cmd("XGROUP");
                if consuming.declare {
                    command.arg("CREATE").arg(stream).arg(group).arg(begin).arg("MKSTREAM");
                } else {
                    command = redis::cmd("XPENDING");
                    command.arg(stream).arg(group);
                }
                questions.add_command(command);
                asked.push(stream);
            }
        }
        let mut index = redis::cmd("SADD");
        index.arg(self.index(group)).arg(topics);
        questions.add_command(index);
        let answers = self.consume.link.ask(&questions).await?;
        for (stream, answer) in asked.into_iter().zip(&answers) {
            match answer {
                // It was there.
                Value::ServerError(error) if error.code() == "BUSYGROUP" => {}
                Value::ServerError(error) => {
                    let doing = format!("open the group {group:?} of the stream {stream:?}");
                    return Err(refused(error).into_error().during(doing));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The set that says which topics a group reads.
    fn index(&self, group: &str) -> String {
        format!("{}{group}:topics", self.settings.prefix)
    }
}

impl Consume {
    /// Notes that a feed of this group is opened, and starts its keeper.
    fn enter(&self, spec: &FeedSpec, topics: Vec<String>, keeper: Keeper) {
        let mut known = self.known();
        let group = known.groups.entry(spec.group.clone()).or_default();
        let new: Vec<String> = topics.into_iter().filter(|topic| !group.contains(topic)).collect();
        group.extend(new);
        while known.keepers.try_join_next().is_some() {}
        known.keepers.spawn(keeper.run());
    }
}

/// The topics of a feed, each once.
fn literal(spec: &FeedSpec) -> Result<Vec<String>> {
    let mut topics: Vec<String> = Vec::new();
    for pattern in &spec.topics {
        if !pattern.is_literal() {
            return Err(Error::config(format!(
                "the group {:?} reads {pattern}, and Redis has no patterns of streams; name every topic, or put all of them into one stream (stream=NAME in the URL)",
                spec.group
            )));
        }
        if !topics.iter().any(|topic| topic == pattern.as_str()) {
            topics.push(pattern.as_str().to_owned());
        }
    }
    Ok(topics)
}

impl Broker for RedisBroker {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move { Ok(Box::new(self.open(spec).await?) as Box<dyn Feed>) })
    }
}

impl From<RedisBroker> for Arc<dyn Broker> {
    fn from(broker: RedisBroker) -> Self {
        Arc::new(broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_group_are_its_own() {
        let names = Names::of("shop:", "billing", "orders");
        assert_eq!((names.stream.as_str(), names.dead.as_str()), ("shop:orders", "shop:orders:billing:dlq"));
        let other = Names::of("shop:", "mail", "orders");
        assert_eq!(other.stream, names.stream);
        assert!(other.retry != names.retry && other.later != names.later && other.trials != names.trials);
    }

    #[tokio::test]
    async fn a_pattern_of_topics_is_refused_before_anything_is_asked() {
        let broker = RedisBroker::at("redis://127.0.0.1:1").unwrap();
        let spec = FeedSpec::new("g", vec!["orders.*".parse().unwrap()]);
        let error = broker.feed(&spec).await.err().unwrap();
        assert!(!error.retryable() && error.to_string().contains("orders.*"), "{error}");
    }
}
