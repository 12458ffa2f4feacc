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
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::entry::{Entry, Found, found, read};
use super::keeper::{Note, silence};
use super::receipt::{Hold, Line, RedisReceipt};
use super::trial::{Crashes, RETURNS_MIN, RedisTrial};
use super::{Member, millis, script, superseded};
use crate::broker::redis::link::{Link, refused};
use crate::broker::redis::wire::{decode, text};
use crate::broker::story::Story;

/// How long the server keeps a question for new entries open.
const WAIT: Duration = Duration::from_secs(2);
/// How often to look at what others have left.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often to ask whether it is this feed's turn to read, where another one of the group does.
const ASK_EVERY: Duration = Duration::from_millis(100);

pub(super) struct RedisFeed {
    line: Arc<Line>,
    /// On which it waits for new entries; nothing else travels there.
    waiting_on: Link,
    /// What is under way. Kept here, so that a `next` that is dropped loses none of it.
    reading: Option<BoxFuture<'static, Result<Vec<Entry>>>>,
    looking: Option<BoxFuture<'static, Result<Vec<Found>>>>,
    chores: FuturesUnordered<BoxFuture<'static, Result<()>>>,
    /// When to look again at what others have left.
    look_at: Instant,
    /// For each stream, whether everything that others have left there was taken over: new entries come after old ones.
    is_caught_up: Vec<bool>,
    ready: VecDeque<Entry>,
}

impl RedisFeed {
    pub(super) fn new(line: Arc<Line>, waiting_on: Link) -> Self {
        Self {
            is_caught_up: vec![false; line.member.sources.len()],
            line,
            waiting_on,
            reading: None,
            looking: None,
            chores: FuturesUnordered::new(),
            look_at: Instant::now(),
            ready: VecDeque::new(),
        }
    }

    async fn wait(&mut self, at_most: usize) -> Result<Vec<Delivery>> {
        let line = Arc::clone(&self.line);
        loop {
            let mut settled = std::pin::pin!(line.member.room.notified());
            settled.as_mut().enable();
            if let Some(error) = line.member.failure() {
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
        let readable: Vec<usize> =
            (0..self.is_caught_up.len()).filter(|source| self.is_caught_up[*source]).collect();
        if self.reading.is_none() && !readable.is_empty() {
            let (link, member) = (self.waiting_on.clone(), Arc::clone(&self.line.member));
            self.reading = Some(if member.is_ordered {
                Box::pin(read_alone(link, member, readable, room))
            } else {
                Box::pin(read_with_others(link, member, readable, room))
            });
        }
    }

    fn take_over(&mut self, found: Result<Vec<Found>>) -> Result<()> {
        self.looking = None;
        let mut pause = LOOK_EVERY;
        for (source, found) in found?.into_iter().enumerate() {
            let is_all = found.cursor == "0-0";
            pause = match (found.is_active, is_all) {
                (false, _) => pause.min(ASK_EVERY),
                (true, false) => Duration::ZERO,
                (true, true) => pause,
            };
            self.is_caught_up[source] = found.is_active && (is_all || self.is_caught_up[source]);
            let was_active =
                self.line.member.sources[source].is_active.swap(found.is_active, Ordering::AcqRel);
            if was_active && !found.is_active {
                return Err(superseded());
            }
            self.ready.extend(found.entries);
        }
        self.look_at = Instant::now() + pause;
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

    /// Makes a delivery of an entry; one that is not meant is passed over, and one that is no event is buried.
    fn deliver(&mut self, entry: Entry) -> Option<Delivery> {
        let Entry { source, id, fields, returns } = entry;
        let topic = &self.line.member.sources[source].names.topic;
        let story = Story::read(|name| text(&fields, name));
        let attempt = story.attempts.saturating_add(1);
        let decoded = decode(&fields, topic);
        let sieve = self.line.member.sieve.as_ref();
        if let (Some(spec), Ok(envelope)) = (sieve, &decoded)
            && !spec.wants(&envelope.topic)
        {
            self.line.note(Note::Done { source, id, told: None });
            return None;
        }
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

/// Waits for new entries of these streams beside other members of the group, at most so many of each.
async fn read_with_others(
    link: Link,
    member: Arc<Member>,
    readable: Vec<usize>,
    most: usize,
) -> Result<Vec<Entry>> {
    let mut questions = Pipeline::with_capacity(1);
    let question = questions.cmd("XREADGROUP").arg("GROUP").arg(&member.group).arg(&member.name);
    question.arg("COUNT").arg(most).arg("BLOCK").arg(millis(WAIT)).arg("STREAMS");
    for source in &readable {
        question.arg(member.sources[*source].stream());
    }
    for _ in &readable {
        question.arg(">");
    }
    let answer = wait(&link, &member, &questions).await?;
    Ok(read(answer, |stream| member.sources.iter().position(|source| source.stream() == stream)))
}

/// Reads new entries of these streams as the only member that does, at most so many of each; waits until there are some.
///
/// The server sees with every read that this feed is still the one that reads: a question for new entries that waits at the server, or
/// on its way there, could be answered after another member has begun. So what waits is another question, which takes nothing.
async fn read_alone(
    link: Link,
    member: Arc<Member>,
    readable: Vec<usize>,
    most: usize,
) -> Result<Vec<Entry>> {
    let mut questions = Pipeline::with_capacity(readable.len());
    for source in readable.iter().map(|source| &member.sources[*source]) {
        let keys = [source.stream(), &source.names.active];
        let mut command = script(include_str!("../lua/read.lua"), &keys);
        command.arg(&member.group).arg(&member.name).arg(most);
        questions.add_command(command);
    }
    let (mut entries, mut ends) = (Vec::new(), Vec::new());
    for (source, answer) in readable.iter().zip(link.ask(&questions).await?) {
        let found = found(checked(answer, &member)?, *source);
        if !found.is_active {
            return Err(superseded());
        }
        entries.extend(found.entries);
        ends.push(found.cursor);
    }
    if entries.is_empty() {
        let mut questions = Pipeline::with_capacity(1);
        let question =
            questions.cmd("XREAD").arg("COUNT").arg(1).arg("BLOCK").arg(millis(WAIT)).arg("STREAMS");
        for source in &readable {
            question.arg(member.sources[*source].stream());
        }
        question.arg(&ends);
        wait(&link, &member, &questions).await?;
    }
    Ok(entries)
}

/// Asks one thing that the server may keep waiting.
async fn wait(link: &Link, member: &Member, question: &Pipeline) -> Result<Value> {
    let answer = link.ask_within(question, WAIT + link.patience()).await?.pop();
    checked(answer.unwrap_or(Value::Nil), member)
}

fn checked(answer: Value, member: &Member) -> Result<Value> {
    match answer {
        Value::ServerError(error) => {
            Err(refused(&error).into_error().during(format!("read as the group {:?}", member.group)))
        }
        answer => Ok(answer),
    }
}

/// Takes over what others have left, at most so many of each stream.
async fn look(member: Arc<Member>, most: usize) -> Result<Vec<Found>> {
    let mut questions = Pipeline::with_capacity(member.sources.len());
    for source in &member.sources {
        let mut command = if member.is_ordered {
            script(include_str!("../lua/take_all.lua"), &[source.stream(), &source.names.active])
        } else {
            script(include_str!("../lua/take_over.lua"), &[source.stream()])
        };
        command.arg(&member.group).arg(&member.name).arg(silence(&member)).arg(most);
        questions.add_command(command);
    }
    let answers = member.link.ask(&questions).await?.into_iter().enumerate();
    answers.map(|(source, answer)| Ok(found(checked(answer, &member)?, source))).collect()
}
