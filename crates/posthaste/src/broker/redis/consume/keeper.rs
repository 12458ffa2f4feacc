//! One task for each feed: it writes down what was settled, many at a time, says that the feed lives, moves
//! what is due, and gives back what the feed had when it is gone.
//!
//! It goes on while the server is unreachable: what is to be written down waits here, and is written when the
//! server is back. A receipt cannot send its acknowledgement by itself, because the client skips a request
//! whose caller was dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_core::telemetry::field;
use posthaste_core::{Error, Result};
use redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, warn};

use super::entry::number;
use super::{Member, NOBODY, Source, millis, script, superseded};
use crate::broker::redis::link::refused;

/// Notes that are written down at once.
const NOTES_MAX: usize = 500;
/// Entries that are moved at once when they are due.
const DUE_MAX: u32 = 200;
/// How often to look for what is due that somebody else released.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to wait for a server that is away.
const PAUSE: Duration = Duration::from_millis(200);

/// What happened to a delivery.
pub(super) enum Note {
    /// It is done with; whoever waits is told when that is written.
    Done { source: usize, id: String, told: Option<oneshot::Sender<()>> },
    /// It is given back.
    Back { source: usize, id: String },
    /// Something is due after this time.
    Due(Duration),
    /// A trial has ended by being let go.
    Over { source: usize, event: Vec<u8> },
}

/// The task's part of a feed.
pub(super) struct Keeper {
    member: Arc<Member>,
    notes: mpsc::UnboundedReceiver<Note>,
}

impl Keeper {
    pub(super) fn new(member: Arc<Member>, notes: mpsc::UnboundedReceiver<Note>) -> Self {
        Self { member, notes }
    }

    /// Works until the feed and its deliveries are gone.
    pub(super) async fn run(mut self) {
        let (mut waiting, mut tick) = (Vec::new(), Tick::new(self.member.claim_after));
        loop {
            tokio::select! {
                count = self.notes.recv_many(&mut waiting, NOTES_MAX) => if count == 0 { break },
                () = sleep_until(tick.next()) => {}
            }
            tick.take_in(&waiting);
            if let Err(error) = self.turn(&mut waiting, &mut tick).await {
                debug!({ field::ERROR } = %error, "what was settled waits to be written down");
                sleep(PAUSE).await;
            }
        }
        // Beyond that others take it over by themselves.
        let last = Instant::now() + self.member.claim_after;
        let leaving = async {
            while let Err(error) = self.leave(&mut waiting).await {
                debug!({ field::ERROR } = %error, "what a feed had waits to be given back");
                sleep(PAUSE).await;
            }
        };
        if timeout_at(last, leaving).await.is_err() {
            warn!(group = self.member.group, "what a feed had could not be given back; others take it over");
        }
    }

    async fn turn(&self, waiting: &mut Vec<Note>, tick: &mut Tick) -> Result<()> {
        self.write(waiting).await?;
        let now = Instant::now();
        if now >= tick.beat_at {
            self.beat().await?;
            tick.beat_at = now + tick.beat_every;
        }
        if now >= tick.look_at {
            let next = self.move_due().await?;
            tick.look_at = now + next.map_or(LOOK_EVERY, |next| next.min(LOOK_EVERY));
        }
        Ok(())
    }

    /// Writes down what waits; it waits on if that fails.
    async fn write(&self, waiting: &mut Vec<Note>) -> Result<()> {
        let mut questions = Pipeline::new();
        for (index, source) in self.member.sources.iter().enumerate() {
            let (mut done, mut back) = (Vec::new(), Vec::new());
            for note in waiting.iter() {
                match note {
                    Note::Done { source, id, .. } if *source == index => done.push(id.as_str()),
                    Note::Back { source, id } if *source == index => back.push(id.as_str()),
                    Note::Over { source: at, event } if *at == index => {
                        let mut over = script(include_str!("../lua/trial_end.lua"), &[&source.names.trials]);
                        over.arg(event);
                        questions.add_command(over);
                    }
                    _ => {}
                }
            }
            if !done.is_empty() {
                questions.cmd("XACK").arg(source.stream()).arg(&self.member.group).arg(&done);
                if source.is_own {
                    questions.cmd("XDEL").arg(source.stream()).arg(&done);
                }
            }
            if !back.is_empty() {
                let mut command = script(include_str!("../lua/back.lua"), &[source.stream()]);
                command.arg(&self.member.group).arg(&self.member.name).arg(NOBODY).arg(&back);
                questions.add_command(command);
            }
        }
        self.ask(&questions).await?;
        for note in waiting.drain(..) {
            if let Note::Done { told: Some(told), .. } = note {
                // Whoever does not wait any more knows what that means.
                let _ = told.send(());
            }
        }
        Ok(())
    }

    /// Says that the feed lives.
    async fn beat(&self) -> Result<()> {
        let mut questions = Pipeline::new();
        for source in &self.member.sources {
            let mut command = script(include_str!("../lua/beat.lua"), &[source.stream()]);
            command.arg(&self.member.group).arg(&self.member.name);
            command.arg(self.member.prefetch.saturating_mul(2).max(1_000));
            questions.add_command(command);
        }
        let first_lease = questions.len();
        for source in self.leased() {
            let mut command = script(include_str!("../lua/active.lua"), &[&source.names.active]);
            command.arg(&self.member.name).arg(silence(&self.member));
            questions.add_command(command);
        }
        let answers = self.ask(&questions).await?;
        if answers[first_lease..].iter().any(|answer| number(answer) != Some(1)) {
            self.member.fail(&superseded());
        }
        Ok(())
    }

    /// With order per key: the streams that this feed is the one to read, each once.
    fn leased(&self) -> impl Iterator<Item = &Source> {
        let sources = self.member.sources.iter().filter(|source| self.member.is_ordered && !source.is_own);
        sources.filter(|source| source.is_active.load(Ordering::Acquire))
    }

    /// Moves what is due; answers when the next one is.
    async fn move_due(&self) -> Result<Option<Duration>> {
        let mut questions = Pipeline::new();
        for source in self.member.sources.iter().filter(|source| source.is_own) {
            let mut command =
                script(include_str!("../lua/due.lua"), &[&source.names.later, &source.names.retry]);
            command.arg(DUE_MAX);
            questions.add_command(command);
        }
        let answers = self.ask(&questions).await?;
        let next = answers.iter().filter_map(number).filter_map(|next| u64::try_from(next).ok()).min();
        Ok(next.map(Duration::from_millis))
    }

    /// Gives back everything, and leaves the group.
    async fn leave(&self, waiting: &mut Vec<Note>) -> Result<()> {
        self.write(waiting).await?;
        let mut more = true;
        while more {
            let mut questions = Pipeline::new();
            for source in &self.member.sources {
                let mut command = script(include_str!("../lua/back.lua"), &[source.stream()]);
                command.arg(&self.member.group).arg(&self.member.name).arg(NOBODY);
                questions.add_command(command);
            }
            more = self.ask(&questions).await?.iter().filter_map(number).any(|count| count > 0);
        }
        let mut questions = Pipeline::new();
        for source in &self.member.sources {
            let keys = [source.stream(), &source.names.active];
            let mut command = script(include_str!("../lua/leave.lua"), &keys);
            command.arg(&self.member.group).arg(&self.member.name);
            questions.add_command(command);
        }
        self.ask(&questions).await.map(drop)
    }

    /// Asks all of it. A stream or group that was removed has nothing of ours any more.
    async fn ask(&self, questions: &Pipeline) -> Result<Vec<Value>> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.member.link.ask(questions).await?;
        match answers.iter().find_map(|answer| match answer {
            Value::ServerError(error) if !is_gone(error) => Some(Error::unavailable(refused(error).message)),
            _ => None,
        }) {
            Some(error) => Err(error),
            None => Ok(answers),
        }
    }
}

fn is_gone(error: &redis::ServerError) -> bool {
    error.code() == "NOGROUP" || error.details().is_some_and(|words| words.contains("NOGROUP"))
}

/// When to do what.
struct Tick {
    beat_every: Duration,
    beat_at: Instant,
    look_at: Instant,
}

impl Tick {
    fn new(claim_after: Duration) -> Self {
        let now = Instant::now();
        let beat_every = claim_after / 3;
        Self { beat_every, beat_at: now + beat_every, look_at: now }
    }

    fn next(&self) -> Instant {
        self.beat_at.min(self.look_at)
    }

    fn take_in(&mut self, notes: &[Note]) {
        let dues = notes.iter().filter_map(|note| match note {
            Note::Due(after) => Some(*after),
            _ => None,
        });
        if let Some(after) = dues.min() {
            self.look_at = self.look_at.min(Instant::now() + after);
        }
    }
}

/// The milliseconds after which a consumer without a sign of life has lost what it had.
pub(super) fn silence(member: &Member) -> u64 {
    millis(member.claim_after)
}
