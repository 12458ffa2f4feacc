//! Redis: a stream, and the bare client with pipelines of `XADD`.

use std::time::Duration;

use futures_util::stream::{self, TryStreamExt as _};
use posthaste::BoxFuture;
use posthaste_terminal::exit::{Code, Failure};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, RedisError, RedisResult};
use serde_json::Value;
use tokio::time::Instant;

use super::{Bed, Load, Message, halves, name};

/// How much of the window is one pipeline: the best of what was tried with one of 1,000.
const BURST: u64 = 250;
/// The topic of the bench's events.
const TOPIC: &str = "bench.event";
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A stream of the bench's own.
pub(super) struct Stream {
    connection: MultiplexedConnection,
    name: String,
    url: String,
}

impl Stream {
    /// Makes it; for the raw side over a connection of the bare client.
    pub(super) async fn make(url: &str) -> Result<Self, Failure> {
        let (address, settings) = halves(url);
        let client = Client::open(address).map_err(failed("read the URL of the broker"))?;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECT_WITHIN));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connection = connecting.await.map_err(failed("connect to the broker"))?;
        let prefix = format!("{}:", name());
        let url = format!("{address}?{settings}&prefix={prefix}");
        Ok(Self { connection, name: format!("{prefix}{TOPIC}"), url })
    }

    fn burst(&self, message: Message, numbers: std::ops::Range<u64>, payload: &[u8]) -> Pipeline {
        let mut burst = Pipeline::with_capacity(usize::try_from(BURST).unwrap_or(0));
        for number in numbers {
            let add = burst.cmd("XADD").arg(&self.name).arg("*");
            match message {
                Message::Raw => add.arg("payload").arg(payload),
                Message::Same => {
                    let (id, key) = (posthaste::envelope::fresh_id(), format!("key-{}", number % 1_000));
                    add.arg("id").arg(&id).arg("payload").arg(payload).arg("partition_key").arg(&key);
                    let attributes = [
                        ("h:ce_specversion", "1.0"),
                        ("h:ce_id", &id),
                        ("h:ce_source", "/posthaste/bench"),
                        ("h:ce_type", TOPIC),
                        ("h:ce_time", "1970-01-01T00:00:00Z"),
                        ("h:ce_partitionkey", &key),
                        ("h:ce_datacontenttype", "application/octet-stream"),
                    ];
                    for (name, value) in attributes {
                        add.arg(name).arg(value);
                    }
                    add
                }
            };
        }
        burst
    }

    async fn send(&self, burst: Pipeline) -> RedisResult<()> {
        // Fails if any of them was refused.
        burst.exec_async(&mut self.connection.clone()).await
    }

    async fn delete(&self) -> Result<(), Failure> {
        let mut command = redis::cmd("DEL");
        command.arg(&self.name);
        command.exec_async(&mut self.connection.clone()).await.map_err(failed("empty the stream"))
    }
}

impl Bed for Stream {
    fn url(&self) -> &str {
        &self.url
    }

    fn empty(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.delete())
    }

    fn publish(&self, message: Message, load: Load) -> BoxFuture<'_, Result<Duration, Failure>> {
        Box::pin(async move {
            let (events, payload) = (load.events, vec![b'x'; load.size]);
            let start = Instant::now();
            let bursts = (0..events).step_by(usize::try_from(BURST).unwrap_or(1)).map(|from| {
                let burst = self.burst(message, from..(from + BURST).min(events), &payload);
                Ok(self.send(burst))
            });
            let on_their_way = (load.window / usize::try_from(BURST).unwrap_or(1)).max(1);
            let sent = stream::iter(bursts).try_buffer_unordered(on_their_way).try_collect::<Vec<()>>().await;
            sent.map_err(failed("publish"))?;
            Ok(start.elapsed())
        })
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move { self.delete().await })
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

fn failed(doing: &'static str) -> impl FnOnce(RedisError) -> Failure {
    move |error| {
        Failure::new(Code::Target, format!("{doing}: {}", posthaste::redact::clean(&error.to_string())))
    }
}
