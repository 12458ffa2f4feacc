//! One channel on which events are published, and what is unconfirmed on it.

mod slots;

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use posthaste_core::redact::clean;
use posthaste_core::{Error, Result};
use tokio::time::{Instant, Sleep, sleep, timeout};

use self::slots::{Awaited, Slot, Slots};
use super::{Answers, Said, Work};
use crate::broker::amqp::link::{Link, Opened, Refusal, refusal, told};
use crate::broker::amqp::wire::{Body, Message};

/// Batches that wait for the channel, at most.
const BATCHES_MAX: usize = 16;
/// With more than so many on their way they are looked at every now and then, and not whenever one has news: a wake-up for
/// each would cost more than the publishing itself.
const CROWD: usize = 32;
/// How often that is.
const TICK: Duration = Duration::from_millis(1);
/// Returned messages whose event is not known, at most: of events that were given up meanwhile.
const STRAYS_MAX: usize = 1_000;

/// Messages for this channel, each with its number, and where the answers go.
pub(super) struct Batch {
    pub(super) messages: Vec<(usize, Message)>,
    pub(super) answers: Answers,
}

/// What a batch became when all of it was written to the socket.
type Sent = Vec<(usize, u64, Body, lapin::Result<PublisherConfirm>)>;

pub(super) struct Press {
    link: Link,
    confirm_timeout: Duration,
    mandatory: bool,
    waiting: VecDeque<Batch>,
    opening: Option<Work<Result<Opened>>>,
    opened: Option<Opened>,
    sending: Option<Sending>,
    slots: Slots,
    /// The confirms of the slots. Each is looked at when it has something to say, not whenever any of them has.
    awaited: FuturesUnordered<Awaited>,
    /// The numbers of slots that know what became of them.
    heard: Vec<u64>,
    /// Returned messages that no slot was found for yet.
    strays: Vec<BasicReturnMessage>,
    /// Why the broker closed the last channel; what was handed to it afterwards hears only that it is closed.
    refused: Option<(Refusal, String)>,
    /// When the broker last said anything about a message.
    told_at: Option<Instant>,
    /// Asks whether the connection is well, because a confirm is late.
    doubt: Option<Work<bool>>,
    timer: Pin<Box<Sleep>>,
    tick: Pin<Box<Sleep>>,
}

/// A batch that is being written.
struct Sending {
    work: Work<Sent>,
    count: usize,
    answers: Answers,
    since: Instant,
}

impl Press {
    pub(super) fn new(link: Link, confirm_timeout: Duration, mandatory: bool) -> Self {
        Self {
            link,
            confirm_timeout,
            mandatory,
            waiting: VecDeque::new(),
            opening: None,
            opened: None,
            sending: None,
            slots: Slots::default(),
            awaited: FuturesUnordered::new(),
            heard: Vec::new(),
            strays: Vec::new(),
            refused: None,
            told_at: None,
            doubt: None,
            timer: Box::pin(sleep(confirm_timeout)),
            tick: Box::pin(sleep(TICK)),
        }
    }

    pub(super) fn take(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < BATCHES_MAX
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.sending.is_some() || !self.slots.is_empty()
    }

    /// Does what can be done now; answers whether that may have made room for more.
    pub(super) fn work(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_busy() {
            return false;
        }
        let mut has_moved = false;
        while self.step(cx) {
            has_moved = true;
        }
        self.look_at_the_clock(cx);
        has_moved
    }

    /// Does a part of what can be done now; answers whether there was any.
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let is_crowded = self.slots.len() + self.sending.as_ref().map_or(0, |sending| sending.count) > CROWD;
        let mut deaf = Context::from_waker(Waker::noop());
        let news = if is_crowded { &mut deaf } else { &mut *cx };
        let was_written = self.write_on(news);
        // While a batch is being written nothing is answered: see `sweep`.
        let was_answered = self.sending.is_none() && self.sweep(news);
        let has_begun = self.begin(cx);
        let has_moved = was_written || was_answered || has_begun;
        if is_crowded && !has_moved {
            self.tick.as_mut().reset(Instant::now() + TICK);
            let _ = self.tick.as_mut().poll(cx);
        }
        has_moved
    }

    /// Begins to write the next batch, on a channel that is opened for it if there is none.
    fn begin(&mut self, cx: &mut Context<'_>) -> bool {
        if self.sending.is_some() || self.waiting.is_empty() {
            return false;
        }
        if let Some(reason) = self.link.blocked() {
            return self.answer_waiting(&Said::Blocked(reason));
        }
        if self.opened.as_ref().is_some_and(|opened| !opened.channel.status().connected()) {
            self.opened = None;
        }
        let Some(opened) = &self.opened else { return self.open(cx) };
        let Some(batch) = self.waiting.pop_front() else { return false };
        let count = batch.messages.len();
        let work = Box::pin(send(opened.channel.clone(), batch.messages, self.mandatory));
        self.sending = Some(Sending { work, count, answers: batch.answers, since: Instant::now() });
        true
    }

    fn open(&mut self, cx: &mut Context<'_>) -> bool {
        // What is unanswered belongs to the old channel, and is answered before there is a new one.
        if !self.slots.is_empty() {
            return false;
        }
        let (link, within) = (&self.link, self.confirm_timeout);
        let opening = self.opening.get_or_insert_with(|| Box::pin(open(link.clone(), within)));
        let Poll::Ready(opened) = opening.poll_unpin(cx) else { return false };
        self.opening = None;
        match opened {
            Ok(opened) => {
                (self.opened, self.refused) = (Some(opened), None);
                self.strays.clear();
                true
            }
            Err(error) => self.answer_waiting(&Said::Lost(error.to_string())),
        }
    }

    fn answer_waiting(&mut self, said: &Said) -> bool {
        for batch in std::mem::take(&mut self.waiting) {
            let answers = batch.messages.iter().map(|(index, _)| (*index, said.clone()));
            // Nobody waiting any more is no mistake, here and below: the event is sent again.
            let _ = batch.answers.send(answers.collect());
        }
        true
    }

    /// Goes on writing a batch; answers whether it is written.
    fn write_on(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        let Poll::Ready(sent) = sending.work.poll_unpin(cx) else { return false };
        let Some(Sending { answers, since: sent_at, .. }) = self.sending.take() else { return false };
        for (index, mark, body, result) in sent {
            let answers = answers.clone();
            let slot = Slot { index, answers, mark, body, said: Said::Silent, returned: None, sent_at };
            let number = self.slots.push(slot);
            match result {
                Ok(confirm) => self.awaited.push(Awaited { number, confirm }),
                Err(error) => {
                    let said = self.unsent(&error);
                    self.hear(number, said);
                }
            }
        }
        true
    }

    /// Takes in what was confirmed and answers it.
    ///
    /// The client hands a returned message to whichever confirm comes next after it, so a confirm may bring news of another
    /// event. News of an event comes no later than its own confirm, but it may have come to any other. So all confirms are
    /// heard until none has news, and only then is anybody answered. What is still being written cannot be heard, which is
    /// why this waits for it.
    fn sweep(&mut self, cx: &mut Context<'_>) -> bool {
        let mut was_told = false;
        while let Poll::Ready(Some((number, result))) = self.awaited.poll_next_unpin(cx) {
            let said = match result {
                Ok(Confirmation::Ack(returned)) => {
                    self.strays.extend(returned);
                    Said::Confirmed
                }
                Ok(Confirmation::Nack(returned)) => {
                    self.strays.extend(returned);
                    Said::Nacked
                }
                // Without confirms nothing is known; the channel was opened with them.
                Ok(Confirmation::NotRequested) => Said::Lost("the channel has no confirms".to_owned()),
                Err(error) => self.unsent(&error),
            };
            was_told |= matches!(said, Said::Confirmed | Said::Nacked);
            self.hear(number, said);
        }
        if was_told {
            self.told_at = Some(Instant::now());
        }
        if self.heard.is_empty() {
            return false;
        }
        self.find_owners();
        self.answer_heard();
        true
    }

    fn hear(&mut self, number: u64, said: Said) {
        // One that was given up is gone.
        if let Some(slot) = self.slots.get_mut(number) {
            slot.said = said;
            self.heard.push(number);
        }
    }

    /// Gives every returned message to the event it was.
    fn find_owners(&mut self) {
        for stray in std::mem::take(&mut self.strays) {
            let is_it = |slot: &&mut Slot| slot.returned.is_none() && is_of(&stray, slot);
            match self.slots.iter_mut().find(is_it) {
                Some(slot) => slot.returned = Some(clean(stray.reply_text.as_str())),
                None if self.strays.len() < STRAYS_MAX => self.strays.push(stray),
                None => {}
            }
        }
    }

    fn answer_heard(&mut self) {
        let mut heard = std::mem::take(&mut self.heard);
        heard.sort_unstable();
        let (mut said, mut to): (Vec<(usize, Said)>, Option<Answers>) = (Vec::new(), None);
        for slot in heard.into_iter().filter_map(|number| self.slots.take(number)) {
            let verdict = judged(slot.said, slot.returned, slot.body.bytes().len(), self.refused.as_ref());
            if to.as_ref().is_none_or(|to| !to.same_channel(&slot.answers))
                && let Some(before) = to.replace(slot.answers)
            {
                let _ = before.send(std::mem::take(&mut said));
            }
            said.push((slot.index, verdict));
        }
        if let Some(to) = to {
            let _ = to.send(said);
        }
    }

    /// Why a message was not confirmed, and remembers why the broker closed the channel.
    fn unsent(&mut self, error: &lapin::Error) -> Said {
        if let Some(refused) = refusal(error) {
            self.refused = Some(refused);
        }
        Said::Lost(clean(&error.to_string()))
    }

    /// Looks for what is late: a confirm, or the end of what is being written.
    fn look_at_the_clock(&mut self, cx: &mut Context<'_>) {
        let oldest = self.slots.oldest().map(|slot| slot.sent_at);
        let writing = self.sending.as_ref().map(|sending| sending.since);
        let Some(since) = oldest.into_iter().chain(writing).min() else { return };
        let due = since + self.confirm_timeout;
        if Instant::now() < due {
            self.timer.as_mut().reset(due);
            let _ = self.timer.as_mut().poll(cx);
            return;
        }
        if let Some(reason) = self.link.blocked() {
            return self.give_up(&Said::Blocked(reason));
        }
        let Poll::Ready(is_well) = self.ask(cx) else { return };
        match is_well {
            false => self.give_up(&Said::Lost("the broker does not answer".to_owned())),
            true if self.told_at.is_some_and(|told_at| told_at > since) && writing != Some(since) => {
                self.give_up_late();
            }
            true => self.give_up(&Said::Mute),
        }
        cx.waker().wake_by_ref();
    }

    /// Whether the connection is well.
    fn ask(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let (link, within) = (self.link.clone(), patience(self.confirm_timeout));
        let generation = self.opened.as_ref().map_or(0, |opened| opened.generation);
        let asking = async move { link.try_out(generation, within).await };
        let asked = self.doubt.get_or_insert_with(|| Box::pin(asking)).poll_unpin(cx);
        if asked.is_ready() {
            self.doubt = None;
        }
        asked
    }

    /// Answers what is late; the rest may still be confirmed.
    fn give_up_late(&mut self) {
        let Some(late) = Instant::now().checked_sub(self.confirm_timeout) else { return };
        while self.slots.oldest().is_some_and(|slot| slot.sent_at <= late)
            && let Some(slot) = self.slots.take_oldest()
        {
            let _ = slot.answers.send(vec![(slot.index, Said::Silent)]);
        }
    }

    /// Answers everything, and lets the channel go.
    fn give_up(&mut self, said: &Said) {
        self.opened = None;
        self.awaited.clear();
        self.heard.clear();
        while let Some(slot) = self.slots.take_oldest() {
            let _ = slot.answers.send(vec![(slot.index, said.clone())]);
        }
        // Its answers end before all are there, and what is missing is unknown.
        self.sending = None;
        self.answer_waiting(said);
    }
}

/// How long the broker may take to show that it is there, when a confirm is late.
pub(in crate::broker::amqp) fn patience(confirm_timeout: Duration) -> Duration {
    confirm_timeout / 2
}

/// What is to be said about a message, all things considered.
fn judged(said: Said, returned: Option<String>, size: usize, refused: Option<&(Refusal, String)>) -> Said {
    match (said, returned, refused) {
        (Said::Confirmed | Said::Nacked, Some(returned), _) => Said::Returned(returned),
        (Said::Lost(lost), _, Some((refusal, words))) => match size_limit(words) {
            Some(limit) if size as u64 > limit => Said::TooLarge(limit),
            // Somebody else's fault.
            Some(_) => Said::Lost(lost),
            None => Said::Refused(*refusal, words.clone()),
        },
        (said, ..) => said,
    }
}

/// The limit that the broker names when a message is too large: `message size 9 is larger than configured max size 5`.
fn size_limit(words: &str) -> Option<u64> {
    let (_, limit) = words.split_once("larger than configured max size ")?;
    limit.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn is_of(returned: &BasicReturnMessage, slot: &Slot) -> bool {
    let back = &returned.delivery;
    mark(&back.exchange, &back.routing_key, &back.properties) == slot.mark && back.data == slot.body.bytes()
}

/// Where a message went and which it was, in few bytes: every message has one, and hardly any comes back.
fn mark(exchange: &ShortString, routing_key: &ShortString, properties: &BasicProperties) -> u64 {
    let mut hasher = DefaultHasher::new();
    let id = properties.message_id().as_ref().map(ShortString::as_str);
    (exchange.as_str(), routing_key.as_str(), id).hash(&mut hasher);
    hasher.finish()
}

/// A channel with confirms. Who waits for a confirm does not wait longer for a channel.
async fn open(link: Link, within: Duration) -> Result<Opened> {
    let opening = async {
        let opened = link.channel().await?;
        let confirms = opened.channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.map_err(|error| told("turn confirms on", &error))?;
        Ok(opened)
    };
    let late = |_| Error::unavailable(format!("the broker gave no channel within {within:?}"));
    timeout(within, opening).await.map_err(late)?
}

/// Writes a batch: all of it is polled together.
async fn send(channel: Channel, messages: Vec<(usize, Message)>, mandatory: bool) -> Sent {
    let options = BasicPublishOptions { mandatory, immediate: false };
    let publish = |(index, message): (usize, Message)| {
        let channel = &channel;
        async move {
            let Message { exchange, routing_key, properties, body } = message;
            let mark = mark(&exchange, &routing_key, &properties);
            let written =
                channel.basic_publish(exchange, routing_key, options, body.bytes(), properties).await;
            (index, mark, body, written)
        }
    };
    join_all(messages.into_iter().map(publish)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_large_is_blamed_alone() {
        let words = "PRECONDITION_FAILED - message size 20 is larger than configured max size 10".to_owned();
        let refused = (Refusal::NotAsDeclared, words);
        let lost = || Said::Lost("closed".to_owned());
        assert_eq!(judged(lost(), None, 20, Some(&refused)), Said::TooLarge(10));
        assert_eq!(judged(lost(), None, 5, Some(&refused)), lost());
        assert_eq!(judged(Said::Confirmed, None, 5, Some(&refused)), Said::Confirmed);
    }

    #[test]
    fn a_returned_message_is_not_confirmed() {
        let returned = || Some("NO_ROUTE".to_owned());
        assert_eq!(judged(Said::Confirmed, returned(), 1, None), Said::Returned("NO_ROUTE".to_owned()));
        let refused = (Refusal::NotFound, "no exchange 'x'".to_owned());
        let said = judged(Said::Lost("closed".to_owned()), None, 1, Some(&refused));
        assert_eq!(said, Said::Refused(Refusal::NotFound, "no exchange 'x'".to_owned()));
    }
}
