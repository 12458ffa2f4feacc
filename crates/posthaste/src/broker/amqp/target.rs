//! RabbitMQ as a target: every event is published persistent and confirmed, and with `mandatory` unless
//! events that no queue takes may be dropped (`unrouted=drop`).
//!
//! A late confirm is not yet a lost connection. The publisher asks the broker once more before it answers,
//! which takes longer than a lane's own timeout, so `Capabilities::answers_within` makes the lane wait for
//! it.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, OrderKept, Target};
use posthaste_core::{BoxFuture, BoxStream, Result};
use tokio::sync::mpsc::UnboundedReceiver;

use super::AmqpBroker;
use super::exchange::missing;
use super::link::Refusal;
use super::mapping::Mapping;
use super::publisher::{Said, patience};
use super::settings::{Publishing, Settings, Unrouted};
use super::wire::encode::{encode, too_large};
use crate::broker::fits::fits;

/// Events that are handed to the client at once: more are no faster, and fewer cost more per event.
const BURST_MAX: u32 = 200;

impl Target for AmqpBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let begin = Delivering::begin(self, burst);
        Box::pin(stream::once(begin).flat_map(|delivering| stream::unfold(delivering, Delivering::next)))
    }

    fn fits(&self, event: &Envelope) -> Result<()> {
        let publishing = &self.settings.publishing;
        fits(event, publishing.message_bytes_max, |parcel| encode(parcel, publishing).map(drop))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.publishing.probe().await?;
            let publishing = &self.settings.publishing;
            match publishing.mapping {
                Mapping::Topic if publishing.create_exchange => self.create(&publishing.exchange).await,
                Mapping::Topic => self.find_exchange(&publishing.exchange).await,
                // Which exchanges there will be is known when there are events.
                _ => Ok(()),
            }
        })
    }

    fn examine(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.examine_publishing())
    }
}

/// What RabbitMQ can do with these settings.
pub(super) fn capabilities(settings: &Settings) -> Capabilities {
    Capabilities::sink()
        .burst_max(BURST_MAX)
        .window(settings.publishing.window)
        .in_flight_max(settings.publishing.window)
        .payload_bytes_max(settings.publishing.message_bytes_max)
        .answers_within(answers_within(&settings.publishing))
        .order(OrderKept::PerKey)
        .patterns()
        .delayed_release()
        .hold_max(settings.consuming.hold_max)
}

/// How long it may take until an event is answered: a channel is opened for it, what came before it is
/// written, and it is confirmed itself, each within the timeout; twice the broker may be asked whether it is
/// there. Before that, exchanges may be created, all of them within the timeout.
fn answers_within(publishing: &Publishing) -> Duration {
    let timeout = publishing.confirm_timeout;
    let creating = if publishing.create_exchange { timeout } else { Duration::ZERO };
    timeout * 3 + patience(timeout) * 2 + creating
}

/// A burst on its way.
struct Delivering<'a> {
    broker: &'a AmqpBroker,
    burst: Vec<Parcel>,
    /// Which of them are not answered.
    open: Vec<bool>,
    ready: VecDeque<Answer>,
    said: Option<UnboundedReceiver<Vec<(usize, Said)>>>,
}

impl<'a> Delivering<'a> {
    async fn begin(broker: &'a AmqpBroker, burst: Vec<Parcel>) -> Self {
        let (mut ready, mut messages) = (VecDeque::new(), Vec::with_capacity(burst.len()));
        let mut open = vec![false; burst.len()];
        for (index, parcel) in burst.iter().enumerate() {
            match encode(parcel, &broker.settings.publishing) {
                Ok(message) => {
                    open[index] = true;
                    messages.push((index, message));
                }
                Err(error) => ready.push_back(Answer::failed(index, error)),
            }
        }
        let absent =
            broker.create_missing(messages.iter().map(|(_, message)| message.exchange.as_str())).await;
        messages.retain(|(index, message)| {
            let why = absent.iter().find(|(name, _)| name == message.exchange.as_str());
            if let Some((_, error)) = why {
                open[*index] = false;
                let error =
                    DeliverError::new(DeliverKind::Unavailable, "missing exchange", error.to_string());
                ready.push_back(Answer::failed(*index, error));
            }
            why.is_none()
        });
        let said = if messages.is_empty() { None } else { Some(broker.publisher.publish(messages).await) };
        Self { broker, burst, open, ready, said }
    }

    async fn next(mut self) -> Option<(Answer, Self)> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Some((answer, self));
            }
            match self.said.as_mut()?.recv().await {
                Some(said) => {
                    for (index, said) in said {
                        self.open[index] = false;
                        let answer = self.answer(index, said);
                        self.ready.push_back(answer);
                    }
                }
                None => {
                    self.said = None;
                    for index in (0..self.open.len()).filter(|index| self.open[*index]) {
                        let lost = Said::Lost("nothing more was heard of it".to_owned());
                        self.ready.push_back(self.answer(index, lost));
                    }
                }
            }
        }
    }

    fn answer(&self, index: usize, said: Said) -> Answer {
        match self.broker.verdict(&self.burst[index], said) {
            Ok(()) => Answer::delivered(index),
            Err(error) => Answer::failed(index, error),
        }
    }
}

impl AmqpBroker {
    /// What the relay is told about an event.
    fn verdict(&self, parcel: &Parcel, said: Said) -> Result<(), DeliverError> {
        let unavailable =
            |code: &str, message: String| DeliverError::new(DeliverKind::Unavailable, code, message);
        Err(match said {
            Said::Confirmed => return Ok(()),
            Said::Returned(words) => return self.unrouted(parcel, &words),
            Said::Nacked => DeliverError::new(
                DeliverKind::Failed,
                "nack",
                "the broker did not take it: a queue that it goes to is full, or failed",
            ),
            Said::Silent => DeliverError::new(
                DeliverKind::Failed,
                "confirm timeout",
                format!(
                    "no confirm within {:?}, though others are confirmed; look whether a queue that it goes to has a leader",
                    self.settings.publishing.confirm_timeout
                ),
            ),
            Said::Mute => unavailable(
                "confirm timeout",
                format!(
                    "the broker answers, but has confirmed nothing for {:?}; look whether its queues have leaders",
                    self.settings.publishing.confirm_timeout
                ),
            ),
            Said::TooLarge(limit) => too_large(format!(
                "the message has {} bytes, the broker's max_message_size is {limit}",
                parcel.envelope.payload.len()
            )),
            Said::Refused(Refusal::NotFound, words) => {
                let publishing = &self.settings.publishing;
                self.exchanges
                    .lost(&publishing.mapping.route(&parcel.envelope, &publishing.exchange).exchange);
                unavailable("missing exchange", missing(&words))
            }
            Said::Refused(Refusal::NotAllowed, words) => unavailable(
                "not allowed",
                format!("{words}; give the user of the URL the right to write to it"),
            ),
            Said::Refused(_, words) => unavailable("refused", words),
            Said::Lost(why) => unavailable("connection lost", why),
            Said::Blocked(why) => {
                unavailable("blocked", format!("the broker takes nothing from publishers: {why}"))
            }
        })
    }

    fn unrouted(&self, parcel: &Parcel, words: &str) -> Result<(), DeliverError> {
        let kind = match self.settings.publishing.unrouted {
            Unrouted::Retry => DeliverKind::Failed,
            Unrouted::Dead => DeliverKind::Rejected,
            Unrouted::Drop => return Ok(()),
        };
        let publishing = &self.settings.publishing;
        let route = publishing.mapping.route(&parcel.envelope, &publishing.exchange);
        Err(DeliverError::new(
            kind,
            "unrouted",
            format!(
                "no queue takes it from the exchange {:?} with the routing key {:?} ({words}); bind a queue, or start its \
                 consumer",
                route.exchange, route.routing_key
            ),
        ))
    }
}
