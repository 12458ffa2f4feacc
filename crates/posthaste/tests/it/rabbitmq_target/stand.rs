//! A broker, exchanges and queues of a test's own, and a look into them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use posthaste::broker::amqp::AmqpBroker;
use posthaste::envelope::Envelope;
use posthaste::store::Parcel;
use posthaste::target::{Answer, DeliverError, Target};
use posthaste::time::Timestamp;
use posthaste_testkit::harness::Settings;
use posthaste_testservers::{Interrupt, Kind, Run, Server};

/// No fact of these tests takes so long. Most take a second; a broker that was killed may leave publishers to a quorum queue
/// without an answer for a minute after it is back, and a connection that does not answer is made anew meanwhile.
pub(crate) const SOON: Duration = Duration::from_secs(150);

/// What a test looks at the broker with: its own connection, an exchange, and queues whose names begin alike.
pub(crate) struct Stand {
    pub(crate) url: String,
    /// The exchange, and the beginning of the names of all queues.
    pub(crate) name: String,
    pub(crate) channel: Channel,
    _connection: Connection,
    server: Option<Server>,
}

impl Stand {
    /// On the broker of the run; `None`, said on stderr, where there is none.
    pub(crate) async fn shared(trial: &str) -> Option<Self> {
        let settings = Settings::from_env();
        #[expect(
            clippy::disallowed_methods,
            reason = "tests learn from the environment where their servers are"
        )]
        let url = std::env::var("POSTHASTE_TEST_RABBITMQ");
        let Ok(url) = url else {
            assert!(!settings.all_required, "{trial} needs POSTHASTE_TEST_RABBITMQ");
            eprintln!("skipped: {trial}: POSTHASTE_TEST_RABBITMQ is not set");
            return None;
        };
        Some(Self::at(url, None).await)
    }

    /// On a broker of the test's own, with these lines in its settings; `None`, said on stderr, where it cannot be had.
    pub(crate) async fn private(trial: &str, settings: impl FnOnce(&Server) -> String) -> Option<Self> {
        if !Kind::Rabbitmq.is_installed() {
            assert!(!Settings::from_env().all_required, "rabbitmq is not installed");
            eprintln!("skipped: {trial}: rabbitmq is not installed");
            return None;
        }
        let server = blocking(|| {
            let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
            let mut server = Server::new(Kind::Rabbitmq, &run, None).unwrap();
            let folder = server.folder().join("conf.d");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("90-test.conf"), settings(&server)).unwrap();
            server.start().unwrap();
            server
        });
        Some(Self::at(server.url(), Some(server)).await)
    }

    async fn at(url: String, server: Option<Server>) -> Self {
        let (connection, channel) = connect(&url).await;
        let name = format!("t-{}", posthaste::envelope::fresh_id());
        let stand = Self { url, name, channel, _connection: connection, server };
        stand.declare_exchange().await;
        stand
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("this test has a server of its own")
    }

    /// Connects anew: after a restart of the broker.
    pub(crate) async fn reconnect(&mut self) {
        (self._connection, self.channel) = connect(&self.url).await;
    }

    pub(crate) async fn declare_exchange(&self) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = self.channel.exchange_declare(
            self.name.as_str().into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        declared.await.unwrap();
    }

    /// A durable queue that takes what has this routing key.
    pub(crate) async fn queue(&self, routing_key: &str, arguments: &[(&str, AMQPValue)]) -> String {
        let queue = format!("{}.{routing_key}", self.name);
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.as_str().into(), options, table).await.unwrap();
        let bound = self.channel.queue_bind(
            queue.as_str().into(),
            self.name.as_str().into(),
            routing_key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.unwrap();
        queue
    }

    /// The broker as Posthaste sees it, with this exchange and these settings. After an outage of a minute it would wait for up
    /// to half a minute before it looks again; tests need not.
    pub(crate) fn open(&self, settings: &str) -> AmqpBroker {
        let always = format!("exchange={}&reconnect_max=2s", self.name);
        AmqpBroker::at(&format!("{}?{always}&{settings}", self.url)).unwrap()
    }

    /// The next message of a queue.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
    }

    /// The ids of everything that is in a queue.
    pub(crate) async fn ids(&self, queue: &str) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(message) = self.get(queue).await {
            ids.push(message.delivery.properties.message_id().as_ref().unwrap().to_string());
        }
        ids
    }

    /// Removes what the test has left.
    pub(crate) async fn clear(&self, queue: &str) {
        let _ = self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await;
        let _ = self.channel.queue_delete(queue.into(), Default::default()).await;
        let _ = self.channel.exchange_delete(self.name.as_str().into(), Default::default()).await;
    }
}

pub(crate) async fn connect(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// Starting and ending servers blocks; the other tasks of the test go on meanwhile.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// An event with this id on this topic.
pub(crate) fn event(id: impl Into<String>, topic: &str) -> Envelope {
    let mut event = Envelope::new("test.event", b"{}".to_vec());
    event.id = id.into();
    event.topic = topic.to_owned();
    event
}

/// Delivers these and answers what was said about each, in their order.
pub(crate) async fn send(target: &dyn Target, events: Vec<Envelope>) -> Vec<Result<(), DeliverError>> {
    let count = events.len();
    let parcel = |event| Parcel::new(Arc::new(event), 1, false, Timestamp::default());
    let mut answers: Vec<Answer> = target.deliver(events.into_iter().map(parcel).collect()).collect().await;
    answers.sort_by_key(|answer| answer.index);
    assert_eq!(answers.len(), count, "one answer for each");
    answers.into_iter().map(|answer| answer.result).collect()
}

/// Waits for a fact.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    posthaste_testkit::wait::eventually(SOON, what, async || holds().await).await.unwrap();
}

/// The address in a URL of a server of ours.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.rsplit_once('@').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}
