//! What goes wrong in practice with topics: told without making or changing any.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_core::findings::{Finding, Mend, asked};
use posthaste_core::{Error, Result};
use rdkafka::admin::{ConfigResource, ResourceSpecifier};
use rdkafka::error::KafkaError;
use rdkafka::metadata::MetadataTopic;

use super::KafkaBroker;
use super::link::words;
use super::lookup::{admin, look_at, missing};
use super::producer::{code_of, let_go};

/// How long the look may take, with the connection that it may have to make.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How long one question of it may: a cluster that is away must be found to be so before the look is broken off.
const ASK_WITHIN: Duration = Duration::from_secs(4);
/// Of so many topics something is said, where a prefix means many.
const TOPICS_MAX: usize = 20;
/// How topics end in which groups of consumers keep what is theirs.
const OF_GROUPS: [&str; 2] = [".retry", ".dlq"];
/// A consumer may be away over a weekend.
const AGE_MIN_MILLIS: i64 = 3 * 86_400_000;

/// A topic as the cluster and its settings show it.
struct Topic {
    name: String,
    /// Of the partition that has the fewest.
    replicas: usize,
    in_sync: usize,
    /// What it is set to, or why that is not known.
    settings: Result<BTreeMap<String, String>, String>,
}

impl KafkaBroker {
    /// What acknowledgements are worth, and everything about the topics that events are published to.
    pub(super) async fn examine_topics(&self) -> Vec<Finding> {
        let mut found = vec![self.acknowledgements()];
        found.extend(asked("topic", LOOK_WITHIN, self.topics()).await);
        found
    }

    fn acknowledgements(&self) -> Finding {
        const CHECK: &str = "acknowledgements";
        let mend = || Mend::words("take acks out of the URL; the default is all");
        match self.settings.doubt_of_acks() {
            Some(doubt) => Finding::warning(CHECK, doubt, mend()),
            None => Finding::ok(CHECK, "an event is delivered when all replicas in sync have it"),
        }
    }

    async fn topics(&self) -> Result<Vec<Finding>> {
        let topics = &self.settings.topics;
        let one = topics.topic.as_ref().map(|_| topics.name_of(""));
        if one.is_none() && topics.prefix.is_empty() {
            let seen =
                "which topic takes an event is decided by its own; name it (topic=NAME), and it is looked at";
            return Ok(vec![Finding::ok("topic", seen)]);
        }
        let mut found = self.known(one.clone()).await?;
        if found.is_empty() {
            return Ok(vec![self.none(one.as_deref())]);
        }
        self.read_settings(&mut found).await?;
        Ok(found.iter().flat_map(|topic| topic.judged(&self.cli())).collect())
    }

    /// The one topic of all events, or those that begin with the prefix.
    async fn known(&self, one: Option<String>) -> Result<Vec<Topic>> {
        let (live, patience) = (self.publishing.live()?, self.settings.link.patience.min(ASK_WITHIN));
        let (prefix, only) = (self.settings.topics.prefix.clone(), one.clone());
        let read = move |topics: &[MetadataTopic]| {
            let is_ours =
                |name: &str| name.starts_with(&prefix) && !OF_GROUPS.iter().any(|end| name.ends_with(end));
            let is_meant = |name: &str| only.as_deref().map_or_else(|| is_ours(name), |only| name == only);
            let there = topics.iter().filter(|topic| topic.error().is_none() && is_meant(topic.name()));
            there.take(TOPICS_MAX).map(Topic::of).collect()
        };
        // Of all topics and not of one: a cluster that creates topics would create the one that is asked for.
        let found = look_at(&live, None, patience, move |found| read(found.topics())).await;
        found.map_err(|error| live.away(&error))
    }

    fn none(&self, one: Option<&str>) -> Finding {
        let topics = &self.settings.topics;
        let seen = match one {
            Some(name) => format!("there is no topic {name:?}"),
            None => format!("no topic begins with {:?}", topics.prefix),
        };
        match (topics.create, one) {
            (Some(_), _) => Finding::ok("topic", format!("{seen}; it is created with its first event")),
            (None, Some(name)) => {
                let create =
                    format!("kafka-topics.sh --bootstrap-server {} --create --topic {name}", self.server());
                Finding::failure("topic", missing(name), Mend::command(create))
            }
            (None, None) => {
                let mend =
                    "create the topics of the lane, or let them be created with create_topics=PARTITIONS";
                Finding::warning("topic", format!("{seen}, and the lane waits for them"), Mend::words(mend))
            }
        }
    }

    /// What topics are set to, if this user may see it.
    async fn read_settings(&self, topics: &mut [Topic]) -> Result<()> {
        let (admin, options) = admin(&self.settings.link)?;
        let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
        let asked: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let answered = admin.describe_configs(&asked, &options).await;
        let_go(admin);
        let answered = answered.map_err(|error| not_told(&error))?;
        for (topic, resource) in topics.iter_mut().zip(answered) {
            topic.settings = resource.map(read).map_err(words);
        }
        Ok(())
    }

    fn server(&self) -> String {
        let (host, port) = &self.settings.link.hosts[0];
        format!("{host}:{port}")
    }

    /// How to change topics from a shell.
    fn cli(&self) -> String {
        format!("kafka-configs.sh --bootstrap-server {} --alter --entity-type topics", self.server())
    }
}

fn not_told(error: &KafkaError) -> Error {
    Error::unavailable(words(code_of(error))).during("ask how topics are set up")
}

fn read(resource: ConfigResource) -> BTreeMap<String, String> {
    resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect()
}

impl Topic {
    fn of(topic: &MetadataTopic) -> Self {
        let fewest = |of: fn(&rdkafka::metadata::MetadataPartition) -> usize| {
            topic.partitions().iter().map(of).min().unwrap_or_default()
        };
        Self {
            name: topic.name().to_owned(),
            replicas: fewest(|partition| partition.replicas().len()),
            in_sync: fewest(|partition| partition.isr().len()),
            settings: Err("nobody has answered".to_owned()),
        }
    }

    fn set_to(&self, name: &str) -> Option<&str> {
        self.settings.as_ref().ok()?.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.set_to(name)?.parse().ok()
    }

    /// What is wrong with a topic, or that nothing is.
    fn judged(&self, cli: &str) -> Vec<Finding> {
        let check = format!("topic {}", self.name);
        // A name of a topic has no character that means something to a shell.
        let set =
            |what: &str| Mend::command(format!("{cli} --entity-name {} --add-config {what}", self.name));
        let mut found = Vec::new();
        if let Err(why) = &self.settings {
            let mend =
                Mend::words("give the user of the URL the right to it (DescribeConfigs), and look again");
            found.push(Finding::warning(&check, format!("what it is set to cannot be read: {why}"), mend));
        }
        if self.set_to("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
            let seen =
                "it keeps the last event of each key and removes those before, read or not (cleanup.policy)";
            found.push(Finding::warning(&check, seen, set("cleanup.policy=delete")));
        }
        if self.number("retention.ms").is_some_and(|age| (0..AGE_MIN_MILLIS).contains(&age)) {
            let seen = "it removes events within three days, whether they were read or not (retention.ms)";
            found.push(Finding::warning(&check, seen, set("retention.ms=2592000000")));
        }
        if self.number("retention.bytes").is_some_and(|bytes| bytes >= 0) {
            let seen = "when it is full it removes its oldest events, read or not (retention.bytes)";
            found.push(Finding::warning(&check, seen, set("retention.bytes=-1")));
        }
        if self.set_to("unclean.leader.election.enable") == Some("true") {
            let seen = "a replica that missed events may become the leader, and they are lost (unclean.leader.election.enable)";
            found.push(Finding::warning(&check, seen, set("unclean.leader.election.enable=false")));
        }
        if self.replicas > 1 && self.number("min.insync.replicas").is_some_and(|least| least < 2) {
            let seen =
                "one replica alone acknowledges events while the others are away (min.insync.replicas)";
            found.push(Finding::warning(&check, seen, set("min.insync.replicas=2")));
        }
        if self.in_sync < self.replicas {
            let seen = format!("a partition has {} of {} replicas in sync", self.in_sync, self.replicas);
            found.push(Finding::warning(&check, seen, Mend::words("look which broker is away or behind")));
        }
        if found.is_empty() {
            let seen = match self.replicas {
                0 | 1 => {
                    "on one broker: what is acknowledged is lost with its disk, or with its machine before that wrote it"
                }
                _ => "on the disks of several brokers",
            };
            found.push(Finding::ok(check, seen));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::findings::Verdict;

    use super::*;

    fn topic(replicas: usize, in_sync: usize, settings: &[(&str, &str)]) -> Topic {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Topic { name: "t".to_owned(), replicas, in_sync, settings: Ok(settings.iter().map(owned).collect()) }
    }

    #[test]
    fn a_topic_that_loses_events_is_told_and_one_that_does_not_is_well() {
        let table = [
            (topic(1, 1, &[("min.insync.replicas", "1")]), Verdict::Ok),
            (topic(3, 3, &[("min.insync.replicas", "2"), ("cleanup.policy", "delete")]), Verdict::Ok),
            (topic(1, 1, &[("retention.ms", "-1"), ("retention.bytes", "-1")]), Verdict::Ok),
            (topic(3, 3, &[("min.insync.replicas", "1")]), Verdict::Warning),
            (topic(3, 2, &[]), Verdict::Warning),
            (topic(1, 1, &[("cleanup.policy", "compact,delete")]), Verdict::Warning),
            (topic(1, 1, &[("retention.ms", "3600000")]), Verdict::Warning),
            (topic(1, 1, &[("retention.bytes", "1")]), Verdict::Warning),
            (topic(1, 1, &[("unclean.leader.election.enable", "true")]), Verdict::Warning),
            (Topic { settings: Err("not allowed".to_owned()), ..topic(1, 1, &[]) }, Verdict::Warning),
        ];
        for (topic, verdict) in table {
            let found = topic.judged("cli");
            assert_eq!((found.len(), found[0].verdict), (1, verdict), "{found:?}");
        }
    }
}
