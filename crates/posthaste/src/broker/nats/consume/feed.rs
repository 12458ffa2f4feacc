//! A group's stream of deliveries: pulled from its consumers, as many as there is room for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use posthaste_core::broker::{Delivery, Feed, FeedSpec, Reason};
use posthaste_core::telemetry::field;
use posthaste_core::{BoxFuture, Error, Result, redact};
use tokio::time::{sleep, sleep_until, timeout};
use tracing::warn;

use super::notes::{NatsTrial, Note};
use super::pull::{Handed, Pulls, delivery_of};
use super::receipt::{Hold, Line, NatsReceipt, published_to};
use super::{Source, told};
use crate::broker::nats::link::{Link, Live};
use crate::broker::nats::naming;
use crate::broker::nats::wire::{self, decode};
use crate::broker::story::Story;

/// A message that came back so often without a word is on trial. Losing the broker once costs nobody anything.
const RETURNS_MIN: u32 = 2;
/// How long a feed that was dropped gives back what it had asked for; a little longer than a pull waits.
const FAREWELL: Duration = Duration::from_secs(3);
/// A note that could not be read is not asked for again at once.
const BRAKE: Duration = Duration::from_secs(1);

pub(super) struct NatsFeed {
    line: Arc<Line>,
    link: Link,
    live: Arc<Live>,
    sources: Vec<Arc<Source>>,
    inbox: String,
    messages: Option<Subscriber>,
    pulls: Pulls,
    ready: VecDeque<Delivery>,
    /// What is done with messages before a consumer sees them, or instead. Kept here, so that a `next` that is dropped ends none
    /// of it.
    chores: FuturesUnordered<BoxFuture<'static, Chore>>,
    spec: FeedSpec,
    prefix: String,
}

/// What came of something that was done with a message.
enum Chore {
    /// It was settled.
    Done(Result<()>),
    /// This is noted of it.
    Noted(Box<Hold>, Note),
}

impl NatsFeed {
    pub(super) async fn open(
        live: Arc<Live>,
        line: Arc<Line>,
        link: Link,
        sources: Vec<Arc<Source>>,
        spec: FeedSpec,
        prefix: String,
    ) -> Result<Self> {
        let inbox = live.client.new_inbox();
        let messages = live.client.subscribe(format!("{inbox}.*")).await;
        let messages = Some(messages.map_err(|error| told("listen for deliveries", &error))?);
        let (pulls, ready, chores) = (Pulls::default(), VecDeque::new(), FuturesUnordered::new());
        Ok(Self { line, link, live, sources, inbox, messages, pulls, ready, chores, spec, prefix })
    }

    async fn wait(&mut self, at_most: usize) -> Result<Vec<Delivery>> {
        let line = Arc::clone(&self.line);
        loop {
            let mut settled = std::pin::pin!(line.room.notified());
            settled.as_mut().enable();
            self.pull().await?;
            while self.ready.len() < at_most.max(1)
                && let Some(message) =
                    self.messages.as_mut().and_then(|messages| messages.next().now_or_never())
            {
                self.take_in(message)?;
            }
            let handed_out = line.outstanding().saturating_sub(self.ready.len() + self.chores.len());
            let count = at_most.max(1).min(self.ready.len()).min(line.prefetch().saturating_sub(handed_out));
            if count > 0 {
                return Ok(self.ready.drain(..count).collect());
            }
            let due = self.pulls.due();
            let messages = self.messages.as_mut().ok_or_else(|| Error::unavailable("the feed has ended"))?;
            tokio::select! {
                message = messages.next() => self.take_in(message)?,
                // There is room.
                () = settled => {}
                Some(chore) = self.chores.next(), if !self.chores.is_empty() => self.done(chore),
                () = async { match due { Some(due) => sleep_until(due).await, None => std::future::pending().await } } => {
                    if self.pulls.expire() {
                        return Err(Error::unavailable("NATS does not answer when asked for events"));
                    }
                }
                why = self.link.lost(self.live.generation) => return Err(Error::unavailable(why)),
            }
        }
    }

    /// Asks for as many as there is room for.
    async fn pull(&mut self) -> Result<()> {
        for (index, source) in self.sources.iter().enumerate() {
            let wanted = self.pulls.wanted(index, self.line.room());
            if wanted == 0 {
                continue;
            }
            let (number, what) = self.pulls.ask(index, wanted);
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", source.stream, source.names.consumer);
            let reply = format!("{}.{number}", self.inbox);
            let asked = self.live.client.publish_with_reply(subject, reply, what).await;
            asked.map_err(|error| told("ask for events", &error))?;
        }
        Ok(())
    }

    fn take_in(&mut self, message: Option<Message>) -> Result<()> {
        let message = message.ok_or_else(|| Error::unavailable("the subscription has ended"))?;
        match message.status {
            Some(status) => self.status(status, &message),
            None => {
                self.message(message);
                Ok(())
            }
        }
    }

    /// A pull has ended, or will have.
    fn status(&mut self, status: StatusCode, message: &Message) -> Result<()> {
        let words = message.description.clone().unwrap_or_default();
        if status == StatusCode::NO_RESPONDERS
            || words.contains("Consumer Deleted")
            || words.contains("Consumer is push")
        {
            let names: Vec<_> = self.sources.iter().map(|source| source.names.consumer.as_str()).collect();
            return Err(Error::unavailable(format!(
                "the server does not know a consumer of this group any more ({}), or JetStream is not ready: {words}",
                names.join(", ")
            )));
        }
        if status != StatusCode::IDLE_HEARTBEAT
            && let Some(number) = message.subject.rsplit('.').next().and_then(|number| number.parse().ok())
        {
            self.pulls.ended(number);
        }
        Ok(())
    }

    fn message(&mut self, message: Message) {
        let Some(reply) = message.reply else { return };
        let Some(handed) = delivery_of(&reply) else { return };
        let Handed { stream, consumer, delivered, sequence, nanos } = handed;
        let is_it = |source: &Arc<Source>| source.stream == stream && source.names.consumer == consumer;
        let Some(index) = self.sources.iter().position(is_it) else { return };
        self.pulls.took(index);
        self.line.took(&reply);
        let source = Arc::clone(&self.sources[index]);
        let headers = message.headers.unwrap_or_default();
        // A stream that was deleted and made anew counts from 1 again: the time tells its messages from those before.
        let note = format!("{}.{sequence}.{nanos}", source.notes);
        let hold = Hold {
            line: Arc::clone(&self.line),
            source,
            sequence,
            nanos,
            delivered,
            subject: published_to(&headers).unwrap_or_else(|| message.subject.to_string()),
            story: Story::read(|name| wire::text(&headers, name)),
            records: self.line.notes.of(note.clone(), Note::default()),
            headers,
            payload: message.payload,
            reply,
            is_open: true,
        };
        if delivered == 1 {
            return self.hand_on(hold, &Note::default());
        }
        let notes = self.line.notes.clone();
        self.chores.push(Box::pin(async move {
            match notes.read(&note).await {
                Ok(known) => Chore::Noted(Box::new(hold), known.unwrap_or_default()),
                Err(error) => {
                    sleep(BRAKE).await;
                    Chore::Done(Err(error))
                }
            }
        }));
    }

    fn done(&mut self, chore: Chore) {
        match chore {
            Chore::Done(Ok(())) => {}
            Chore::Done(Err(error)) => {
                warn!({ field::ERROR } = %error, "a message could not be put where it belongs; it comes again");
            }
            Chore::Noted(mut hold, note) => {
                let subject = format!("{}.{}.{}", hold.source.notes, hold.sequence, hold.nanos);
                hold.records = self.line.notes.of(subject, note.clone());
                self.hand_on(*hold, &note);
            }
        }
    }

    /// Makes a delivery of it, or does what must be done with what is none.
    fn hand_on(&mut self, mut hold: Hold, note: &Note) {
        let topic = naming::topic(&self.prefix, &hold.subject);
        if !hold.source.names.topic.matches(topic) || !self.spec.wants(topic) {
            return self.chores.push(Box::pin(async { Chore::Done(hold.ack().await) }));
        }
        let envelope = match decode(&hold.headers, topic, &hold.payload) {
            Ok(envelope) => Arc::new(envelope),
            Err(error) => {
                let reason = Reason::new("undecodable", redact::clean(&error.to_string()));
                return self.chores.push(Box::pin(async { Chore::Done(hold.bury(reason).await) }));
            }
        };
        note.add_to(&mut hold.story);
        let returns = hold.delivered.saturating_sub(1).saturating_sub(note.answered);
        let (attempt, records) = (hold.attempt(), Arc::clone(&hold.records));
        let mut delivery = Delivery::new(envelope, attempt, Box::new(NatsReceipt(hold)));
        if returns >= RETURNS_MIN {
            delivery = delivery.on_trial(Box::new(NatsTrial { records, has_begun: false }));
        }
        self.ready.push_back(delivery);
    }
}

impl Feed for NatsFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(self.wait(at_most))
    }
}

impl Drop for NatsFeed {
    /// Gives back what still comes, as long as the server may hand it out: a subscription that ended would let it wait there until
    /// it counts as dead.
    fn drop(&mut self) {
        let (Some(mut messages), Ok(runtime)) = (self.messages.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        if self.pulls.is_empty() {
            return;
        }
        let (line, mut pulls) = (Arc::clone(&self.line), std::mem::take(&mut self.pulls));
        runtime.spawn(timeout(FAREWELL, async move {
            while !pulls.is_empty()
                && let Some(message) = messages.next().await
            {
                match (message.status, message.reply) {
                    (None, Some(reply)) => line.give_back(reply),
                    (Some(StatusCode::IDLE_HEARTBEAT), _) => {}
                    _ => {
                        let number =
                            message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
                        pulls.ended(number.unwrap_or(0));
                    }
                }
            }
        }));
    }
}
