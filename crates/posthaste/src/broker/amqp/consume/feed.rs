//! A group's stream of deliveries: its own channel, and a subscription to each of its queues.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use posthaste_core::broker::{Delivery, Feed, FeedSpec, Reason};
use posthaste_core::telemetry::field;
use posthaste_core::{BoxFuture, Error, Result, redact};
use tracing::warn;

use super::label::{Label, returns};
use super::receipt::{AmqpReceipt, Hold, Line};
use super::trial::{self, AmqpTrial, Court};
use crate::broker::amqp::link::{Link, told};
use crate::broker::amqp::naming::Names;
use crate::broker::amqp::wire::Body;
use crate::broker::amqp::wire::decode::decode;

/// What a subscription says, and which; nothing means that the broker ended it: its queue was deleted, or moved.
type Heard = (Arc<Names>, Option<lapin::Result<lapin::message::Delivery>>);

pub(super) struct AmqpFeed {
    line: Arc<Line>,
    link: Link,
    generation: u64,
    incoming: SelectAll<BoxStream<'static, Heard>>,
    ready: VecDeque<Delivery>,
    /// What is done with messages that no consumer sees. Kept here, so that a `next` that is dropped ends none of it.
    chores: FuturesUnordered<BoxFuture<'static, Result<()>>>,
    /// Only these topics are meant, where the exchange does not choose.
    sieve: Option<FeedSpec>,
    court: Court,
}

impl AmqpFeed {
    pub(super) fn new(
        line: Arc<Line>,
        link: Link,
        generation: u64,
        sieve: Option<FeedSpec>,
        court: Court,
    ) -> Self {
        Self {
            line,
            link,
            generation,
            incoming: SelectAll::new(),
            ready: VecDeque::new(),
            chores: FuturesUnordered::new(),
            sieve,
            court,
        }
    }

    /// Hands out what comes on this subscription too.
    pub(super) fn add(&mut self, subscription: lapin::Consumer, names: Names) {
        let names = Arc::new(names);
        let last = Arc::clone(&names);
        let messages = subscription.map(move |message| (Arc::clone(&names), Some(message)));
        self.incoming.push(messages.chain(stream::once(async { (last, None) })).boxed());
    }

    async fn wait(&mut self, at_most: usize) -> Result<Vec<Delivery>> {
        let line = Arc::clone(&self.line);
        loop {
            let mut settled = std::pin::pin!(line.room.notified());
            settled.as_mut().enable();
            if let Some(error) = line.failure() {
                return Err(error);
            }
            let most = at_most.max(1);
            while self.ready.len() < most && line.room() > 0 {
                match self.incoming.next().now_or_never() {
                    Some(heard) => self.take_in(heard)?,
                    None => break,
                }
            }
            if !self.ready.is_empty() {
                let count = self.ready.len().min(most);
                return Ok(self.ready.drain(..count).collect());
            }
            let has_room = line.room() > 0;
            tokio::select! {
                heard = self.incoming.next(), if has_room => self.take_in(heard)?,
                // There is room, or the line has failed.
                () = settled => {}
                Some(done) = self.chores.next(), if !self.chores.is_empty() => report(done),
                why = self.link.lost(self.generation) => return Err(Error::unavailable(why)),
            }
        }
    }

    fn take_in(&mut self, heard: Option<Heard>) -> Result<()> {
        match heard {
            Some((names, Some(Ok(message)))) => {
                self.message(names, message);
                Ok(())
            }
            Some((names, Some(Err(error)))) => {
                Err(told(&format!("consume from the queue {:?}", names.queue), &error))
            }
            Some((names, None)) => Err(Error::unavailable(format!(
                "the broker ended the subscription to the queue {:?}: it was deleted, or its node is gone",
                names.queue
            ))),
            None => Err(Error::unavailable("the subscriptions have ended")),
        }
    }

    fn message(&mut self, names: Arc<Names>, message: lapin::message::Delivery) {
        let lapin::message::Delivery {
            delivery_tag,
            exchange,
            routing_key,
            redelivered,
            properties,
            data,
            acker,
        } = message;
        let label = Label::read(&properties, exchange.as_str(), routing_key.as_str());
        let attempt = label.story.attempts.saturating_add(1);
        // A classic queue does not know how often.
        let on_trial = returns(&properties).map_or(redelivered, |count| count >= trial::RETURNS_MIN);
        let mut body = data;
        let decoded = decode(&properties, &label.routing_key, &mut body);
        self.line.outstanding.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        let mut hold = Hold {
            line: Arc::clone(&self.line),
            names,
            acker,
            tag: delivery_tag,
            properties,
            body: Body::own(body),
            label,
            attempt,
            in_order: false,
            records: None,
            is_open: true,
        };
        let envelope = match decoded {
            Ok(envelope) => Arc::new(envelope),
            Err(error) => {
                let reason = Reason::new("undecodable", redact::clean(&error.to_string()));
                return self.chores.push(Box::pin(hold.bury(reason)));
            }
        };
        if matches!(&hold.body, Body::Own(text) if text.is_empty()) {
            hold.body = Body::Payload(Arc::clone(&envelope));
        }
        if !hold.label.wait.is_zero() {
            // Its pause is longer than the longest tier.
            let left = hold.label.wait;
            return self.chores.push(Box::pin(hold.wait(left)));
        }
        if self.sieve.as_ref().is_some_and(|spec| !spec.wants(&envelope.topic)) {
            return self.chores.push(Box::pin(hold.ack()));
        }
        hold.in_order = self.line.ordered && envelope.key.is_some();
        hold.records = on_trial.then(|| Arc::new(self.court.records(&hold.names.queue, &envelope)));
        let (attempt, records) = (hold.attempt, hold.records.clone());
        let mut delivery = Delivery::new(envelope, attempt, Box::new(AmqpReceipt(hold)));
        if let Some(records) = records {
            delivery = delivery.on_trial(Box::new(AmqpTrial { records, has_begun: false }));
        }
        self.ready.push_back(delivery);
    }
}

fn report(done: Result<()>) {
    if let Err(error) = done {
        warn!({ field::ERROR } = %error, "a message could not be put where it belongs; it comes again");
    }
}

impl Feed for AmqpFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(self.wait(at_most))
    }
}
