//! The operator's side: a group's dead letters, listed, sent again, or given up.

use std::ops::ControlFlow;

use posthaste_core::admin::{Applied, Filter, LaneStats, Pace, Record};
use posthaste_core::lane::LaneName;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use redis::{Pipeline, Value};

use super::entry::{list, number, range, text};
use super::{Names, script};
use crate::broker::letter::{self, DeadLetters, Fate, LOOK_BYTES_MAX, LOOK_MAX, admin_of_dead_letters};
use crate::broker::redis::RedisBroker;
use crate::broker::redis::wire::{self, Fields, as_far_as_it_goes, decode, pack, with_story};
use crate::broker::story::Story;

/// Dead letters that are read at once.
const STEP: usize = 100;

admin_of_dead_letters!(RedisBroker);

impl DeadLetters for RedisBroker {
    const BROKER: &'static str = "Redis";
    type Place = Names;

    async fn groups(&self) -> Result<Vec<LaneStats>> {
        let groups = self.consume.known().groups.clone();
        let mut lanes = Vec::new();
        for (group, topics) in groups {
            let mut stats = LaneStats::new(group.parse()?);
            for topic in topics {
                let names = Names::of(&self.settings.prefix, &group, &topic);
                let (waiting, dead) = self.count(&group, &names).await?;
                stats.waiting += waiting;
                stats.dead += dead;
            }
            stats.accepted = stats.waiting + stats.dead;
            lanes.push(stats);
        }
        Ok(lanes)
    }

    /// The names of the filter's group, for the topics that its consumers have said they read.
    async fn places(&self, group: &LaneName, filter: &Filter) -> Result<Vec<Names>> {
        let mut question = redis::cmd("SMEMBERS");
        question.arg(self.index(group.as_str()));
        let mut topics: Vec<String> =
            list(self.consume.link.ask_one(question).await?).into_iter().filter_map(text).collect();
        if topics.is_empty() {
            // An account that may not write there has not said what it reads.
            topics = self.consume.known().groups.get(group.as_str()).cloned().unwrap_or_default();
            topics.extend(filter.topic.iter().filter(|topic| topic.is_literal()).map(ToString::to_string));
        }
        if topics.is_empty() {
            return Err(Error::not_found(format!(
                "nothing is known of a group {group} at this broker; check its name and the prefix of the URL, or name the topic that it reads"
            )));
        }
        topics.sort();
        topics.dedup();
        Ok(topics.iter().map(|topic| Names::of(&self.settings.prefix, group.as_str(), topic)).collect())
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
        let last = self.last(names).await?;
        let (mut from, mut left, mut bytes) = ("-".to_owned(), if bounded { LOOK_MAX } else { u32::MAX }, 0);
        while let Some(last) = &last {
            let mut question = redis::cmd("XRANGE");
            question.arg(&names.dead).arg(&from).arg(last).arg("COUNT").arg(STEP);
            let found = range(self.consume.link.ask_one(question).await?);
            let Some((end, _)) = found.last() else { break };
            from = format!("({end}");
            for (id, fields) in found {
                if left == 0 || (bounded && bytes >= LOOK_BYTES_MAX) {
                    applied.is_partial = true;
                    return Ok(ControlFlow::Continue(()));
                }
                left -= 1;
                let (record, size) = seen(filter, &names.topic, &id, &fields)?;
                bytes += size;
                if !letter::is_meant(filter, &record) {
                    continue;
                }
                if pace.after(*applied).await.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                applied.changed += self.act(names, tell(record), &id, fields).await?;
                applied.matched += 1;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl RedisBroker {
    /// The youngest dead letter of a topic.
    async fn last(&self, names: &Names) -> Result<Option<String>> {
        let mut question = redis::cmd("XREVRANGE");
        question.arg(&names.dead).arg("+").arg("-").arg("COUNT").arg(1);
        Ok(range(self.consume.link.ask_one(question).await?).pop().map(|(id, _)| id))
    }

    /// Takes one dead letter out of its stream: for ever, or to be handled again. Answers how many that were.
    async fn act(&self, names: &Names, fate: Fate, id: &str, fields: Fields) -> Result<u64> {
        let command = match fate {
            Fate::Keep => return Ok(0),
            Fate::Redrive => {
                let entry = pack(&with_story(fields, &Story::anew()));
                let mut command = script(include_str!("../lua/redrive.lua"), &[&names.dead, &names.retry]);
                command.arg(id).arg(entry);
                command
            }
            Fate::Discard => {
                let mut command = redis::cmd("XDEL");
                command.arg(&names.dead).arg(id);
                command
            }
        };
        let changed = number(&self.consume.link.ask_one(command).await?).unwrap_or(0);
        Ok(u64::try_from(changed).unwrap_or(0))
    }

    /// What waits for a group in a topic, as far as the server counts it, and what is dead.
    async fn count(&self, group: &str, names: &Names) -> Result<(u64, u64)> {
        let mut questions = Pipeline::new();
        questions.cmd("XLEN").arg(&names.dead);
        questions.cmd("ZCARD").arg(&names.later);
        for stream in [&names.stream, &names.retry] {
            questions.cmd("XINFO").arg("GROUPS").arg(stream);
        }
        let mut answers = self.consume.link.ask(&questions).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let count = |answer: &Value| number(answer).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        let (dead, mut waiting) = (count(&next()), count(&next()));
        for _ in 0..2 {
            waiting += list(next()).into_iter().map(|info| unsettled(info, group)).sum::<u64>();
        }
        Ok((waiting, dead))
    }
}

/// What a group has in hand and has not read, if this is told of it.
fn unsettled(info: Value, group: &str) -> u64 {
    let info = list(info);
    let told = |name: &str| {
        let mut pairs = info.chunks(2);
        pairs
            .find(|pair| text(pair[0].clone()).is_some_and(|found| found == name))
            .and_then(|pair| pair.get(1))
    };
    if told("name").cloned().and_then(text).is_none_or(|name| name != group) {
        return 0;
    }
    // How much is unread is known from Redis 7 on, and not after entries were removed.
    let counts = ["pending", "lag"].into_iter().filter_map(|name| told(name).and_then(number));
    counts.filter_map(|count| u64::try_from(count).ok()).sum()
}

/// A dead letter as an operator sees it, and its size.
fn seen(filter: &Filter, topic: &str, id: &str, fields: &Fields) -> Result<(Record, u64)> {
    // What is no event is shown as far as it goes.
    let envelope = decode(fields, topic).unwrap_or_else(|_| as_far_as_it_goes(fields, topic));
    let story = Story::read(|name| wire::text(fields, name));
    let millis = id.split('-').next().and_then(|millis| millis.parse::<i64>().ok()).unwrap_or(0);
    let died_at = Timestamp::from_micros(millis.saturating_mul(1_000));
    let size = envelope.payload.len() as u64;
    Ok((letter::record(filter, envelope, size, died_at, &story)?, size))
}
