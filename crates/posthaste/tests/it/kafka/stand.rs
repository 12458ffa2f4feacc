//! A server and topics of a test's own, and a look into them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::broker::kafka::KafkaBroker;
use posthaste_testservers::{Interrupt, Kind, Run, Server};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use rdkafka::metadata::MetadataPartition;
use rdkafka::{Offset, TopicPartitionList};

pub(crate) use crate::sending::{SOON, blocking, event, send, until};

pub(crate) const PARTITIONS: i32 = 3;

/// What a test looks at the server with.
pub(crate) struct Stand {
    pub(crate) url: String,
    /// What its topics begin with.
    pub(crate) prefix: String,
    server: Option<Server>,
}

impl Stand {
    /// On the server of the run; `None`, said on stderr, where there is none.
    pub(crate) fn shared(trial: &str) -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests learn from the environment where their servers are"
        )]
        let url = std::env::var("POSTHASTE_TEST_KAFKA");
        if url.is_err() {
            eprintln!("skipped: {trial}: POSTHASTE_TEST_KAFKA is not set");
        }
        url.ok().map(|url| Self::at(url, None))
    }

    /// On a server of the test's own, with these settings changed; `None`, said on stderr, where it cannot be had.
    pub(crate) fn private(trial: &str, change: impl FnOnce(String) -> String) -> Option<Self> {
        if !Kind::Kafka.is_installed() {
            eprintln!("skipped: {trial}: there is no Kafka, so POSTHASTE_TEST_KAFKA cannot be set either");
            return None;
        }
        let server = blocking(|| {
            let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
            let mut server = Server::new(Kind::Kafka, &run, None).unwrap();
            server.prepare().unwrap();
            let file = server.folder().join("server.properties");
            std::fs::write(&file, change(std::fs::read_to_string(&file).unwrap())).unwrap();
            server.start().unwrap();
            server
        });
        Some(Self::at(server.url(), Some(server)))
    }

    fn at(url: String, server: Option<Server>) -> Self {
        Self { url, prefix: format!("t-{}.", posthaste::envelope::fresh_id()), server }
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("this test has a server of its own")
    }

    /// The server as Posthaste sees it, with the stand's topics and these settings.
    pub(crate) fn open(&self, settings: &str) -> KafkaBroker {
        self.open_at(&self.url, settings)
    }

    pub(crate) fn open_at(&self, url: &str, settings: &str) -> KafkaBroker {
        KafkaBroker::at(&format!("{url}?prefix={}&reconnect_max=1s&{settings}", self.prefix)).unwrap()
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.url.strip_prefix("kafka://").unwrap());
        config
    }

    /// Makes a topic, with these settings of its own.
    pub(crate) async fn make(&self, topic: &str, own: &[(&str, &str)]) {
        let name = format!("{}{topic}", self.prefix);
        let new = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1));
        let new = own.iter().fold(new, |new, (name, value)| new.set(name, value));
        self.admin().create_topics([&new], &patient()).await.unwrap().pop().unwrap().unwrap();
        // It is answered before the broker knows of it in everything that it says.
        until("the topic is there", async || self.shows(&name)).await;
    }

    /// Whether the broker shows this topic with a leader for every partition.
    fn shows(&self, name: &str) -> bool {
        blocking(|| {
            let consumer: BaseConsumer = self.config().create().unwrap();
            let Ok(metadata) = consumer.fetch_metadata(Some(name), SOON) else { return false };
            let Some(topic) = metadata.topics().first().filter(|topic| topic.error().is_none()) else {
                return false;
            };
            let has_leader =
                |partition: &MetadataPartition| partition.error().is_none() && partition.leader() >= 0;
            topic.partitions().len() == PARTITIONS as usize && topic.partitions().iter().all(has_leader)
        })
    }

    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// Everything that is in a topic, partition by partition.
    pub(crate) fn messages(&self, topic: &str) -> Vec<OwnedMessage> {
        self.messages_in(topic, PARTITIONS)
    }

    /// The same of a topic with so many partitions.
    pub(crate) fn messages_in(&self, topic: &str, partitions: i32) -> Vec<OwnedMessage> {
        let name = format!("{}{topic}", self.prefix);
        blocking(|| {
            let consumer: BaseConsumer = self.config().set("group.id", "nobody").create().unwrap();
            let (mut messages, until) = (Vec::new(), Instant::now() + SOON);
            for partition in 0..partitions {
                let (_, end) = consumer.fetch_watermarks(&name, partition, SOON).unwrap();
                let mut place = TopicPartitionList::new();
                place.add_partition_offset(&name, partition, Offset::Beginning).unwrap();
                consumer.assign(&place).unwrap();
                let mut next = 0;
                while next < end {
                    assert!(Instant::now() < until, "{next} of {end} messages of partition {partition} came");
                    // It also returns when something else has happened.
                    if let Some(message) = consumer.poll(Duration::from_secs(1)) {
                        let message = message.unwrap().detach();
                        next = message.offset() + 1;
                        messages.push(message);
                    }
                }
            }
            messages
        })
    }

    /// The ids of everything that is in a topic, partition by partition.
    pub(crate) fn ids(&self, topic: &str) -> Vec<String> {
        self.messages(topic).iter().map(|message| header(message, "X-Event-ID").unwrap()).collect()
    }
}

/// What an operator asks for may take its time.
pub(crate) fn patient() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(SOON))
}

/// A header of a message.
pub(crate) fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let found = message.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8(found.value?.to_vec()).unwrap())
}
