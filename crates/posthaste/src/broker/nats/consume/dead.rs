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
use posthaste_core::admin::{
    Actor, Admin, Applied, Command, EventState, Filter, Found, LaneStats, Pace, Page, Record,
};
use posthaste_core::envelope::Envelope;
use posthaste_core::telemetry::field;
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Error, ErrorKind, Result};

use super::buried::{Body, original};
use super::receipt::{moved, published_to};
use super::told;
use crate::broker::letter::{self, Fate, LOOK_BYTES_MAX, LOOK_MAX};
use crate::broker::nats::NatsBroker;
use crate::broker::nats::link::Live;
use crate::broker::nats::naming;
use crate::broker::nats::wire::{self, Message, decode};
use crate::broker::story::Story;

impl Admin for NatsBroker {
    /// The groups whose feeds were opened through this value: what waits for their consumers, and what is dead.
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>> {
        Box::pin(async move {
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
        })
    }

    /// Finds dead letters of the filter's lane, which is a group; the newest first.
    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(async move {
            let (mut records, mut looked, pace) = (Vec::new(), Applied::default(), Pace::full());
            let looking = self.walk(filter, true, &mut looked, &pace, |mut record| {
                if !page.with_payload {
                    record.envelope.payload.clear();
                }
                records.push(record);
                Fate::Keep
            });
            looking.await?;
            letter::page(records, &page)
        })
    }

    /// Redrives and discards dead letters of the filter's lane, which is a group; the oldest first.
    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move { self.apply_paced(filter, command, by, &Pace::full()).await })
    }

    /// Tells after every dead letter.
    fn apply_telling<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        so_far: &'a (dyn Fn(Applied) -> ControlFlow<()> + Send + Sync),
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move { self.apply_paced(filter, command, by, &Pace::telling(so_far)).await })
    }

    /// Tells after every dead letter, and waits before the next one.
    fn apply_paced<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move {
            let (redrive, dry_run) = command.on_dead_letters("NATS")?;
            let fate = Fate::of(redrive, dry_run);
            let mut applied = Applied::default();
            self.walk(filter, dry_run, &mut applied, pace, |_| fate).await?;
            tracing::info!(
                actor = by.name,
                via = by.via,
                command = command.name(),
                group = filter.lane.as_ref().map(ToString::to_string),
                matched = applied.matched,
                changed = applied.changed,
                "on dead letters"
            );
            Ok(applied)
        })
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

    /// Reads every dead letter of the filter's group and does with those that match as it is told, at this pace and until that breaks it off.
    /// Counts in `applied`.
    async fn walk(
        &self,
        filter: &Filter,
        bounded: bool,
        applied: &mut Applied,
        pace: &Pace<'_>,
        mut tell: impl FnMut(Record) -> Fate,
    ) -> Result<()> {
        let Some(group) = &filter.lane else {
            return Err(Error::rejected("dead letters are kept by group; name the group"));
        };
        if filter.state.is_some_and(|state| state != EventState::Dead) {
            return Ok(());
        }
        let live = self.consume.link.live().await?;
        let (stream, subject) = (self.dead_stream(&live).await?, naming::all_dead(group.as_str()));
        // What dies meanwhile is not for this walk: it would have no end.
        let Ok(info) = stream.get_info().await else { return Ok(()) };
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
                break;
            }
            match tell(record) {
                Fate::Keep => {}
                fate => applied.changed += u64::from(self.act(&live, &stream, fate, message).await?),
            }
            applied.matched += 1;
        }
        Ok(())
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
