//! The threads of a feed: one reads, and takes part in sharing out the partitions; the other one commits.
//!
//! The first never waits for those who handle events: it reads on, or pauses what nobody has room for, and so the group never takes
//! a slow consumer for a dead one.
//!
//! The second commits one after another and synchronously, so that it knows which commit failed. Both end
//! when the feed and its last delivery are gone. The runtime waits for the first, so that the group is left
//! in order and other members need not wait for `session_timeout`.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::telemetry::field;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tracing::{debug, warn};

use super::member::Member;
use super::offsets::Place;
use super::state::{At, Part, State};
use crate::broker::kafka::link::{self, Fault, fault, words};

/// How long the reader waits for something new before it looks what else there is to do.
const TURN: Duration = Duration::from_millis(50);
/// What was settled is committed after so long at most.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// How often to ask for brokers that are away, and how long each may take to say that it is there.
const PROBE_EVERY: Duration = Duration::from_secs(1);

pub(super) type Reader = BaseConsumer<Watch>;

/// Takes part in sharing out the partitions of the group.
pub(super) struct Watch {
    pub(super) member: Arc<Member>,
}

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        link::log(level, facility, message);
    }

    fn error(&self, _: KafkaError, _: &str) {
        // Whoever reads gets it too.
    }
}

impl ConsumerContext for Watch {
    fn pre_rebalance(&self, reader: &Reader, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            let places = self.places(list);
            debug!(group = self.member.group, ?places, "partitions go");
            if !reader.assignment_lost() {
                self.member.begin_leaving(&places);
                self.member.close(&places);
            }
            self.member.forget(&places);
        }
    }

    fn post_rebalance(&self, _: &Reader, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                let places = self.places(list);
                debug!(group = self.member.group, ?places, "partitions come");
                let mut state = self.member.lock();
                state.shared_out += 1;
                state.fresh.extend(places);
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => self.member.fail(error.to_string()),
        }
        self.member.news.notify_one();
    }
}

impl Watch {
    fn places(&self, list: &TopicPartitionList) -> Vec<At> {
        let at = |topic: &str, partition| {
            let source = self.member.sources.iter().position(|source| source.topic() == topic)?;
            Some((source, partition))
        };
        list.elements().iter().filter_map(|one| at(one.topic(), one.partition())).collect()
    }
}

/// Reads until the feed and its deliveries are gone; then has what is settled committed, and leaves the group.
pub(super) fn run(reader: Reader) {
    let member = Arc::clone(&reader.context().member);
    let reader = Arc::new(reader);
    let committing = Arc::clone(&reader);
    // A commit waits for brokers that are away without end, so nobody waits for this one without end.
    let started = std::thread::Builder::new().name("kafka-commit".to_owned()).spawn(move || {
        let member = Arc::clone(&committing.context().member);
        member.commit_until_left(&committing);
        drop(committing);
        member.lock().has_committer_ended = true;
        member.work.notify_all();
    });
    if let Err(error) = started {
        return member.fail(format!("start a thread: {error}"));
    }
    let mut outage = None;
    while !member.lock().is_over {
        let read = reader.poll(TURN);
        begin_fresh(&member, &reader);
        match read {
            Some(Ok(message)) => {
                outage = None;
                member.take_in(message.detach());
            }
            Some(Err(error)) => hear(&member, &error, &mut outage),
            None => {}
        }
        tend(&member, &reader);
        probe(&member, &reader, &mut outage);
    }
    let places: Vec<At> = member.lock().parts.keys().copied().collect();
    let is_closed = member.close(&places);
    member.leave(is_closed);
    // Dropping the reader leaves the group, so that others need not wait until it counts as dead.
}

/// Since when brokers are away, and when they were asked for last.
struct Outage {
    since: Instant,
    asked_at: Instant,
    why: Code,
}

fn hear(member: &Member, error: &KafkaError, outage: &mut Option<Outage>) {
    let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
    debug!(group = member.group, { field::ERROR } = %error, "while reading");
    let is_final = matches!(error, KafkaError::MessageConsumptionFatal(_))
        || matches!(fault(code), Fault::Missing | Fault::Forbidden | Fault::Fatal)
        || matches!(code, Code::Authentication | Code::SaslAuthenticationFailed);
    if is_final {
        return member.fail(format!(
            "Kafka refused to let the group {:?} read: {}",
            member.group,
            words(code)
        ));
    }
    if matches!(code, Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve) {
        let now = Instant::now();
        outage.get_or_insert(Outage { since: now, asked_at: now, why: code });
    }
}

/// Asks for brokers that were said to be away. If they stay away, the feed has failed: whoever reads it learns of that.
fn probe(member: &Member, reader: &Reader, outage: &mut Option<Outage>) {
    let Some(away) = outage.as_mut() else { return };
    if away.asked_at.elapsed() < PROBE_EVERY || member.lock().is_feed_gone {
        return;
    }
    let topic = member.sources.first().map(|source| source.topic());
    if reader.fetch_metadata(topic, PROBE_EVERY).is_ok() {
        *outage = None;
    } else if away.since.elapsed() > member.patience {
        member.fail(words(away.why));
    } else {
        away.asked_at = Instant::now();
    }
}

/// Begins with partitions that have come, where the group was.
fn begin_fresh(member: &Member, reader: &Reader) {
    let fresh = std::mem::take(&mut member.lock().fresh);
    if fresh.is_empty() {
        return;
    }
    let mut list = TopicPartitionList::with_capacity(fresh.len());
    for (source, partition) in &fresh {
        list.add_partition(member.sources[*source].topic(), *partition);
    }
    match reader.committed_offsets(list, member.patience) {
        Ok(found) => {
            for at in fresh {
                let found = found.find_partition(member.sources[at.0].topic(), at.1);
                let offset = found.as_ref().and_then(|found| match found.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                });
                member.begin(at, offset, found.as_ref().map_or("", |found| found.metadata()));
            }
            member.news.notify_one();
        }
        Err(error) => member.fail(format!("ask where the group {:?} was: {error}", member.group)),
    }
}

/// Pauses partitions for which there is no room, and goes on with those for which there is again.
fn tend(member: &Member, reader: &Reader) {
    let (mut pause, mut resume) = (TopicPartitionList::new(), TopicPartitionList::new());
    let mut state = member.lock();
    let places: Vec<At> = state.parts.keys().copied().collect();
    for at in places {
        let source = &member.sources[at.0];
        let is_wanted = state.is_wanted(at, source.is_own, member.prefetch);
        let Some(part) = state.parts.get_mut(&at) else { continue };
        if part.is_paused == is_wanted {
            part.is_paused = !is_wanted;
            let list = if is_wanted { &mut resume } else { &mut pause };
            list.add_partition(source.topic(), at.1);
        }
    }
    drop(state);
    let done = [
        if pause.count() > 0 { reader.pause(&pause) } else { Ok(()) },
        if resume.count() > 0 { reader.resume(&resume) } else { Ok(()) },
    ];
    if let Some(error) = done.into_iter().find_map(Result::err) {
        member.fail(format!("pause or resume partitions: {error}"));
    }
}

impl Member {
    /// Commits what is settled, every now and then and when somebody waits for it.
    fn commit_until_left(&self, reader: &Reader) {
        loop {
            let state = self.lock();
            let waits = |state: &mut State| !state.is_commit_wanted && !state.has_left;
            let waited = self.work.wait_timeout_while(state, COMMIT_EVERY, waits);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.has_left {
                return;
            }
            state.is_commit_wanted = false;
            let is_new = state.changes > *self.written.borrow();
            drop(state);
            if is_new && !self.commit(reader) {
                // Not at once again, whoever waits.
                let mut state = self.lock();
                state.failed_commits += 1;
                self.work.notify_all();
                let waited = self.work.wait_timeout_while(state, COMMIT_EVERY, |state| !state.has_left);
                waited.unwrap_or_else(PoisonError::into_inner).0.is_commit_wanted = true;
            }
        }
    }

    /// Has these partitions committed for the last time, and waits for that. Answers whether they were.
    fn close(&self, places: &[At]) -> bool {
        let mut state = self.lock();
        for (_, part) in state.parts.iter_mut().filter(|(at, _)| places.contains(at)) {
            part.ledger.close();
        }
        state.changes += 1;
        state.is_commit_wanted = true;
        self.work.notify_all();
        // One may have been under way and know nothing of this.
        let patience = state.failed_commits + 2;
        let is_saved = |state: &State| {
            let is_saved =
                |(at, part): (&At, &Part)| !places.contains(at) || part.saved == part.ledger.place();
            state.parts.iter().all(is_saved)
        };
        let waits =
            |state: &mut State| !is_saved(state) && state.failed_commits < patience && !state.has_left;
        let waited = self.work.wait_timeout_while(state, self.patience, waits);
        let is_closed = is_saved(&waited.unwrap_or_else(PoisonError::into_inner).0);
        if !is_closed {
            warn!(group = self.group, "what was settled could not be committed; some of it comes again");
        }
        is_closed
    }

    /// Lets the other thread end, and waits for it unless it is known to be held up.
    fn leave(&self, waits: bool) {
        let mut state = self.lock();
        state.has_left = true;
        self.work.notify_all();
        if waits {
            let has_ended = |state: &mut State| !state.has_committer_ended;
            drop(self.work.wait_timeout_while(state, self.patience, has_ended));
        }
    }

    /// Commits what is settled, as far as that is news. Answers whether it did.
    fn commit(&self, reader: &Reader) -> bool {
        let (changes, due) = self.unsaved();
        if !due.is_empty() {
            let mut list = TopicPartitionList::with_capacity(due.len());
            for ((source, partition), _, place) in &due {
                let mut one = list.add_partition(self.sources[*source].topic(), *partition);
                one.set_metadata(&place.note);
                if one.set_offset(Offset::Offset(place.offset)).is_err() {
                    return false;
                }
            }
            if let Err(error) = reader.commit(&list, CommitMode::Sync) {
                let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
                if code == Code::OffsetMetadataTooLarge || fault(code) == Fault::Forbidden {
                    self.fail(format!(
                        "the group {:?} cannot commit (its notes need offset.metadata.max.bytes=4096, which is the default): {}",
                        self.group,
                        words(code)
                    ));
                }
                debug!(group = self.group, { field::ERROR } = %error, "what was settled waits to be committed");
                return false;
            }
            self.sweep(&due);
        }
        let mut state = self.lock();
        for (at, epoch, place) in due {
            if let Some(part) = state.parts.get_mut(&at).filter(|part| part.epoch == epoch) {
                part.saved = Some(place);
            }
        }
        drop(state);
        self.written.send_replace(changes);
        self.work.notify_all();
        self.news.notify_one();
        true
    }

    /// What is to be committed, and how many changes are in it.
    fn unsaved(&self) -> (u64, Vec<(At, u64, Place)>) {
        let state = self.lock();
        let due = state.parts.iter().filter_map(|(at, part)| {
            let place = part.ledger.place().filter(|place| part.saved.as_ref() != Some(place))?;
            Some((*at, part.epoch, place))
        });
        (state.changes, due.collect())
    }
}
