//! The topics of a group: what they are called, and how they come into being.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_core::{Error, Result};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::settings::Beginning;
use super::{blocking, group_config, told};
use crate::broker::kafka::KafkaBroker;
use crate::broker::kafka::naming;
use crate::broker::kafka::producer::{self, create_topic};
use crate::broker::kafka::settings::Settings;

/// What the headers of a message that is moved may add to it.
const STORY_BYTES: u64 = 16 * 1024;
/// The partitions of a group's own topics. A group shares out partitions whatever their topic, so that many of these would leave
/// some members with nothing else.
const OWN_PARTITIONS: i32 = 1;
/// How often to look whether a topic that was created is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The Kafka topics of one topic of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Names {
    /// The event's topic.
    pub(super) topic: String,
    pub(super) main: String,
    pub(super) retry: String,
    pub(super) dead: String,
}

impl Names {
    pub(super) fn of(settings: &Settings, group: &str, topic: &str) -> Result<Self> {
        let main = settings.topics.name_of(topic);
        let own = |kind: &str| format!("{main}.{}.{kind}", plain(group));
        let names = Self { topic: topic.to_owned(), retry: own("retry"), dead: own("dlq"), main };
        for name in [&names.main, &names.retry, &names.dead] {
            naming::check(name).map_err(|why| {
                Error::config(format!("the group {group:?} needs a topic {name:?}, which cannot be: {why}"))
            })?;
        }
        Ok(names)
    }

    /// The topics whose dead letters of this group are in these Kafka topics, without the prefix.
    pub(super) fn topics_in<'a>(
        prefix: &str,
        group: &str,
        all: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let end = format!(".{}.dlq", plain(group));
        let topic = |name: &str| Some(name.strip_suffix(&end)?.strip_prefix(prefix)?.to_owned());
        all.filter_map(topic).collect()
    }
}

/// A group as a part of a topic's name: without dots, so that it is known where it begins, and different for different groups.
fn plain(group: &str) -> String {
    let mut plain = String::with_capacity(group.len());
    for (index, byte) in group.bytes().enumerate() {
        let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
        let is_fit = match byte {
            b'_' => !group.get(index + 1..).is_some_and(is_escape),
            byte => byte.is_ascii_alphanumeric() || byte == b'-',
        };
        if is_fit {
            plain.push(char::from(byte));
        } else {
            let _ = write!(plain, "_{byte:02x}");
        }
    }
    plain
}

impl KafkaBroker {
    /// Makes what the group needs, or sees that it is there.
    pub(super) async fn prepare(&self, group: &str, names: &[Arc<Names>]) -> Result<()> {
        let settings = &*self.settings;
        let bytes_max = (settings.link.message_bytes_max + STORY_BYTES).to_string();
        let bytes_max = ("max.message.bytes", bytes_max.as_str());
        let mut created = false;
        let there = self.partitions(group, names).await?;
        for (names, [main, retry, dead]) in names.iter().zip(there) {
            if main == 0 {
                let partitions = settings.topics.create;
                let partitions =
                    partitions.ok_or_else(|| Error::unavailable(producer::missing(&names.main)))?;
                created = true;
                create_topic(settings, &names.main, partitions, &[]).await?;
            }
            let own = [
                (&names.retry, retry, [bytes_max, ("retention.ms", "-1")]),
                (&names.dead, dead, [bytes_max, ("cleanup.policy", "compact")]),
            ];
            for (name, there, own) in own {
                if there > 0 {
                    continue;
                }
                if !settings.consuming.declare {
                    return Err(Error::unavailable(format!(
                        "there is no topic {name:?}, which the group {group:?} needs; create it (compacted, if it ends with .dlq), or leave declare=false away"
                    )));
                }
                created = true;
                create_topic(settings, name, OWN_PARTITIONS, &own).await?;
            }
        }
        let until = Instant::now() + settings.link.patience;
        while created && self.partitions(group, names).await?.iter().flatten().any(|count| *count == 0) {
            if Instant::now() > until {
                return Err(Error::unavailable(format!(
                    "the topics of the group {group:?} were created, and nobody knows them yet"
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if settings.consuming.from == Beginning::Now {
            self.begin_now(group, names).await?;
        }
        Ok(())
    }

    /// How many partitions the topics of a group have, each of them; none if there is no such topic.
    async fn partitions(&self, group: &str, names: &[Arc<Names>]) -> Result<Vec<[i32; 3]>> {
        let (settings, group, names) = (Arc::clone(&self.settings), group.to_owned(), names.to_vec());
        blocking(move || {
            let client = looker(&settings, &group)?;
            let count = |name: &str| -> Result<i32> {
                let found = client.fetch_metadata(Some(name), settings.link.patience);
                let found = found.map_err(|error| told(&format!("look for the topic {name:?}"), &error))?;
                let topic =
                    found.topics().iter().find(|topic| topic.name() == name && topic.error().is_none());
                let partitions = topic.map_or(0, |topic| topic.partitions().len());
                Ok(i32::try_from(partitions).unwrap_or(i32::MAX))
            };
            let counts =
                |names: Arc<Names>| Ok([count(&names.main)?, count(&names.retry)?, count(&names.dead)?]);
            names.into_iter().map(counts).collect()
        })
        .await
    }

    /// A group that is new on a topic begins behind what is there. One that has been there reads new partitions whole.
    async fn begin_now(&self, group: &str, names: &[Arc<Names>]) -> Result<()> {
        let (settings, group) = (Arc::clone(&self.settings), group.to_owned());
        let topics: Vec<String> = names.iter().map(|names| names.main.clone()).collect();
        blocking(move || {
            let patience = settings.link.patience;
            let client = looker(&settings, &group)?;
            for topic in topics {
                let places = places(&client, &topic, patience)?;
                if places.values().any(|(committed, _)| committed.is_some()) {
                    continue;
                }
                let mut ends = TopicPartitionList::new();
                for partition in places.into_keys() {
                    let (_, end) = client
                        .fetch_watermarks(&topic, partition, patience)
                        .map_err(|error| told(&format!("look for the end of {topic:?}"), &error))?;
                    let end = ends.add_partition_offset(&topic, partition, Offset::Offset(end));
                    end.map_err(|error| told("begin", &error))?;
                }
                if let Err(error) = client.commit(&ends, CommitMode::Sync) {
                    // Where somebody reads, somebody has begun.
                    tracing::debug!(group, %error, "the group has members, so it has begun");
                }
            }
            Ok(())
        })
        .await
    }
}

/// A client that looks at a group and is no member of it.
pub(super) fn looker(settings: &Settings, group: &str) -> Result<BaseConsumer> {
    let mut config = group_config(settings, group);
    config.set("enable.partition.eof", "true");
    config.create().map_err(|error| told("make a client", &error))
}

/// Where the group is in each partition of a topic: its offset, if it has one, and the note beside it.
pub(super) fn places(
    client: &BaseConsumer,
    topic: &str,
    patience: Duration,
) -> Result<BTreeMap<i32, (Option<i64>, String)>> {
    let doing = |error: &dyn std::fmt::Display| told(&format!("look where the group is in {topic:?}"), error);
    let found = client.fetch_metadata(Some(topic), patience).map_err(|error| doing(&error))?;
    let mut list = TopicPartitionList::new();
    for partition in found.topics().iter().flat_map(|topic| topic.partitions()) {
        list.add_partition(topic, partition.id());
    }
    let found = client.committed_offsets(list, patience).map_err(|error| doing(&error))?;
    let elements = found.elements();
    Ok(elements
        .iter()
        .map(|one| {
            let offset = match one.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            (one.partition(), (offset, one.metadata().to_owned()))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_of_a_group_are_its_own() {
        let settings: Settings = "kafka://h?prefix=shop.".parse().unwrap();
        let names = Names::of(&settings, "billing", "orders.eu").unwrap();
        assert_eq!(
            (names.main.as_str(), names.dead.as_str()),
            ("shop.orders.eu", "shop.orders.eu.billing.dlq")
        );
        assert_eq!(Names::topics_in("shop.", "billing", [names.dead.as_str()].into_iter()), ["orders.eu"]);
        // Groups and topics with dots and odd characters never meet.
        let all =
            [("a", "b.c"), ("b.a", "c"), ("a_2e", "x"), ("a.", "x"), ("a b", "x"), ("a_b", "x"), ("ü", "x")];
        let dead: Vec<_> =
            all.iter().map(|(group, topic)| Names::of(&settings, group, topic).unwrap().dead).collect();
        for (index, (group, topic)) in all.iter().enumerate() {
            assert_eq!(dead.iter().filter(|name| **name == dead[index]).count(), 1, "{dead:?}");
            assert_eq!(
                Names::topics_in("shop.", group, dead.iter().map(String::as_str)),
                [*topic],
                "{group}"
            );
        }
        assert!(Names::of(&settings, &"g".repeat(250), "x").is_err());
    }
}
