//! NATS: a stream, and the bare client with a window of unacknowledged messages.

use std::fmt::Display;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Config;
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use futures_util::StreamExt as _;
use posthaste::BoxFuture;
use posthaste_terminal::exit::{Code, Failure};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{Bed, Load, Message, halves, name};

/// The topic of the bench's events.
const TOPIC: &str = "bench.event";
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// A stream of the bench's own.
pub(super) struct Stream {
    client: Client,
    jetstream: Context,
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
        let jetstream = async_nats::jetstream::new(client.clone());
        let name = name();
        let url = format!("{address}?{settings}&prefix={name}");
        let stream = Self { client, jetstream, name, url, version };
        stream.create().await?;
        Ok(stream)
    }

    async fn create(&self) -> Result<(), Failure> {
        let (name, subjects) = (self.name.clone(), vec![format!("{}.>", self.name)]);
        let config = Config { name, subjects, ..Config::default() };
        self.jetstream.create_stream(config).await.map(drop).map_err(failed("make a stream"))
    }

    async fn delete(&self) -> Result<(), Failure> {
        self.jetstream.delete_stream(&self.name).await.map(drop).map_err(failed("remove the stream"))
    }

    /// All answers come to one inbox, as the client's own calls, with an answer to wait for in each, are slower than the server.
    async fn send(&self, message: Message, load: Load) -> Result<(), Failure> {
        let payload = Bytes::from(vec![b'x'; load.size]);
        let (subject, inbox) = (format!("{}.{TOPIC}", self.name), self.client.new_inbox());
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(failed("publish"))?;
        let (mut sent, mut answered, window) = (0, 0, load.window as u64);
        while answered < load.events {
            while sent < load.events && sent - answered < window {
                let (headers, payload) = (Self::headers(message, sent), payload.clone());
                let published = self.client.publish_with_reply_and_headers(
                    subject.clone(),
                    inbox.clone(),
                    headers,
                    payload,
                );
                published.await.map_err(failed("publish"))?;
                sent += 1;
            }
            let answer = timeout(ANSWERED_WITHIN, answers.next()).await.map_err(failed("publish"))?;
            acknowledged(&answer.ok_or_else(|| failed("publish")("the connection ended"))?)?;
            answered += 1;
        }
        Ok(())
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

    /// Made anew: a purged stream remembers the ids of what was in it, and would take the next round for duplicates.
    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            self.delete().await?;
            self.create().await
        })
    }

    fn publish(&self, message: Message, load: Load) -> BoxFuture<'_, Result<Duration, Failure>> {
        Box::pin(async move {
            let start = Instant::now();
            self.send(message, load).await?;
            Ok(start.elapsed())
        })
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move { self.delete().await })
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        vec![("nats_server", Value::from(self.version.as_str()))]
    }
}

/// Whether a message is in the stream now, and was not before.
fn acknowledged(answer: &async_nats::Message) -> Result<(), Failure> {
    match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
        Ok(Response::Ok(ack)) if !ack.duplicate => Ok(()),
        Ok(Response::Ok(_)) => Err(failed("publish")("the stream took it for a duplicate")),
        Ok(Response::Err { error }) => Err(failed("publish")(error)),
        Err(_) => Err(failed("publish")("no stream takes it")),
    }
}

fn failed<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(Code::Target, format!("{doing}: {}", posthaste::redact::clean(&error.to_string())))
    }
}
