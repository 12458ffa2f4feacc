//! Remembers at the server which event a consumer has begun to handle, so that one that kills its consumers is found out.
//!
//! Redis counts how often an entry was handed out, but not why it came back, and neighbours of a killer come back as often as it
//! does. So what came back often is handled alone, and counted in the group's trials from before to after. A count that is left
//! there is a process that ended in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use posthaste_core::broker::Trial;
use posthaste_core::envelope::Envelope;
use posthaste_core::{BoxFuture, Error, Result};
use redis::{Pipeline, Value};

use super::keeper::Note;
use super::receipt::Line;
use super::script;
use crate::broker::redis::link::refused;

/// An entry that came back so often is on trial. Losing the server once costs nobody anything.
pub(super) const RETURNS_MIN: u32 = 2;
/// How long trials are kept: what was settled elsewhere leaves a count behind if a process ends in a bad moment.
const KEPT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// What is known of an event that is on trial.
pub(super) struct Crashes {
    line: Arc<Line>,
    source: usize,
    /// Its field among the trials.
    event: Vec<u8>,
    known: AtomicU32,
}

impl Crashes {
    pub(super) fn new(line: Arc<Line>, source: usize, envelope: &Envelope) -> Self {
        let event = [envelope.source.as_str(), &envelope.id].join("\n").into_bytes();
        Self { line, source, event, known: AtomicU32::new(0) }
    }

    pub(super) fn known(&self) -> u32 {
        self.known.load(Ordering::Acquire)
    }

    pub(super) fn event(&self) -> &[u8] {
        &self.event
    }

    fn trials(&self) -> &str {
        &self.line.member.sources[self.source].names.trials
    }

    /// The event is settled, and what was recorded of it is of no use any more.
    pub(super) async fn forget(&self) {
        let mut command = redis::cmd("HDEL");
        command.arg(self.trials()).arg(&self.event);
        // What stays behind goes by its age.
        let _ = self.line.member.link.ask_one(command).await;
    }

    async fn count(&self) -> Result<u32> {
        let mut questions = Pipeline::new();
        questions.cmd("HINCRBY").arg(self.trials()).arg(&self.event).arg(1);
        questions.cmd("PEXPIRE").arg(self.trials()).arg(KEPT_MS_MAX);
        match self.line.member.link.ask(&questions).await?.into_iter().next() {
            Some(Value::Int(count)) => Ok(u32::try_from(count.saturating_sub(1)).unwrap_or(0)),
            Some(Value::ServerError(error)) => Err(refused(&error).into_error()),
            _ => Err(Error::unavailable("Redis gave no count")),
        }
    }
}

/// An event on trial.
pub(super) struct RedisTrial {
    pub(super) crashes: Arc<Crashes>,
    pub(super) has_begun: bool,
}

impl RedisTrial {
    /// The process is there, so whatever began was ended by something else than this event.
    fn is_over(&mut self) {
        if std::mem::take(&mut self.has_begun) {
            let (source, event) = (self.crashes.source, self.crashes.event.clone());
            self.crashes.line.note(Note::Over { source, event });
        }
    }
}

impl Trial for RedisTrial {
    fn begin(&mut self) -> BoxFuture<'_, Result<u32>> {
        Box::pin(async {
            self.is_over();
            // Whether it is written or not, from here on it may be.
            self.has_begun = true;
            let crashes = self.crashes.count().await?;
            self.crashes.known.store(crashes, Ordering::Release);
            Ok(crashes)
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            if self.has_begun {
                let trials = self.crashes.trials();
                let mut command = script(include_str!("../lua/trial_end.lua"), &[trials]);
                command.arg(&self.crashes.event);
                self.crashes.line.member.link.ask_one(command).await?;
                self.has_begun = false;
            }
            Ok(())
        })
    }
}

impl Drop for RedisTrial {
    fn drop(&mut self) {
        self.is_over();
    }
}
