//! The operator's side: a group's dead letters, listed without being disturbed, sent again, or given up.
//!
//! A look reads at most [`LOOK_MAX`] messages and [`LOOK_BYTES_MAX`] bytes, the oldest first.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use posthaste_core::admin::{Applied, Filter, LaneStats, Pace, Record};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::telemetry::field;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, ErrorKind, Result};

use super::buried::{Body, original};
use super::receipt::{moved, published_to};
use super::told;
use crate::broker::letter::{self, DeadLetters, Fate, LOOK_BYTES_MAX, LOOK_MAX, admin_of_dead_letters};
use crate::broker::nats::NatsBroker;
use crate::broker::nats::link::Live;
use crate::broker::nats::naming;
use crate::broker::nats::wire::{self, Message, decode};
use crate::broker::story::Story;

admin_of_dead_letters!(NatsBroker);

impl DeadLetters for NatsBroker {
    const BROKER: &'static str = "NATS";
    type Place = String;

    async fn groups(&self) -> Result<Vec<LaneStats>> {
        let groups = self.consume.groups().clone();
        let live = self.consume.link.live().await?;
        let mut lanes = Vec::new();
        for (group, topics) in groups {
            let mut stats = LaneStats::new(group.parse()?);
            for names in naming::of_all(&self.settings.publishing.prefix, &group, &topics)? {
                let stream = match &self.settings.publishing.stream {
                    Some(name) => name.clone(),
                    None => super::stream_of(&live, &names.filters[0]).await?,
                };
                for stream in [&stream, &self.settings.consuming.again_stream] {
                    stats.waiting += waiting(&live, stream, &names.consumer).await;
                }
            }
            stats.dead = self.count_dead(&live, &group).await?;
            stats.accepted = stats.waiting + stats.dead;
            lanes.push(stats);
        }
        Ok(lanes)
    }

    async fn places(&self, group: &LaneName, _: &Filter) -> Result<Vec<String>> {
        Ok(vec![group.to_string()])
    }

    fn name_of(place: &String) -> &str {
        place
    }

    async fn walk(
        &self,
        filter: &Filter,
        group: &String,
        bounded: bool,
        applied: &mut Applied,
        pace: &Pace<'_>,
        mut tell: impl FnMut(Record) -> Fate + Send,
    ) -> Result<ControlFlow<()>> {
        let live = self.consume.link.live().await?;
        let (stream, subject) = (self.dead_stream(&live).await?, naming::all_dead(group));
        // What dies meanwhile is not for this walk: it would have no end.
        let Ok(info) = stream.get_info().await else { return Ok(ControlFlow::Continue(())) };
        let (last, mut next) = (info.state.last_sequence, 1);
        let (mut looked, mut bytes) = (0, 0);
        loop {
            if bounded && (looked >= LOOK_MAX || bytes >= LOOK_BYTES_MAX) {
                applied.is_partial = next <= last;
                break;
            }
            let read = stream.raw_message_builder().sequence(next).next_by_subject(&*subject).send().await;
            let message = match read {
                Ok(message) if message.sequence <= last => message,
                Ok(_) => break,
                Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => break,
                Err(error) => return Err(told("read a dead letter", &error)),
            };
            (looked, bytes, next) = (looked + 1, bytes + message.payload.len() as u64, message.sequence + 1);
            let record = self.seen(filter, &message)?;
            if !letter::is_meant(filter, &record) {
                continue;
            }
            if pace.after(*applied).await.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match tell(record) {
                Fate::Keep => {}
                fate => applied.changed += u64::from(self.act(&live, &stream, fate, message).await?),
            }
            applied.matched += 1;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl NatsBroker {
    async fn dead_stream(&self, live: &Live) -> Result<Stream<()>> {
        let name = &self.settings.consuming.dead_stream;
        let stream = live.jetstream.get_stream_no_info(name).await;
        stream.map_err(|error| told(&format!("look at the stream {name:?}"), &error))
    }

    async fn count_dead(&self, live: &Live, group: &str) -> Result<u64> {
        let stream = self.dead_stream(live).await?;
        // Nothing is dead where there is no stream for it.
        let Ok(mut found) = stream.info_builder().subjects(naming::all_dead(group)).fetch().await else {
            return Ok(0);
        };
        let mut count = 0;
        while let Some(subject) = found.next().await {
            count += subject.map_err(|error| told("count dead letters", &error))?.1 as u64;
        }
        Ok(count)
    }

    /// Takes one dead letter out of its stream: for ever, or to be handled again. Answers whether it did: one whose payload is elsewhere
    /// can only be handled again if that is still there, and none is that could not be buried once more.
    async fn act(
        &self,
        live: &Arc<Live>,
        stream: &Stream<()>,
        fate: Fate,
        message: StreamMessage,
    ) -> Result<bool> {
        if matches!(fate, Fate::Redrive) {
            let again = naming::again_of(&message.subject).ok_or_else(|| {
                Error::rejected(format!("{:?} is no subject of a dead letter", message.subject))
            })?;
            let published = published_to(&message.headers).unwrap_or_default();
            // Sent twice it is one all the same.
            let (dead, time) = (&self.settings.consuming.dead_stream, message.time.unix_timestamp_nanos());
            let once = format!("{dead}/{}/{time}", message.sequence);
            let elsewhere = match original(live, &message).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(stays(message.sequence, &error.to_string()));
                }
                found => found?,
            };
            let (headers, payload) = elsewhere.map_or_else(
                || (message.headers.clone(), message.payload),
                |found| (found.headers, found.payload),
            );
            let headers = moved(&headers, &Story::anew(), &published, Some(&once));
            if !self.can_die_again(live, &message.headers, &headers, &payload, &published) {
                return Ok(stays(
                    message.sequence,
                    "if it died once more it could not be buried; raise the server's max_payload",
                ));
            }
            let letter = Message { subject: again, headers, payload };
            live.put(letter, self.consume.link.patience()).await?;
        }
        let deleted = stream.delete_message(message.sequence).await;
        deleted.map(|_| true).map_err(|error| told("take a dead letter out of its stream", &error))
    }

    /// Whether what is to be sent again for this letter, with these headers, can be buried if it dies once more. It could come again for
    /// ever otherwise.
    fn can_die_again(
        &self,
        live: &Live,
        letter: &HeaderMap,
        headers: &HeaderMap,
        payload: &Bytes,
        subject: &str,
    ) -> bool {
        let consumer = Story::read(|name| wire::text(letter, name)).dead.and_then(|dead| dead.queue);
        let stream = &self.settings.consuming.again_stream;
        let body = Body { headers, payload, subject, stream, sequence: 0, nanos: 0 };
        body.can_die(consumer.as_deref().unwrap_or_default(), live.max_payload())
    }

    /// A dead letter as an operator sees it.
    fn seen(&self, filter: &Filter, message: &StreamMessage) -> Result<Record> {
        let headers = &message.headers;
        let subject = published_to(headers).unwrap_or_default();
        let topic = naming::topic(&self.settings.publishing.prefix, &subject);
        // What is no event is shown as far as it goes.
        let envelope = decode(headers, topic, &message.payload).unwrap_or_else(|_| {
            let mut envelope = Envelope::new(topic, message.payload.to_vec());
            envelope.id = wire::event_id(headers).unwrap_or_default();
            envelope
        });
        let micros = i64::try_from(message.time.unix_timestamp_nanos() / 1_000).unwrap_or(0);
        let story = Story::read(|name| wire::text(headers, name));
        letter::record(filter, envelope, message.payload.len() as u64, Timestamp::from_micros(micros), &story)
    }
}

/// A dead letter that cannot be sent again; others can.
fn stays(sequence: u64, why: &str) -> bool {
    tracing::warn!({ field::ERROR } = why, sequence, "a dead letter stays where it is");
    false
}

/// What a consumer has not handed out, and what is not settled; nothing if it is not there.
async fn waiting(live: &Live, stream: &str, consumer: &str) -> u64 {
    let found = live.jetstream.get_consumer_from_stream::<pull::Config, _, _>(consumer, stream).await;
    found.map_or(0, |consumer| {
        let info = consumer.cached_info();
        info.num_pending + u64::try_from(info.num_ack_pending).unwrap_or(0)
    })
}
