//! Answers for one entry: acknowledged, set aside, buried, or given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_core::broker::{Count, Reason, Receipt};
use posthaste_core::{BoxFuture, Error, Result};
use redis::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::keeper::Note;
use super::trial::Crashes;
use super::{Member, Source, millis, script};
use crate::broker::redis::wire::{Fields, pack, with_story};
use crate::broker::story::Story;

/// Where an entry was before it was moved, so that no two entries of the group's own are the same.
const CAME_FROM: &str = "posthaste-entry";

/// What a feed and its deliveries share. When the last of them is gone, what they had is given back.
pub(super) struct Line {
    pub(super) member: Arc<Member>,
    pub(super) notes: mpsc::UnboundedSender<Note>,
    pub(super) outstanding: AtomicUsize,
}

impl Line {
    /// How many more deliveries may be unsettled.
    pub(super) fn room(&self) -> usize {
        self.member.prefetch.saturating_sub(self.outstanding.load(Ordering::Acquire))
    }

    pub(super) fn note(&self, note: Note) {
        // The keeper ends with its runtime; then nobody is left to hear anything.
        let _ = self.notes.send(note);
    }

    /// Answers whether nothing is unsettled any more.
    fn settled(&self) -> bool {
        let before = self.outstanding.fetch_sub(1, Ordering::AcqRel);
        if before >= self.member.prefetch {
            self.member.room.notify_one();
        }
        before == 1
    }
}

/// One entry that is not settled. Dropped, it is given back.
pub(super) struct Hold {
    pub(super) line: Arc<Line>,
    pub(super) source: usize,
    pub(super) id: String,
    pub(super) fields: Fields,
    pub(super) story: Story,
    /// Which attempt this is, from 1.
    pub(super) attempt: u32,
    /// Whether later ones must not pass it: it is given back together with them, when the feed is gone.
    pub(super) in_order: bool,
    /// What is recorded of it, if it is on trial.
    pub(super) crashes: Option<Arc<Crashes>>,
    pub(super) is_open: bool,
}

impl Hold {
    fn source(&self) -> &Source {
        &self.line.member.sources[self.source]
    }

    /// It is done with. Does not wait for that to be written, but for the last one that is unsettled: a consumer that has settled
    /// everything repeats nothing when it comes again.
    pub(super) async fn ack(mut self) -> Result<()> {
        if let Some(crashes) = self.crashes.take() {
            crashes.forget().await;
        }
        self.is_open = false;
        let is_last = self.line.settled();
        let (told, heard) = oneshot::channel();
        let (source, id) = (self.source, std::mem::take(&mut self.id));
        self.line.note(Note::Done { source, id, told: is_last.then_some(told) });
        if !is_last {
            return Ok(());
        }
        match timeout(self.line.member.link.patience(), heard).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::unavailable(
                "Redis has not yet heard that it is done with; it is told as soon as it is there again",
            )),
        }
    }

    /// Tried again after this time.
    pub(super) async fn release(mut self, after: Duration, count: Count) -> Result<()> {
        if self.in_order {
            return Ok(());
        }
        let crashes = self.crashes.as_ref().map_or(0, |crashes| crashes.known());
        self.story.failed(self.attempt.saturating_add(crashes), count);
        let mut fields = with_story(std::mem::take(&mut self.fields), &self.story);
        fields.push((CAME_FROM.into(), format!("{}:{}", self.source, self.id).into_bytes()));
        let names = Arc::clone(&self.source().names);
        let keys = [self.source().stream(), &names.later, &names.retry, &names.trials];
        let mut command = script(include_str!("../lua/release.lua"), &keys);
        // Rounded up, so that it never comes too early.
        let pause = millis(after) + u64::from(!after.subsec_nanos().is_multiple_of(1_000_000));
        self.name(&mut command).arg(pause).arg(pack(&fields)).arg(self.field());
        self.moved(command).await?;
        self.line.note(Note::Due(after));
        Ok(())
    }

    /// Dead, in the stream for that.
    pub(super) async fn bury(mut self, reason: Reason) -> Result<()> {
        self.story.failed(self.attempt, Count::Attempt);
        let stream = self.source().names.stream.clone();
        self.story.died(&stream, reason);
        let fields = with_story(std::mem::take(&mut self.fields), &self.story);
        let names = Arc::clone(&self.source().names);
        let keys = [self.source().stream(), &names.dead, &names.trials];
        let mut command = script(include_str!("../lua/bury.lua"), &keys);
        self.name(&mut command).arg(self.field());
        for (name, value) in &fields {
            command.arg(name).arg(value);
        }
        self.moved(command).await
    }

    /// Says whose entry it is, and which.
    fn name<'a>(&self, command: &'a mut redis::Cmd) -> &'a mut redis::Cmd {
        let member = &self.line.member;
        command.arg(&member.group).arg(&member.name).arg(&self.id).arg(u8::from(self.source().is_own))
    }

    /// Its field among the trials.
    fn field(&self) -> &[u8] {
        self.crashes.as_ref().map_or(&[], |crashes| crashes.event())
    }

    async fn moved(&mut self, command: redis::Cmd) -> Result<()> {
        let error = match self.line.member.link.ask_one(command).await {
            Ok(Value::Int(1)) => {
                self.is_open = false;
                self.line.settled();
                return Ok(());
            }
            Ok(_) => Error::unavailable(
                "another consumer of the group has it by now: there was no sign of life from this one for too long",
            ),
            Err(error) => error,
        };
        if self.in_order {
            // What is given back must come before what was behind it.
            self.line.member.fail(&error);
        }
        Err(error)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_open {
            self.line.settled();
            if self.in_order {
                return;
            }
            self.line.note(Note::Back { source: self.source, id: std::mem::take(&mut self.id) });
        }
    }
}

pub(super) struct RedisReceipt(pub(super) Hold);

impl Receipt for RedisReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.ack())
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.release(after, count))
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.bury(reason))
    }
}
