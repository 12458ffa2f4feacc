//! Kafka as a target: every event is handed to the idempotent producer, and its report is awaited.
//!
//! Order per key does not depend on the producer. A message that timed out may still be written, and later
//! ones of its partition may pass it. But a lane has one event of a key on its way at a time, and sends the
//! next one when that is delivered. So what is written late is a duplicate, and never the first of its event.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, OrderKept, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout_at};

use super::KafkaBroker;
use super::link::{Fault, fault, words};
use super::lookup::Unseen;
use super::naming;
use super::producer::{Live, REPORT_SLACK, Record, Reports, Said, missing};
use super::settings::Settings;
use super::wire::{encode, too_large};
use crate::broker::fits::fits;

/// Events that are handed to the client at once: more are no faster, and fewer cost more per event.
const BURST_MAX: u32 = 500;
/// Each event is handed over by itself, so few of them are worth a burst, and what is on its way stays near the window.
const BURST_WORTH: u32 = 50;

/// How soon to try an event again whose partition does not answer, while others do.
const LATER: Duration = Duration::from_secs(5);

/// So many timeouts may pass until the topics of a burst are looked for, all together.
const LOOKS_WITHIN: u32 = 2;
const LOOKS_LATE: &str =
    "the topic was not looked for yet: the brokers take long to answer for others of the same burst";

impl Target for KafkaBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let begin = Delivering::begin(self, burst);
        Box::pin(stream::once(begin).flat_map(|delivering| stream::unfold(delivering, Delivering::next)))
    }

    fn fits(&self, event: &Envelope) -> Result<()> {
        fits(event, self.settings.link.message_bytes_max, |parcel| encode(parcel, &self.settings).map(drop))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.publishing.ping())
    }

    fn examine(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.examine_topics())
    }
}

/// What Kafka can do with these settings.
pub(super) fn capabilities(settings: &Settings) -> Capabilities {
    let capabilities = Capabilities::sink()
        .burst_max(BURST_MAX)
        .burst_worth(BURST_WORTH)
        .window(settings.publishing.window)
        .in_flight_max(settings.publishing.window)
        .payload_bytes_max(settings.link.message_bytes_max)
        .answers_within(answers_within(settings.publishing.ack_timeout))
        .order(OrderKept::PerKey)
        .delayed_release()
        .hold_max(settings.consuming.hold_max);
    // In one topic for all, each message says its own.
    if settings.topics.topic.is_some() { capabilities.patterns() } else { capabilities }
}

/// How long it may take until an event is answered: the topics of its burst are looked for, it is acknowledged, and perhaps once more
/// in a batch of its own, each within the timeout.
fn answers_within(ack_timeout: Duration) -> Duration {
    ack_timeout * (LOOKS_WITHIN + 2) + 2 * REPORT_SLACK
}

/// What is known of an event that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Answered,
    Sent,
    /// Again, in a batch of its own.
    SentAlone,
}

/// A burst on its way.
struct Delivering<'a> {
    broker: &'a KafkaBroker,
    live: Option<Arc<Live>>,
    burst: Vec<Parcel>,
    states: Vec<State>,
    ready: VecDeque<Answer>,
    reports: Option<Reports>,
    said: Option<UnboundedReceiver<(usize, Said)>>,
    sent_at: Instant,
    due: Instant,
}

impl<'a> Delivering<'a> {
    async fn begin(broker: &'a KafkaBroker, burst: Vec<Parcel>) -> Self {
        let mut this = Self {
            broker,
            live: None,
            states: vec![State::Answered; burst.len()],
            burst,
            ready: VecDeque::new(),
            reports: None,
            said: None,
            sent_at: Instant::now(),
            due: Instant::now(),
        };
        let live = match broker.publishing.live() {
            Ok(live) => live,
            Err(error) => return this.all_lost(&error),
        };
        let topics = this.see_to_topics(&live).await;
        let (reports, said) = mpsc::unbounded_channel();
        (this.reports, this.said) = (Some(reports), Some(said));
        this.live = Some(live);
        this.move_due();
        for index in 0..this.burst.len() {
            this.send(index, &topics, State::Sent);
        }
        this
    }

    /// Looks for every topic of the burst; answers what is wrong with them. Those that were not found in time wait with their lane: an
    /// answer that comes later than we promise would count as a failure of the events.
    async fn see_to_topics(&self, live: &Arc<Live>) -> HashMap<String, DeliverError> {
        let KafkaBroker { settings, publishing, .. } = self.broker;
        let mut names: Vec<String> =
            self.burst.iter().map(|parcel| settings.topics.name_of(&parcel.envelope.topic)).collect();
        names.sort_unstable();
        names.dedup();
        let (mut wrong, mut away) = (HashMap::new(), None::<DeliverError>);
        let until = Instant::now() + settings.publishing.ack_timeout * LOOKS_WITHIN;
        for name in names.into_iter().filter(|name| naming::check(name).is_ok()) {
            if publishing.knows(&name) {
                continue;
            }
            let error = match (publishing.looked_in_vain(&name), &away) {
                (Some(error), _) => error,
                // Nobody answered; the next question would take as long.
                (None, Some(away)) => away.clone(),
                (None, None) => match timeout_at(until, publishing.see_to(live, &name)).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(Unseen::Missing(why))) => publishing.missing().note(&name, missing_topic(why)),
                    Ok(Err(Unseen::Refused(why))) => {
                        publishing.missing().note(&name, unavailable("topic refused", why))
                    }
                    Ok(Err(Unseen::Away(why))) => away.insert(unavailable("connection", why)).clone(),
                    Err(_) => away.insert(unavailable("connection", LOOKS_LATE.to_owned())).clone(),
                },
            };
            wrong.insert(name, error);
        }
        wrong
    }

    /// There is no producer: what is wrong with an event is told all the same.
    fn all_lost(mut self, why: &Error) -> Self {
        for index in 0..self.burst.len() {
            let error = match encode(&self.burst[index], &self.broker.settings) {
                Ok(_) => unavailable("connection", why.to_string()),
                Err(error) => error,
            };
            self.ready.push_back(Answer::failed(index, error));
        }
        self
    }

    fn move_due(&mut self) {
        self.sent_at = Instant::now();
        self.due = self.sent_at + self.broker.settings.publishing.ack_timeout + REPORT_SLACK;
    }

    /// Hands an event to the client, unless something is wrong with it or with its topic.
    fn send(&mut self, index: usize, topics: &HashMap<String, DeliverError>, how: State) {
        let (Some(live), Some(reports)) = (&self.live, &self.reports) else { return };
        let settings = &self.broker.settings;
        let message = match encode(&self.burst[index], settings) {
            Ok(message) => message,
            Err(error) => return self.ready.push_back(Answer::failed(index, error)),
        };
        if let Some(error) = topics.get(&message.topic) {
            return self.ready.push_back(Answer::failed(index, error.clone()));
        }
        let record = Record {
            topic: &message.topic,
            key: message.key.map(str::as_bytes),
            headers: message.headers,
            payload: Some(message.payload.as_ref()),
        };
        let sent = match how {
            State::SentAlone => live.send_alone(settings, reports, index, record),
            _ => live.send(reports, index, record),
        };
        self.states[index] = how;
        if let Err(code) = sent {
            self.answer(index, Err(code));
        }
    }

    async fn next(mut self) -> Option<(Answer, Self)> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Some((answer, self));
            }
            if self.states.iter().all(|state| *state == State::Answered) {
                return None;
            }
            match timeout_at(self.due, self.said.as_mut()?.recv()).await {
                Ok(Some((index, said))) => self.hear(index, said),
                // The client has answered late messages before; it must have stopped.
                Ok(None) | Err(_) => self.answer_all(RDKafkaErrorCode::MessageTimedOut),
            }
        }
    }

    /// Takes in a report. A batch that is too large is refused as a whole, so each of its events is tried in one of its own.
    fn hear(&mut self, index: usize, said: Said) {
        let is_too_large = said.is_err_and(|code| fault(code) == Fault::TooLarge);
        if is_too_large && self.states[index] == State::Sent {
            self.move_due();
            self.states[index] = State::Answered;
            return self.send(index, &HashMap::new(), State::SentAlone);
        }
        self.answer(index, said);
    }

    fn answer_all(&mut self, code: RDKafkaErrorCode) {
        for index in 0..self.states.len() {
            if self.states[index] != State::Answered {
                self.answer(index, Err(code));
            }
        }
    }

    fn answer(&mut self, index: usize, said: Said) {
        self.states[index] = State::Answered;
        let answer = match said {
            Ok(()) => Answer::delivered(index),
            Err(code) => Answer::failed(index, self.verdict(index, code)),
        };
        self.ready.push_back(answer);
    }

    /// What the relay is told about an event that was not acknowledged.
    fn verdict(&self, index: usize, code: RDKafkaErrorCode) -> DeliverError {
        let Some(live) = &self.live else { return unavailable("connection", words(code)) };
        let topic = self.broker.settings.topics.name_of(&self.burst[index].envelope.topic);
        live.note(code);
        let why = live.why(code);
        match fault(code) {
            Fault::Away => unavailable("connection lost", why),
            Fault::Missing => {
                let publishing = &self.broker.publishing;
                publishing.lost_topic(&topic);
                publishing.missing().note(&topic, missing_topic(missing(&topic)))
            }
            Fault::TooLarge => {
                too_large(format!("the topic {topic:?} does not take it: {why} (max.message.bytes)"))
            }
            Fault::Rejected => DeliverError::new(
                DeliverKind::Rejected,
                "kafka refused",
                format!("the topic {topic:?}: {why}"),
            ),
            Fault::Forbidden => unavailable("not allowed", format!("the topic {topic:?}: {why}")),
            Fault::Fatal => unavailable("fatal", format!("the producer could not go on: {why}")),
            Fault::Late => self.late(live, &topic, &why),
        }
    }

    /// Nobody said what became of it: is it this event's partition, or all of them? Either way it is nobody's fault, and no
    /// attempt. What was acknowledged just before the brokers went away says nothing.
    fn late(&self, live: &Live, topic: &str, why: &str) -> DeliverError {
        let timeout = self.broker.settings.publishing.ack_timeout;
        if live.has_acknowledged_since(self.sent_at + timeout / 2) {
            let what = format!(
                "the topic {topic:?} did not acknowledge it within {timeout:?}, though others were; look whether its partitions have leaders and replicas in sync ({why})"
            );
            return DeliverError::new(DeliverKind::Later, "ack timeout", what).after(LATER);
        }
        unavailable("ack timeout", format!("nothing was acknowledged for {timeout:?}: {why}"))
    }
}

fn missing_topic(message: String) -> DeliverError {
    unavailable("missing topic", message)
}

fn unavailable(code: &str, message: String) -> DeliverError {
    DeliverError::new(DeliverKind::Unavailable, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_the_url_is_that_of_its_lanes() {
        for (url, window) in [("kafka://a", 5_000), ("kafka://a?window=20000", 20_000)] {
            let broker = KafkaBroker::at(url).unwrap();
            let can = broker.capabilities();
            assert_eq!((can.window, can.in_flight_max), (window, window));
        }
    }
}
