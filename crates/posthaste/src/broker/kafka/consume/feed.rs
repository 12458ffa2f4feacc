//! A group's stream of deliveries, made of what its reader has read.

use std::future::pending;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use posthaste_core::broker::{Delivery, Feed, Reason};
use posthaste_core::telemetry::field;
use posthaste_core::{BoxFuture, Result, redact};
use rdkafka::message::Message as _;
use tokio::time::sleep_until;
use tracing::warn;

use super::receipt::{Hold, KafkaReceipt, KafkaTrial, Line};
use super::state::Message;
use crate::broker::kafka::wire;
use crate::broker::story::Story;

pub(super) struct KafkaFeed {
    line: Arc<Line>,
    /// What is done with messages instead of handing them out. Kept here, so that a `next` that is dropped ends none of it.
    chores: FuturesUnordered<BoxFuture<'static, Result<()>>>,
}

impl KafkaFeed {
    pub(super) fn new(line: Arc<Line>) -> Self {
        Self { line, chores: FuturesUnordered::new() }
    }

    async fn wait(&mut self, at_most: usize) -> Result<Vec<Delivery>> {
        let line = Arc::clone(&self.line);
        let member = &line.0;
        loop {
            let mut news = std::pin::pin!(member.news.notified());
            news.as_mut().enable();
            if let Some(error) = member.failure() {
                return Err(error);
            }
            let messages = member.hand_out(at_most.max(1));
            let deliveries: Vec<Delivery> =
                messages.into_iter().filter_map(|message| self.deliver(message)).collect();
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
            let due = member.next_due();
            tokio::select! {
                () = news => {}
                () = async { match due { Some(due) => sleep_until(due).await, None => pending().await } } => {}
                Some(done) = self.chores.next(), if !self.chores.is_empty() => report(done),
            }
        }
    }

    /// Makes a delivery of a message; one that is not meant is passed over, and one that is no event is buried.
    fn deliver(&mut self, message: Message) -> Option<Delivery> {
        let member = &self.line.0;
        let body = Arc::clone(&message.body);
        let topic = &member.sources[message.at.0].names.topic;
        let story = Story::read(|name| body.headers().and_then(|headers| wire::text(headers, name)));
        let attempt = story.attempts.saturating_add(1);
        let decoded = wire::decode(topic, body.key(), body.headers(), body.payload().unwrap_or_default());
        let on_trial = message.on_trial;
        let mut hold = Hold {
            line: Arc::clone(&self.line),
            message,
            story,
            attempt,
            in_order: false,
            identity: None,
            crashes: Arc::default(),
            is_open: true,
        };
        let envelope = match decoded {
            Ok(envelope) => Arc::new(envelope),
            Err(error) => {
                let reason = Reason::new("undecodable", redact::clean(&error.to_string()));
                self.chores.push(Box::pin(hold.bury(reason)));
                return None;
            }
        };
        if member.sieve.as_ref().is_some_and(|spec| !spec.wants(&envelope.topic)) {
            self.chores.push(Box::pin(hold.ack()));
            return None;
        }
        hold.in_order = member.is_ordered && envelope.key.is_some();
        hold.identity = Some([envelope.source.as_str(), &envelope.id].join("\n"));
        let trial = on_trial.then(|| KafkaTrial {
            line: Arc::clone(&self.line),
            message: hold.message.clone(),
            crashes: Arc::clone(&hold.crashes),
            has_begun: false,
        });
        let delivery = Delivery::new(envelope, attempt, Box::new(KafkaReceipt(hold)));
        Some(match trial {
            Some(trial) => delivery.on_trial(Box::new(trial)),
            None => delivery,
        })
    }
}

impl Drop for KafkaFeed {
    fn drop(&mut self) {
        self.line.0.end_feed();
    }
}

impl Feed for KafkaFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(self.wait(at_most))
    }
}

fn report(done: Result<()>) {
    if let Err(error) = done {
        warn!({ field::ERROR } = %error, "a message could not be put where it belongs; it comes again");
    }
}
