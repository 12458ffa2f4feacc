//! NATS: a stream, and the bare client with a window of unacknowledged messages.

use std::fmt::Display;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, Stream as JetStream};
use futures_util::stream::{self, TryStreamExt as _};
use posthaste::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::{Bed, Message, halves, name};
use crate::exit::{Code, Failure};

/// What the raw side keeps unacknowledged, as the target does.
const WINDOW: usize = 1_000;
/// The topic of the bench's events.
const TOPIC: &str = "bench.event";

/// A stream of the bench's own.
pub(super) struct Stream {
    jetstream: Context,
    stream: JetStream,
    name: String,
    url: String,
    version: String,
}

impl Stream {
    /// Makes it; for the raw side over a connection of the bare client.
    pub(super) async fn make(url: &str) -> Result<Self, Failure> {
        let (address, settings) = halves(url);
        let client = async_nats::connect(address).await.map_err(failed("connect to the broker"))?;
        let version = client.server_info().version;
        let jetstream = async_nats::jetstream::new(client);
        let name = name();
        let config = Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Config::default() };
        let stream = jetstream.create_stream(config).await.map_err(failed("make a stream"))?;
        let url = format!("{address}?{settings}&prefix={name}");
        Ok(Self { jetstream, stream, name, url, version })
    }

    fn headers(message: Message, number: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if message == Message::Same {
            let (id, key) = (posthaste::envelope::fresh_id(), format!("key-{}", number % 1_000));
            for (name, value) in [
                ("Nats-Msg-Id", id.as_str()),
                ("X-Partition-Key", &key),
                ("ce-specversion", "1.0"),
                ("ce-id", &id),
                ("ce-source", "/posthaste/bench"),
                ("ce-type", TOPIC),
                ("ce-time", "1970-01-01T00:00:00Z"),
                ("ce-partitionkey", &key),
                ("content-type", "application/octet-stream"),
            ] {
                headers.insert(name, value);
            }
        }
        headers
    }
}

impl Bed for Stream {
    fn url(&self) -> &str {
        &self.url
    }

    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { self.stream.purge().await.map(drop).map_err(failed("empty the stream")) })
    }

    fn publish(
        &self,
        message: Message,
        events: u64,
        size: usize,
    ) -> BoxFuture<'_, Result<Duration, Failure>> {
        Box::pin(async move {
            let payload = bytes::Bytes::from(vec![b'x'; size]);
            let subject = format!("{}.{TOPIC}", self.name);
            let start = Instant::now();
            let send = async |number| {
                let (headers, payload) = (Self::headers(message, number), payload.clone());
                let sent = self.jetstream.publish_with_headers(subject.clone(), headers, payload).await;
                let sent = sent.map_err(failed("publish"))?;
                sent.await.map(drop).map_err(failed("publish"))
            };
            let sending = stream::iter((0..events).map(|number| Ok(send(number))));
            sending.try_buffer_unordered(WINDOW).try_for_each(async |()| Ok(())).await?;
            Ok(start.elapsed())
        })
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move {
            self.jetstream.delete_stream(&self.name).await.map(drop).map_err(failed("remove the stream"))
        })
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        vec![("nats_server", Value::from(self.version.as_str()))]
    }
}

fn failed<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(Code::Target, format!("{doing}: {}", posthaste::redact::clean(&error.to_string())))
    }
}
