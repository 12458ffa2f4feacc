//! A server, streams of a test's own, and a look into them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste::broker::redis::RedisBroker;
use posthaste_testkit::harness::Settings;
use posthaste_testservers::{Interrupt, Kind, Run, Server};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, Value};

pub(crate) use crate::sending::{blocking, event, send, until};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What a test looks at the server with: its own connection, and keys whose names begin alike.
pub(crate) struct Stand {
    pub(crate) url: String,
    /// What all keys begin with.
    pub(crate) prefix: String,
    connection: MultiplexedConnection,
    server: Option<Server>,
}

impl Stand {
    /// On the server of the run; `None`, said on stderr, where there is none.
    pub(crate) async fn shared(trial: &str) -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests learn from the environment where their servers are"
        )]
        let url = std::env::var("POSTHASTE_TEST_REDIS");
        let Ok(url) = url else {
            assert!(!Settings::from_env().all_required, "{trial} needs POSTHASTE_TEST_REDIS");
            eprintln!("skipped: {trial}: POSTHASTE_TEST_REDIS is not set");
            return None;
        };
        Some(Self::at(url, None).await)
    }

    /// On a server of the test's own; `None`, said on stderr, where it cannot be had.
    pub(crate) async fn private(trial: &str) -> Option<Self> {
        if !Kind::Redis.is_installed() {
            assert!(!Settings::from_env().all_required, "redis is not installed");
            eprintln!("skipped: {trial}: redis is not installed");
            return None;
        }
        let server = blocking(|| {
            let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
            let mut server = Server::new(Kind::Redis, &run, None).unwrap();
            server.start().unwrap();
            server
        });
        Some(Self::at(server.url(), Some(server)).await)
    }

    async fn at(url: String, server: Option<Server>) -> Self {
        let connection = connect(&url).await;
        let prefix = format!("t-{}:", posthaste::envelope::fresh_id());
        Self { url, prefix, connection, server }
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("this test has a server of its own")
    }

    /// Connects anew: after a restart of the server.
    pub(crate) async fn reconnect(&mut self) {
        self.connection = connect(&self.url).await;
    }

    /// The server as Posthaste sees it, with these settings.
    pub(crate) fn open(&self, settings: &str) -> RedisBroker {
        RedisBroker::at(&format!("{}?prefix={}&{settings}", self.url, self.prefix)).unwrap()
    }

    /// The key of a topic's stream.
    pub(crate) fn stream(&self, topic: &str) -> String {
        format!("{}{topic}", self.prefix)
    }

    /// Asks the server.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// The entries of a stream: their fields and values.
    pub(crate) async fn entries(&self, stream: &str) -> Vec<Vec<(String, Vec<u8>)>> {
        let entries: Vec<(String, Vec<Value>)> = self.ask(&["XRANGE", stream, "-", "+"]).await;
        let bytes = |value: &Value| match value {
            Value::BulkString(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        let fields = |values: Vec<Value>| {
            values
                .chunks(2)
                .map(|pair| (String::from_utf8(bytes(&pair[0])).unwrap(), bytes(&pair[1])))
                .collect()
        };
        entries.into_iter().map(|(_, values)| fields(values)).collect()
    }

    /// The ids of the events in a topic's stream.
    pub(crate) async fn ids(&self, topic: &str) -> Vec<String> {
        let entries = self.entries(&self.stream(topic)).await;
        let id =
            |fields: Vec<(String, Vec<u8>)>| fields.into_iter().find(|(name, _)| name == "id").unwrap().1;
        entries.into_iter().map(|fields| String::from_utf8(id(fields)).unwrap()).collect()
    }

    /// Removes what the test has left.
    pub(crate) async fn clear(&self) {
        let keys: Vec<String> = self.ask(&["KEYS", &format!("{}*", self.prefix)]).await;
        for key in keys {
            let _: i64 = self.ask(&["DEL", &key]).await;
        }
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_WITHIN));
    Client::open(url).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// The address in a URL of a server of ours.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once("://").unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}
