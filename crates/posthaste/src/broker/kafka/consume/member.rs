//! What a feed, its deliveries and its threads have in common: the partitions that it has, and what was read of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::broker::FeedSpec;
use posthaste_core::time::{Clock as _, SystemClock, Timestamp};
use posthaste_core::{Error, Result};
use rdkafka::message::{Message as _, OwnedMessage};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::Names;
use super::offsets::{Ledger, Taken};
use super::state::{At, Message, Part, State};
use super::sweep::Swept;
use crate::broker::kafka::producer::Link;
use crate::broker::kafka::wire;

/// When an event that was released is due, in microseconds since 1970.
pub(super) const DUE: &str = "posthaste-due";

/// One of the topics that a feed reads.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) names: Arc<Names>,
    /// Whether it is the group's own, for what was released or sent again.
    pub(super) is_own: bool,
}

impl Source {
    pub(super) fn topic(&self) -> &str {
        if self.is_own { &self.names.retry } else { &self.names.main }
    }
}

/// What a feed, its deliveries and its threads have in common.
pub(super) struct Member {
    pub(super) group: String,
    pub(super) sources: Vec<Source>,
    pub(super) prefetch: usize,
    /// Whether the order of a key counts.
    pub(super) is_ordered: bool,
    /// Only these topics are meant, where one Kafka topic is for all.
    pub(super) sieve: Option<FeedSpec>,
    /// How long the brokers may take to answer.
    pub(super) patience: Duration,
    /// How long another member waits for what is at work here of a partition that it is to have.
    pub(super) rebalance_wait: Duration,
    pub(super) moving: Link,
    state: Mutex<State>,
    /// Rings for the threads: there is something to commit, something was settled, or it is over.
    pub(super) work: Condvar,
    /// Rings for the feed: there is something to hand out, or room for it, or the feed has failed.
    pub(super) news: Notify,
    /// How much of the changes is committed.
    pub(super) written: watch::Sender<u64>,
}

/// What became of something that was settled.
pub(super) struct Settled {
    /// Waiting for this is waiting until it is committed.
    ticket: u64,
    is_last: bool,
}

impl Member {
    pub(super) fn new(
        spec: &FeedSpec,
        sources: Vec<Source>,
        has_sieve: bool,
        consuming: &super::Consuming,
        patience: Duration,
        moving: Link,
    ) -> Self {
        Self {
            group: spec.group.clone(),
            sources,
            prefetch: spec.prefetch.max(1) as usize,
            is_ordered: spec.order == posthaste_core::lane::Order::PerKey,
            sieve: has_sieve.then(|| spec.clone()),
            patience,
            rebalance_wait: consuming.rebalance_wait,
            moving,
            state: Mutex::default(),
            work: Condvar::new(),
            news: Notify::new(),
            written: watch::Sender::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the feed: it is opened anew, and everything that was not settled comes again, in order.
    pub(super) fn fail(&self, why: impl Into<String>) {
        self.lock().failure.get_or_insert(why.into());
        self.news.notify_one();
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone().map(Error::unavailable)
    }

    /// Takes in what was read.
    pub(super) fn take_in(&self, message: OwnedMessage) {
        let Some(source) = self.sources.iter().position(|source| source.topic() == message.topic()) else {
            return;
        };
        let (at, offset) = ((source, message.partition()), message.offset());
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(part) = state.parts.get_mut(&at).filter(|part| !part.is_leaving && !state.is_feed_gone)
        else {
            return;
        };
        let taken = part.ledger.take(offset);
        state.changes += 1;
        if part.saved.is_none() {
            state.is_commit_wanted = true;
            self.work.notify_all();
        }
        let on_trial = match taken {
            Taken::New { on_trial } => on_trial,
            Taken::Known => return,
            Taken::Behind => {
                drop(guard);
                return self.fail(format!(
                    "partition {} of {:?} goes on before what was read of it: it was made anew, or lost its end",
                    at.1,
                    self.sources[source].topic()
                ));
            }
        };
        let epoch = part.epoch;
        let due = self.sources[source].is_own.then(|| due(&message)).flatten();
        let message = Message { at, epoch, offset, body: Arc::new(message), on_trial };
        state.put(message, due);
        drop(guard);
        self.news.notify_one();
    }

    /// Hands out what is there, as far as there is room.
    pub(super) fn hand_out(&self, at_most: usize) -> Vec<Message> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.ripen(Instant::now());
        let room = self.prefetch.saturating_sub(state.outstanding).min(at_most);
        let mut out = Vec::new();
        while out.len() < room
            && let Some(next) = state.ready.front()
        {
            let part = state.parts.get_mut(&next.at).filter(|part| part.epoch == next.epoch);
            if part.as_ref().is_some_and(|part| part.saved.is_none()) {
                // Soon.
                break;
            }
            let Some(message) = state.ready.pop_front() else { break };
            state.ready_bytes -= message.bytes();
            if let Some(part) = part.filter(|part| !part.is_leaving) {
                part.in_hand += 1;
                state.outstanding += 1;
                out.push(message);
            }
        }
        out
    }

    /// When the next one is due that is not yet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().later.keys().next().map(|(due, _)| *due)
    }

    /// It is not handled now: it is handed out again, unless it is to stay before what was behind it.
    pub(super) fn give_back(&self, message: &Message, in_order: bool) {
        let mut state = self.lock();
        state.left(message);
        let is_ours = state.part(message).is_some_and(|part| !part.is_leaving);
        if is_ours && !in_order && !state.is_feed_gone {
            state.ready_bytes += message.bytes();
            state.ready.push_front(message.clone());
        }
        drop(state);
        self.ring();
    }

    /// Whether it is still this feed's to settle.
    ///
    /// # Errors
    /// `Unavailable` if another member has its partition by now.
    pub(super) fn holds(&self, message: &Message) -> Result<()> {
        match self.lock().part(message).is_some_and(|part| part.ledger.holds(message.offset)) {
            true => Ok(()),
            false => Err(lost(&self.group)),
        }
    }

    /// It is done with.
    ///
    /// # Errors
    /// `Unavailable` if another member has its partition by now: that one hands it out again.
    pub(super) fn settle(&self, message: &Message) -> Result<Settled> {
        let mut state = self.lock();
        state.left(message);
        let is_ours = state.part(message).is_some_and(|part| part.ledger.settle(message.offset));
        state.changes += 1;
        let is_last = state.outstanding == 0 && state.ready.is_empty();
        state.is_commit_wanted |= is_last;
        let ticket = state.changes;
        drop(state);
        self.ring();
        if is_ours { Ok(Settled { ticket, is_last }) } else { Err(lost(&self.group)) }
    }

    /// Waits until the last one that is unsettled is committed, and for no other: a consumer that has settled everything repeats
    /// nothing when it comes again.
    pub(super) async fn committed(&self, settled: Settled) -> Result<()> {
        if settled.is_last { self.is_written(settled.ticket).await } else { Ok(()) }
    }

    /// Changes what is on record of a message, and waits until that is committed.
    pub(super) async fn record<T>(
        &self,
        message: &Message,
        change: impl FnOnce(&mut Ledger, i64) -> T,
    ) -> Result<T> {
        let (changed, ticket) = {
            let mut state = self.lock();
            let part = state.part(message).ok_or_else(|| lost(&self.group))?;
            let changed = change(&mut part.ledger, message.offset);
            state.changes += 1;
            state.is_commit_wanted = true;
            (changed, state.changes)
        };
        self.work.notify_all();
        self.is_written(ticket).await.map(|()| changed)
    }

    /// Its trial is over without a word: so it stands with the next commit.
    pub(super) fn take_back_trial(&self, message: &Message) {
        let mut state = self.lock();
        if let Some(part) = state.part(message) {
            part.ledger.end_trial(message.offset);
            state.changes += 1;
        }
    }

    async fn is_written(&self, ticket: u64) -> Result<()> {
        let mut written = self.written.subscribe();
        match timeout(self.patience, written.wait_for(|written| *written >= ticket)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::unavailable(
                "Kafka has not yet heard that it is done with; it is told as soon as it is there again",
            )),
        }
    }

    fn ring(&self) {
        self.work.notify_all();
        self.news.notify_one();
    }

    /// The feed is gone. What it had and did not hand out is for the next one.
    pub(super) fn end_feed(&self) {
        let mut state = self.lock();
        state.is_feed_gone = true;
        state.drop_unread(|_| true);
        drop(state);
        self.work.notify_all();
    }

    /// The feed and all its deliveries are gone.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.work.notify_all();
    }

    /// Nothing more of these partitions is handed out; waits until what is handed out of them is settled, or for as long as others
    /// can be kept waiting.
    pub(super) fn begin_leaving(&self, places: &[At]) {
        let mut state = self.lock();
        for at in places {
            if let Some(part) = state.parts.get_mut(at) {
                part.is_leaving = true;
            }
        }
        state.drop_unread(|message| places.contains(&message.at));
        let in_hand = |state: &mut State| {
            let is_at_work = |at| state.parts.get(at).is_some_and(|part: &Part| part.in_hand > 0);
            !state.is_over && state.failure.is_none() && places.iter().any(is_at_work)
        };
        drop(self.work.wait_timeout_while(state, self.rebalance_wait, in_hand));
    }

    /// These partitions are another member's: what is unsettled of them comes again, there.
    pub(super) fn forget(&self, places: &[At]) {
        let mut state = self.lock();
        state.fresh.retain(|at| !places.contains(at));
        state.drop_unread(|message| places.contains(&message.at));
        for at in places {
            state.parts.remove(at);
        }
    }

    /// Begins with a partition where the group was.
    pub(super) fn begin(&self, at: At, committed: Option<i64>, note: &str) {
        let mut state = self.lock();
        state.epochs += 1;
        state.changes += 1;
        state.is_commit_wanted = true;
        let ledger = Ledger::open(committed, note);
        let part = Part {
            epoch: state.epochs,
            ledger,
            saved: None,
            in_hand: 0,
            is_leaving: false,
            is_paused: false,
            swept: Swept::default(),
        };
        state.parts.insert(at, part);
        drop(state);
        self.work.notify_all();
    }
}

/// When a message that was released is due, if it is not yet.
fn due(message: &OwnedMessage) -> Option<Instant> {
    let due: i64 = wire::text(message.headers()?, DUE)?.parse().ok()?;
    let wait = Timestamp::from_micros(due).since(SystemClock.now());
    (!wait.is_zero()).then(|| Instant::now() + wait)
}

fn lost(group: &str) -> Error {
    Error::unavailable(format!(
        "another member of the group {group:?} has the partition by now, and hands it out again"
    ))
}
