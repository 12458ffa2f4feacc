//! What failed for good: kept in a bounded buffer, readable as a list and as a stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use metrics::counter;
use tokio::sync::Notify;
use tracing::error;

use super::group::Entry;
use super::{Inner, LocalBroker, Trouble};
use crate::BoxStream;
use crate::broker::Reason;
use crate::envelope::Envelope;
use crate::telemetry::{field, metric};
use crate::time::Timestamp;

/// An event that failed for good in a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// In this group.
    pub group: String,
    /// The event.
    pub envelope: Arc<Envelope>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it is dead.
    pub reason: Reason,
    /// When it first failed.
    pub first_failed_at: Timestamp,
    /// When it became dead.
    pub dead_at: Timestamp,
    pub(super) entry: Entry,
}

impl DeadLetter {
    pub(super) fn new(group: &str, entry: Entry, reason: Reason, now: Timestamp) -> Self {
        Self {
            group: group.to_owned(),
            envelope: Arc::clone(&entry.envelope),
            attempts: reason.attempts.unwrap_or(entry.attempt),
            reason: Reason::new(reason.code, reason.message),
            first_failed_at: entry.first_failed_at.unwrap_or(now),
            dead_at: now,
            entry,
        }
    }
}

pub(super) struct DeadLetters {
    letters: Mutex<VecDeque<DeadLetter>>,
    max: usize,
    dropped: AtomicU64,
    ended: AtomicBool,
    arrived: Notify,
}

impl DeadLetters {
    pub(super) fn new(max: usize) -> Self {
        Self {
            letters: Mutex::default(),
            max,
            dropped: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            arrived: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, VecDeque<DeadLetter>> {
        self.letters.lock().expect("nobody panics while holding it")
    }

    /// Streams end once they have read what is there.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.arrived.notify_waiters();
    }
}

impl Inner {
    pub(super) fn bury(&self, letter: DeadLetter) {
        let mut letters = self.dead.lock();
        letters.push_back(letter);
        let over = if letters.len() > self.dead.max { letters.pop_front() } else { None };
        drop(letters);
        self.dead.arrived.notify_waiters();
        if let Some(dropped) = over {
            self.dead.dropped.fetch_add(1, Ordering::Relaxed);
            counter!(metric::LOCAL_DEAD_DROPPED_TOTAL).increment(1);
            error!(
                { field::EVENT_ID } = dropped.envelope.id,
                group = dropped.group,
                "the buffer of dead letters is full; the oldest was dropped"
            );
            self.give_up(&dropped);
            self.report(&Trouble::DeadDropped(dropped));
        }
    }

    /// A letter leaves the buffer without being tried again.
    pub(super) fn give_up(&self, letter: &DeadLetter) {
        let groups = self.groups.read().expect("nobody panics while holding it");
        if let Some(group) = groups.iter().find(|group| group.name() == letter.group) {
            group.give_up_dead();
        }
    }

    fn take_letter(&self) -> Option<DeadLetter> {
        let letter = self.dead.lock().pop_front()?;
        self.give_up(&letter);
        Some(letter)
    }
}

impl LocalBroker {
    /// What is dead now, the oldest first. Changes nothing.
    pub fn dead(&self) -> Vec<DeadLetter> {
        self.inner.dead.lock().iter().cloned().collect()
    }

    /// How many dead letters were dropped because the buffer was full.
    pub fn dead_dropped(&self) -> u64 {
        self.inner.dead.dropped.load(Ordering::Relaxed)
    }

    /// What is dead and becomes dead, the oldest first. Each letter is taken out of the buffer by whoever reads it; the
    /// stream ends when the broker was closed.
    pub fn dead_letters(&self) -> BoxStream<'static, DeadLetter> {
        let inner = Arc::clone(&self.inner);
        Box::pin(futures_util::stream::unfold(inner, |inner| async move {
            loop {
                let mut arrived = std::pin::pin!(inner.dead.arrived.notified());
                arrived.as_mut().enable();
                if let Some(letter) = inner.take_letter() {
                    return Some((letter, Arc::clone(&inner)));
                }
                if inner.dead.ended.load(Ordering::SeqCst) {
                    return None;
                }
                arrived.await;
            }
        }))
    }
}
