//! The operator's side: a group's dead letters, listed, sent again, or given up.
//!
//! Kafka removes no single record, so a dead letter is taken back by a record with its key and without a value; whoever reads the
//! topic from its beginning knows what is left, and compaction removes both. The topic is read whole for every look, and what it
//! shows is at most [`LOOK_MAX`] letters and [`LOOK_BYTES_MAX`] bytes, the oldest first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_core::admin::{Applied, Filter, LaneStats, Pace, Record};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _, OwnedHeaders, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::moving::headers_of;
use super::offsets::Note;
use super::receipt::{KEY, ORIGINAL};
use super::topics::{Names, looker, places};
use super::{blocking, told};
use crate::broker::kafka::KafkaBroker;
use crate::broker::kafka::settings::Settings;
use crate::broker::kafka::wire;
use crate::broker::letter::{self, DeadLetters, Fate, LOOK_BYTES_MAX, LOOK_MAX, admin_of_dead_letters};
use crate::broker::story::Story;

/// How long to wait for the next record before looking at the clock.
const TURN: Duration = Duration::from_millis(100);

admin_of_dead_letters!(KafkaBroker);

impl DeadLetters for KafkaBroker {
    const BROKER: &'static str = "Kafka";
    type Place = Names;

    async fn groups(&self) -> Result<Vec<LaneStats>> {
        let (settings, groups) = (Arc::clone(&self.settings), self.consume.groups().clone());
        blocking(move || {
            let mut lanes = Vec::new();
            for (group, topics) in groups {
                let client = looker(&settings, &group)?;
                let mut stats = LaneStats::new(group.parse()?);
                let mut filter = Filter::default();
                filter.lane = Some(group.parse()?);
                for topic in topics {
                    let names = Names::of(&settings, &group, &topic)?;
                    for topic in [&names.main, &names.retry] {
                        stats.waiting += waiting(&client, topic, settings.link.patience)?;
                    }
                    let dead = scan(&settings, &client, &filter, &names, &mut Past::default())?;
                    stats.dead += dead.letters.len() as u64;
                }
                stats.accepted = stats.waiting + stats.dead;
                lanes.push(stats);
            }
            Ok(lanes)
        })
        .await
    }

    /// The names of the filter's group, for the topics that have dead letters of it.
    async fn places(&self, group: &LaneName, _: &Filter) -> Result<Vec<Names>> {
        let (settings, name) = (Arc::clone(&self.settings), group.as_str().to_owned());
        let topics = blocking(move || {
            let client = looker(&settings, &name)?;
            let all = client.fetch_metadata(None, settings.link.patience);
            let all = all.map_err(|error| told("look for the group's topics", &error))?;
            let names = all.topics().iter().map(|topic| topic.name());
            Ok(Names::topics_in(&settings.topics.prefix, &name, names))
        });
        let mut topics = topics.await?;
        if topics.is_empty() {
            return Err(Error::not_found(format!(
                "nothing is known of a group {group} at this broker; check its name and the prefix of the URL"
            )));
        }
        topics.sort();
        topics.iter().map(|topic| Names::of(&self.settings, group.as_str(), topic)).collect()
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
        let mut past = Past::default();
        loop {
            let (settings, filter, at) = (Arc::clone(&self.settings), filter.clone(), names.clone());
            let group = filter.lane.as_ref().map(ToString::to_string).unwrap_or_default();
            let scanned = blocking(move || {
                let client = looker(&settings, &group)?;
                let found = scan(&settings, &client, &filter, &at, &mut past)?;
                Ok((found, past))
            });
            let (found, known) = scanned.await?;
            past = known;
            for Letter { record, message } in found.letters {
                if pace.after(*applied).await.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                let changed = self.act(names, tell(record), &message).await?;
                if changed == 0 {
                    past.stay.insert((message.partition(), message.offset()));
                }
                applied.changed += changed;
                applied.matched += 1;
            }
            // Those that were there are taken back by now, or known to stay, so the next look finds others.
            if bounded || !found.is_cut {
                applied.is_partial |= found.is_cut;
                return Ok(ControlFlow::Continue(()));
            }
        }
    }
}

impl KafkaBroker {
    /// Takes one dead letter back: for ever, or to be handled again. Answers how many that were.
    async fn act(&self, names: &Names, fate: Fate, message: &OwnedMessage) -> Result<u64> {
        let moving = &self.consume.moving;
        match fate {
            Fate::Keep => return Ok(0),
            Fate::Redrive
                if message.headers().is_some_and(|headers| wire::text(headers, ORIGINAL).is_some()) =>
            {
                tracing::warn!(
                    topic = names.dead,
                    offset = message.offset(),
                    "a dead letter without its payload stays where it is"
                );
                return Ok(0);
            }
            Fate::Redrive => {
                let headers = headers_of(message.headers(), &Story::anew());
                let key = key_of(message.headers());
                moving.put(&names.retry, key.as_deref(), headers, message.payload()).await?;
            }
            Fate::Discard => {}
        }
        let headers = OwnedHeaders::new();
        moving.put(&names.dead, message.key(), headers, None).await?;
        Ok(1)
    }
}

/// A dead letter that is meant.
struct Letter {
    record: Record,
    message: OwnedMessage,
}

/// What was found in a topic of dead letters.
struct Scanned {
    letters: Vec<Letter>,
    /// There are more.
    is_cut: bool,
}

/// What looks before this one have found.
#[derive(Default)]
struct Past {
    /// Where the topic ended at the first look.
    ends: Option<BTreeMap<i32, i64>>,
    /// Letters that stay where they are, whatever is asked for: nobody need see them again.
    stay: HashSet<(i32, i64)>,
}

/// Reads a topic of dead letters. The first look says where it ends for those after it.
fn scan(
    settings: &Settings,
    client: &BaseConsumer,
    filter: &Filter,
    names: &Names,
    past: &mut Past,
) -> Result<Scanned> {
    let doing = |error: &dyn std::fmt::Display| told(&format!("read the topic {:?}", names.dead), error);
    let patience = settings.link.patience;
    let mut left = BTreeMap::new();
    let mut list = TopicPartitionList::new();
    let found = client.fetch_metadata(Some(&names.dead), patience).map_err(|error| doing(&error))?;
    for partition in found.topics().iter().flat_map(|topic| topic.partitions()) {
        let ends = client.fetch_watermarks(&names.dead, partition.id(), patience);
        let (low, high) = ends.map_err(|error| doing(&error))?;
        if high > low {
            left.insert(partition.id(), high);
            let one = list.add_partition_offset(&names.dead, partition.id(), Offset::Beginning);
            one.map_err(|error| doing(&error))?;
        }
    }
    let ends = past.ends.get_or_insert_with(|| left.clone());
    client.assign(&list).map_err(|error| doing(&error))?;
    let mut pile = Pile::default();
    let mut heard_at = Instant::now();
    while !left.is_empty() {
        match client.poll(TURN) {
            Some(Ok(message)) => {
                heard_at = Instant::now();
                let (partition, offset) = (message.partition(), message.offset());
                let Some(high) = left.get(&partition).copied() else { continue };
                let is_meant = ends.get(&partition).is_some_and(|end| offset < *end)
                    && !past.stay.contains(&(partition, offset));
                if offset < high {
                    pile.add(filter, names, message.detach(), is_meant)?;
                }
                if offset + 1 >= high {
                    left.remove(&partition);
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(left.remove(&partition)),
            Some(Err(error)) if heard_at.elapsed() > patience => return Err(doing(&error)),
            None if heard_at.elapsed() > patience => return Err(doing(&"the brokers do not answer")),
            _ => {}
        }
    }
    client.unassign().map_err(|error| doing(&error))?;
    Ok(Scanned { letters: pile.letters.into_values().collect(), is_cut: pile.is_cut })
}

/// Dead letters as they are read: those that are taken back later are not dead.
#[derive(Default)]
struct Pile {
    letters: BTreeMap<(i32, i64), Letter>,
    by_key: HashMap<Vec<u8>, (i32, i64)>,
    bytes: u64,
    is_cut: bool,
}

impl Pile {
    fn add(&mut self, filter: &Filter, names: &Names, message: OwnedMessage, is_meant: bool) -> Result<()> {
        let key = message.key().unwrap_or_default().to_vec();
        if let Some(letter) = self.by_key.remove(&key).and_then(|at| self.letters.remove(&at)) {
            self.bytes -= size_of(&letter.message);
        }
        let story = Story::read(|name| message.headers().and_then(|headers| wire::text(headers, name)));
        if story.dead.is_none() || !is_meant {
            return Ok(());
        }
        let record = seen(filter, names, &message, &story)?;
        if !letter::is_meant(filter, &record) {
            return Ok(());
        }
        if self.letters.len() >= LOOK_MAX as usize || self.bytes >= LOOK_BYTES_MAX {
            self.is_cut = true;
            return Ok(());
        }
        let at = (message.partition(), message.offset());
        self.bytes += size_of(&message);
        self.by_key.insert(key, at);
        self.letters.insert(at, Letter { record, message });
        Ok(())
    }
}

fn size_of(message: &OwnedMessage) -> u64 {
    message.payload().map_or(0, <[u8]>::len) as u64
}

/// A dead letter as an operator sees it.
fn seen(filter: &Filter, names: &Names, message: &OwnedMessage, story: &Story) -> Result<Record> {
    let (headers, payload) = (message.headers(), message.payload().unwrap_or_default());
    let decoded = wire::decode(&names.topic, key_of(headers).as_deref(), headers, payload);
    // What is no event is shown as far as it goes.
    let envelope = decoded.unwrap_or_else(|_| {
        let mut envelope = Envelope::new(&names.topic, payload);
        let id = headers.and_then(|headers| wire::text(headers, wire::ID));
        envelope.id =
            id.unwrap_or_else(|| String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned());
        envelope
    });
    let died_at = Timestamp::from_micros(message.timestamp().to_millis().unwrap_or(0).saturating_mul(1_000));
    letter::record(filter, envelope, payload.len() as u64, died_at, story)
}

/// The key that a message had before it died.
fn key_of(headers: Option<&OwnedHeaders>) -> Option<Vec<u8>> {
    let found = headers?.iter().find(|header| header.key == KEY)?;
    found.value.map(<[u8]>::to_vec)
}

/// How much of a topic the group has not settled.
fn waiting(client: &BaseConsumer, topic: &str, patience: Duration) -> Result<u64> {
    let mut waiting = 0;
    for (partition, (committed, note)) in places(client, topic, patience)? {
        let ends = client.fetch_watermarks(topic, partition, patience);
        let (low, high) = ends.map_err(|error| told(&format!("look for the end of {topic:?}"), &error))?;
        let settled = Note::read(&note).settled();
        let left = high - committed.unwrap_or(low).max(low) - settled;
        waiting += u64::try_from(left).unwrap_or(0);
    }
    Ok(waiting)
}
