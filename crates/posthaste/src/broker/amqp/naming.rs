//! What the queues of a subscription are called.
//!
//! A group has one queue for each of its topics (or patterns), not one for all: a topic that is added brings its own queue and
//! leaves the others as they are, and what fails on one topic waits and dies beside that topic. The price is that two patterns
//! of one group must not mean the same topic, or the group would get its events twice; that is refused.

use posthaste_core::pattern::Pattern;
use posthaste_core::{Error, Result};

use crate::broker::topics;

/// The longest name of anything in AMQP.
const NAME_BYTES_MAX: usize = 255;

/// Patterns for the names, in which `{group}`, `{queue}` and `{tier}` are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    prefix: String,
    retry: String,
    dead: String,
}

/// The names of one subscription: a group's queue for one topic, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Names {
    /// By which the queue is bound.
    pub(super) topic: Pattern,
    pub(super) queue: String,
    /// One for each tier.
    pub(super) retry: Vec<String>,
    pub(super) dead: String,
}

impl Naming {
    /// Begins the names of a group's queues so; `{group}` in it is the group. Without that it is for one group alone.
    pub(super) fn set_prefix(&mut self, pattern: &str) -> Result<()> {
        if pattern.is_empty() {
            return Err(Error::config("the prefix of queue names is empty"));
        }
        self.prefix = pattern.to_owned();
        Ok(())
    }

    /// Calls the retry queue of a tier so; `{queue}` and `{tier}` must be in it.
    pub(super) fn set_retry(&mut self, pattern: &str) -> Result<()> {
        needs(pattern, "{queue}")?;
        needs(pattern, "{tier}")?;
        self.retry = pattern.to_owned();
        Ok(())
    }

    /// Calls the dead queue so; `{queue}` must be in it, and something more.
    pub(super) fn set_dead(&mut self, pattern: &str) -> Result<()> {
        needs(pattern, "{queue}")?;
        if pattern == "{queue}" {
            return Err(Error::config("the dead queue cannot have the name of the queue itself"));
        }
        self.dead = pattern.to_owned();
        Ok(())
    }

    /// Whether every group has names of its own.
    pub(super) fn tells_groups_apart(&self) -> bool {
        self.prefix.contains("{group}")
    }

    /// What a group's names begin with.
    fn prefix_of(&self, group: &str) -> String {
        self.prefix.replace("{group}", group)
    }

    /// The names for one topic of a group.
    pub(super) fn of(&self, group: &str, topic: &Pattern, tiers: usize) -> Result<Names> {
        let queue = format!("{}.{topic}", self.prefix_of(group));
        let retry = |tier: usize| self.retry.replace("{queue}", &queue).replace("{tier}", &tier.to_string());
        let names = Names {
            topic: topic.clone(),
            retry: (0..tiers).map(retry).collect(),
            dead: self.dead.replace("{queue}", &queue),
            queue,
        };
        let all = [&names.queue, &names.dead].into_iter().chain(&names.retry);
        for name in all {
            check(name)?;
        }
        Ok(names)
    }

    /// The names for all topics of a group, each once.
    pub(super) fn of_all(&self, group: &str, topics: &[Pattern], tiers: usize) -> Result<Vec<Names>> {
        let chosen = topics::each_once(group, topics)?;
        chosen.into_iter().map(|topic| self.of(group, topic, tiers)).collect()
    }

    /// The queue that says which topics a group reads.
    pub(super) fn index(&self, group: &str) -> String {
        format!("{}.topics", self.prefix_of(group))
    }

    /// The queue in which the trials of a group are recorded.
    pub(super) fn trials(&self, group: &str) -> String {
        format!("{}.trials", self.prefix_of(group))
    }
}

/// `G.T`, `G.T.retry.N` with N from 0, `G.T.dlq`.
impl Default for Naming {
    fn default() -> Self {
        Self {
            prefix: "{group}".to_owned(),
            retry: "{queue}.retry.{tier}".to_owned(),
            dead: "{queue}.dlq".to_owned(),
        }
    }
}

fn needs(pattern: &str, part: &str) -> Result<()> {
    if pattern.contains(part) {
        return Ok(());
    }
    Err(Error::config(format!("the name {pattern:?} needs {part} in it, or several queues would be one")))
}

fn check(name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::config(format!(
            "the queue name {name:?} has {} bytes, and AMQP has room for {NAME_BYTES_MAX}; choose a shorter group or topic",
            name.len()
        )));
    }
    if name.starts_with("amq.") {
        return Err(Error::config(format!(
            "the queue name {name:?} begins with amq., which is the broker's own"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_the_groups_the_topics_and_their_role() {
        let names = Naming::default().of("ecom", &pattern("order.created"), 3).unwrap();
        assert_eq!(names.queue, "ecom.order.created");
        assert_eq!(names.retry, ["0", "1", "2"].map(|n| format!("ecom.order.created.retry.{n}")));
        assert_eq!(names.dead, "ecom.order.created.dlq");
    }

    #[test]
    fn every_name_can_be_chosen_as_long_as_they_stay_apart() {
        let mut naming = Naming::default();
        assert!(naming.tells_groups_apart());
        naming.set_prefix("shop:{group}").unwrap();
        naming.set_retry("{queue}/{tier}").unwrap();
        naming.set_dead("dead-{queue}").unwrap();
        let names = naming.of("g", &pattern("t"), 1).unwrap();
        assert_eq!((names.queue.as_str(), names.dead.as_str()), ("shop:g.t", "dead-shop:g.t"));
        assert_eq!(
            (names.retry, naming.index("g")),
            (vec!["shop:g.t/0".to_owned()], "shop:g.topics".to_owned())
        );
        naming.set_prefix("ecom").unwrap();
        assert!(!naming.tells_groups_apart());
        assert!(naming.set_prefix("").is_err());
        assert!(naming.set_retry("{queue}").is_err());
        assert!(naming.set_dead("{queue}").is_err());
    }

    #[test]
    fn a_group_reads_a_topic_by_one_pattern_only() {
        let of_all = |topics: &[&str]| {
            let topics: Vec<Pattern> = topics.iter().map(|topic| pattern(topic)).collect();
            Naming::default().of_all("g", &topics, 0).map(|names| names.len())
        };
        assert_eq!(of_all(&["orders", "stock.*", "orders"]).unwrap(), 2, "the same one twice is once");
        let error = of_all(&["orders.*", "*.eu"]).unwrap_err().to_string();
        assert!(error.contains("orders.* and *.eu"), "{error}");
    }

    #[test]
    fn names_that_the_broker_would_not_take_are_refused_here() {
        let long = Naming::default().of("g", &pattern(&"t".repeat(250)), 1).unwrap_err().to_string();
        assert!(long.contains("255"), "{long}");
        assert!(Naming::default().of("amq", &pattern("t"), 1).is_err());
    }
}
