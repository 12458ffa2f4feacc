//! Hands a group's events to one of its members.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::dead::DeadLetter;
use super::group::{End, Entry, Group, Member};
use crate::broker::{Count, Delivery, Feed, Reason, Receipt};
use crate::{BoxFuture, Result};

pub(super) struct LocalFeed {
    inner: Arc<Inner>,
    group: Arc<Group>,
    member: Arc<Member>,
}

impl LocalFeed {
    pub(super) fn new(inner: Arc<Inner>, group: Arc<Group>, prefetch: u32) -> Self {
        let member = Member::new(prefetch);
        group.enter(&member);
        Self { inner, group, member }
    }

    async fn wait(&self, at_most: usize) -> Vec<Delivery> {
        loop {
            let mut woken = std::pin::pin!(self.member.wake.notified());
            woken.as_mut().enable();
            let (entries, due) = self.group.take(at_most.max(1).min(self.member.room()), Instant::now());
            let deliveries: Vec<Delivery> =
                entries.into_iter().filter_map(|entry| self.hand_out(entry)).collect();
            if !deliveries.is_empty() {
                return deliveries;
            }
            if self.inner.closed.load(Ordering::SeqCst) && self.group.is_drained() {
                return Vec::new();
            }
            match due {
                // Without room the time of a retry does not matter.
                Some(due) if self.member.room() > 0 => {
                    tokio::select! {
                        () = woken => {}
                        () = sleep_until(due) => {}
                    }
                }
                _ => woken.await,
            }
        }
    }

    fn hand_out(&self, entry: Entry) -> Option<Delivery> {
        if entry.expires_at.is_some_and(|at| at <= self.inner.options.clock.now()) {
            self.group.discard(&entry);
            after_settling(&self.inner, &self.group);
            return None;
        }
        self.member.outstanding.fetch_add(1, Ordering::AcqRel);
        let (envelope, attempt) = (Arc::clone(&entry.envelope), entry.attempt);
        let receipt = LocalReceipt {
            entry: Some(entry),
            inner: Arc::clone(&self.inner),
            group: Arc::clone(&self.group),
            member: Arc::clone(&self.member),
        };
        Some(Delivery::new(envelope, attempt, Box::new(receipt)))
    }
}

impl Feed for LocalFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(async move { Ok(self.wait(at_most).await) })
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        self.group.leave(&self.member);
        // Another member goes on, and a close need not wait for this one.
        self.group.wake_all();
        self.inner.room.notify_waiters();
    }
}

/// Settles one entry. Dropped without an answer, the entry is delivered again.
struct LocalReceipt {
    entry: Option<Entry>,
    inner: Arc<Inner>,
    group: Arc<Group>,
    member: Arc<Member>,
}

impl LocalReceipt {
    fn take(&mut self) -> Entry {
        self.entry.take().expect("a receipt is used once")
    }

    /// The member has room again.
    fn let_go(&self) {
        let before = self.member.outstanding.fetch_sub(1, Ordering::AcqRel);
        if before >= self.member.prefetch {
            self.member.wake.notify_one();
        }
    }

    fn settle(&mut self, end: &End) -> Entry {
        let entry = self.take();
        self.group.settle(&entry, end);
        self.let_go();
        after_settling(&self.inner, &self.group);
        entry
    }

    fn give_back(&mut self, after: Duration, counted: bool) {
        let Some(mut entry) = self.entry.take() else { return };
        if counted {
            entry.attempt = entry.attempt.saturating_add(1);
            entry.first_failed_at.get_or_insert_with(|| self.inner.options.clock.now());
        }
        self.group.give_back(entry, after);
        self.let_go();
        self.group.wake_all();
        // A group that nobody reads any more does not hold up a close.
        self.inner.room.notify_waiters();
    }
}

/// Whoever waits for room, for a key or for the end looks again.
fn after_settling(inner: &Inner, group: &Group) {
    let state = group.lock();
    let (left, has_ready, was_full) =
        (state.events, state.has_ready(), inner.is_full(state.events + 1, state.bytes, 0));
    drop(state);
    let closed = inner.closed.load(Ordering::Acquire);
    if has_ready || (closed && left == 0) {
        group.wake_all();
    }
    if was_full || closed {
        inner.room.notify_waiters();
    }
}

impl Receipt for LocalReceipt {
    fn ack(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.settle(&End::Delivered);
            Ok(())
        })
    }

    fn release(mut self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.give_back(after, count == Count::Attempt);
            Ok(())
        })
    }

    fn bury(mut self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            let entry = self.settle(&End::Dead);
            let now = self.inner.options.clock.now();
            self.inner.bury(DeadLetter::new(self.group.name(), entry, reason, now));
            Ok(())
        })
    }
}

impl Drop for LocalReceipt {
    fn drop(&mut self) {
        // Whoever had it was dropped; an event that kills its process would have killed this broker, too.
        self.give_back(Duration::ZERO, false);
    }
}
