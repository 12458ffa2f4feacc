//! A group's stream of deliveries: one connection on which it waits for new entries, and a look every now and then at what other
//! consumers have left.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use posthaste_core::broker::{Delivery, Feed, Reason};
use posthaste_core::telemetry::field;
use posthaste_core::{BoxFuture, Result, redact};
use redis::{Pipeline, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::entry::{Entry, read, taken};
use super::keeper::{Note, silence};
use super::receipt::{Hold, Line, RedisReceipt};
use super::trial::{Crashes, RETURNS_MIN, RedisTrial};
use super::{Member, millis, script};
use crate::broker::redis::link::{Link, refused};
use crate::broker::redis::wire::{decode, text};
use crate::broker::story::Story;

/// How long the server keeps a question for new entries open.
const WAIT: Duration = Duration::from_secs(2);
/// How often to look at what others have left.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Entries, and whether more are there.
type Found = (Vec<Entry>, bool);

pub(super) struct RedisFeed {
    line: Arc<Line>,
    /// On which it waits for new entries; nothing else travels there.
    waiting_on: Link,
    /// Feeds of this process that must end before this one begins.
    before: Vec<watch::Receiver<bool>>,
    /// What is under way. Kept here, so that a `next` that is dropped loses none of it.
    reading: Option<BoxFuture<'static, Result<Vec<Entry>>>>,
    looking: Option<BoxFuture<'static, Result<Found>>>,
    chores: FuturesUnordered<BoxFuture<'static, Result<()>>>,
    /// When to look again at what others have left.
    look_at: Instant,
    /// Whether everything that others have left was taken over since the feed was opened: new entries come after old ones.
    is_caught_up: bool,
    ready: VecDeque<Entry>,
}

impl RedisFeed {
    pub(super) fn new(line: Arc<Line>, waiting_on: Link, before: Vec<watch::Receiver<bool>>) -> Self {
        Self {
            line,
            waiting_on,
            before,
            reading: None,
            looking: None,
            chores: FuturesUnordered::new(),
            look_at: Instant::now(),
            is_caught_up: false,
            ready: VecDeque::new(),
        }
    }

    async fn wait(&mut self, at_most: usize) -> Result<Vec<Delivery>> {
        while let Some(end) = self.before.last_mut() {
            // An error means that it ended without a word.
            let _ = end.wait_for(|is_over| *is_over).await;
            self.before.pop();
        }
        let line = Arc::clone(&self.line);
        loop {
            let mut settled = std::pin::pin!(line.room.notified());
            settled.as_mut().enable();
            if let Some(error) = line.failure() {
                return Err(error);
            }
            let deliveries = self.hand_out(at_most.max(1));
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
            self.begin();
            let looks_later = self.looking.is_none() && line.room() > 0;
            tokio::select! {
                found = ended(&mut self.looking) => self.take_over(found)?,
                found = ended(&mut self.reading) => {
                    self.reading = None;
                    self.ready.extend(found?);
                }
                // There is room, or the feed has failed.
                () = settled => {}
                () = sleep_until(self.look_at), if looks_later => {}
                Some(done) = self.chores.next(), if !self.chores.is_empty() => report(done),
            }
        }
    }

    /// Begins what can be done now.
    fn begin(&mut self) {
        let room = self.line.room().saturating_sub(self.ready.len());
        if room == 0 {
            return;
        }
        if self.looking.is_none() && Instant::now() >= self.look_at {
            self.looking = Some(Box::pin(look(Arc::clone(&self.line.member), room)));
        }
        if self.reading.is_none() && self.is_caught_up {
            self.reading = Some(Box::pin(ask(self.waiting_on.clone(), Arc::clone(&self.line.member), room)));
        }
    }

    fn take_over(&mut self, found: Result<Found>) -> Result<()> {
        self.looking = None;
        let (entries, has_more) = found?;
        self.ready.extend(entries);
        self.is_caught_up |= !has_more;
        self.look_at = if has_more { Instant::now() } else { Instant::now() + LOOK_EVERY };
        Ok(())
    }

    /// Hands out what is there, as far as there is room.
    fn hand_out(&mut self, at_most: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < at_most
            && self.line.room() > 0
            && let Some(entry) = self.ready.pop_front()
        {
            deliveries.extend(self.deliver(entry));
        }
        deliveries
    }

    /// Makes a delivery of an entry; one that is no event is buried.
    fn deliver(&mut self, entry: Entry) -> Option<Delivery> {
        let Entry { source, id, fields, returns } = entry;
        let topic = &self.line.member.sources[source].names.topic;
        let story = Story::read(|name| text(&fields, name));
        let attempt = story.attempts.saturating_add(1);
        let decoded = decode(&fields, topic);
        self.line.outstanding.fetch_add(1, Ordering::AcqRel);
        let line = Arc::clone(&self.line);
        let mut hold =
            Hold { line, source, id, fields, story, attempt, in_order: false, crashes: None, is_open: true };
        let envelope = match decoded {
            Ok(envelope) => Arc::new(envelope),
            Err(error) => {
                let reason = Reason::new("undecodable", redact::clean(&error.to_string()));
                self.chores.push(Box::pin(hold.bury(reason)));
                return None;
            }
        };
        let crashes = (returns >= RETURNS_MIN)
            .then(|| Arc::new(Crashes::new(Arc::clone(&self.line), source, &envelope)));
        hold.in_order = self.line.member.is_ordered && envelope.key.is_some();
        hold.crashes.clone_from(&crashes);
        let delivery = Delivery::new(envelope, attempt, Box::new(RedisReceipt(hold)));
        Some(match crashes {
            Some(crashes) => delivery.on_trial(Box::new(RedisTrial { crashes, has_begun: false })),
            None => delivery,
        })
    }
}

impl Drop for RedisFeed {
    fn drop(&mut self) {
        for entry in self.ready.drain(..) {
            self.line.note(Note::Back { source: entry.source, id: entry.id });
        }
    }
}

impl Feed for RedisFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(self.wait(at_most))
    }
}

/// The end of what is under way; never if nothing is.
async fn ended<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

fn report(done: Result<()>) {
    if let Err(error) = done {
        warn!({ field::ERROR } = %error, "an entry could not be put where it belongs; it comes again");
    }
}

/// Waits for new entries, at most so many of each stream.
async fn ask(link: Link, member: Arc<Member>, most: usize) -> Result<Vec<Entry>> {
    let mut questions = Pipeline::with_capacity(1);
    let question = questions.cmd("XREADGROUP").arg("GROUP").arg(&member.group).arg(&member.name);
    question.arg("COUNT").arg(most).arg("BLOCK").arg(millis(WAIT)).arg("STREAMS");
    for source in &member.sources {
        question.arg(source.stream());
    }
    for _ in &member.sources {
        question.arg(">");
    }
    let answer = link.ask_within(&questions, WAIT + link.patience()).await?.pop();
    match answer {
        Some(Value::ServerError(error)) => {
            Err(refused(&error).into_error().during(format!("read as the group {:?}", member.group)))
        }
        answer => Ok(read(answer.unwrap_or(Value::Nil), |stream| {
            member.sources.iter().position(|source| source.stream() == stream)
        })),
    }
}

/// Takes over what others have left, at most so many of each stream.
async fn look(member: Arc<Member>, most: usize) -> Result<Found> {
    let mut questions = Pipeline::with_capacity(member.sources.len());
    for source in &member.sources {
        let mut command = script(include_str!("../lua/take_over.lua"), &[source.stream()]);
        command.arg(&member.group).arg(&member.name).arg(silence(&member)).arg(most);
        questions.add_command(command);
    }
    let (mut entries, mut has_more) = (Vec::new(), false);
    for (source, answer) in member.link.ask(&questions).await?.into_iter().enumerate() {
        if let Value::ServerError(error) = &answer {
            let doing = format!("take over what consumers of the group {:?} have left", member.group);
            return Err(refused(error).into_error().during(doing));
        }
        let (found, more) = taken(answer, source);
        has_more |= more;
        entries.extend(found);
    }
    Ok((entries, has_more))
}
