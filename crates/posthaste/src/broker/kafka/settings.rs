//! How to reach Kafka and how to speak with it: from a URL, or by a builder.
//!
//! | in the URL | default | means |
//! |---|---|---|
//! | `prefix` | none | stands before the topic in the name of a Kafka topic |
//! | `topic` | the event's | one Kafka topic for all events |
//! | `create_topics` | none | a missing topic is created with so many partitions |
//! | `replicas` | the cluster's | the replicas of topics that are created |
//! | `acks` | `all` | who must have an event before it counts as delivered: `all` replicas in sync, `1` or `one` (the leader), `0` or `none` (nobody) |
//! | `compression` | `none` | `none`, `gzip`, `snappy`, `lz4`, `zstd` |
//! | `linger` | `5ms` | how long events wait for others to share a batch with; `0ms` for not at all |
//! | `batch_events`, `batch_bytes` | `10000`, `1MB` | the most events and bytes of a batch |
//! | `format` | `binary` | how CloudEvents attributes travel: `binary`, `structured`, `raw` |
//! | `window` | `5000` | unacknowledged events of a lane |
//! | `ack_timeout` | `10s` | how long the brokers may take to acknowledge an event, and to answer anything else |
//! | `connect_timeout` | `10s` | how long a connection may take to be made |
//! | `reconnect_max` | `5s` | the longest pause between two attempts to connect |
//! | `message_bytes_max` | `1MiB` | the largest message, with its key and headers |
//! | `sasl` | `PLAIN` | how user and password are shown: `PLAIN`, and with the feature `kafka-tls` `SCRAM-SHA-256`, `SCRAM-SHA-512` |
//! | `sslrootcert`, `sslcert`, `sslkey` | the system's CAs | PEM files, with `kafkas://` |

mod choices;

use std::path::PathBuf;
use std::time::Duration;

use posthaste_core::{Error, Result};

pub use self::choices::{Acks, Compression, Sasl};
use super::consume::Consuming;
use super::naming;
use crate::broker::address::{Credentials, Dialect};
use crate::broker::cloudevents::Format;
use crate::url::{bytes, duration};

/// Kafka's URLs.
pub(super) const URL: Dialect = Dialect {
    broker: "Kafka",
    schemes: &[("kafka", false, 9092), ("kafkas", true, 9093)],
    example: "kafka://a:9092,b:9092, or kafka://user:password@host:9092",
    page: "docs/kafka.md",
};
const WINDOW_MAX: u32 = 100_000;
const PARTITIONS_MAX: i32 = 10_000;
const REPLICAS_MAX: i32 = 100;
const LINGER_MAX: Duration = Duration::from_secs(60);
/// What the client itself can be told.
const MESSAGE_BYTES_MAX: u64 = 900_000_000;
const BATCH_EVENTS_MAX: u32 = 1_000_000;
/// The client looks for late events once a second.
const ACK_TIMEOUT_MIN: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// How to reach Kafka and how to speak with it.
///
/// Made from a URL ([`parse`](str::parse)); what the URL does not say has its default and can be set by the builder. Its
/// `Debug` shows no credentials.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) link: LinkSettings,
    pub(super) topics: Topics,
    pub(super) publishing: Publishing,
    pub(super) consuming: Consuming,
}

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub(super) struct LinkSettings {
    pub(super) is_tls: bool,
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) credentials: Option<Credentials>,
    pub(super) sasl: Sasl,
    pub(super) root_cert: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) reconnect_max: Duration,
    /// How long the brokers may take to answer.
    pub(super) patience: Duration,
    /// The largest message.
    pub(super) message_bytes_max: u64,
}

/// What topics are called, and whether they are created.
#[derive(Clone, Debug, Default)]
pub(super) struct Topics {
    pub(super) prefix: String,
    pub(super) topic: Option<String>,
    /// Missing ones are created with so many partitions.
    pub(super) create: Option<i32>,
    pub(super) replicas: Option<i32>,
}

/// How events are published.
#[derive(Clone, Debug)]
pub(super) struct Publishing {
    pub(super) acks: Acks,
    pub(super) compression: Compression,
    pub(super) linger: Duration,
    pub(super) batch_events: u32,
    pub(super) batch_bytes: u64,
    pub(super) format: Format,
    pub(super) window: u32,
    pub(super) ack_timeout: Duration,
}

impl Default for Publishing {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            compression: Compression::None,
            linger: Duration::from_millis(5),
            batch_events: 10_000,
            batch_bytes: 1_000_000,
            format: Format::Binary,
            window: 5_000,
            ack_timeout: Duration::from_secs(10),
        }
    }
}

impl Topics {
    /// The Kafka topic of events of this topic.
    pub(super) fn name_of(&self, topic: &str) -> String {
        [self.prefix.as_str(), self.topic.as_deref().unwrap_or(topic)].concat()
    }
}

impl Settings {
    /// Puts this before the topic in the name of a Kafka topic.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.topics.prefix = prefix.into();
        self
    }

    /// Creates missing topics with so many partitions.
    #[must_use]
    pub fn create_topics(mut self, partitions: i32) -> Self {
        self.topics.create = Some(partitions);
        self
    }

    /// Says who must have an event before it counts as delivered.
    #[must_use]
    pub fn acks(mut self, acks: Acks) -> Self {
        self.publishing.acks = acks;
        self
    }

    /// Compresses batches so.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.publishing.compression = compression;
        self
    }

    /// Says how CloudEvents attributes travel.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.publishing.format = format;
        self
    }

    /// Waits so long for an acknowledgement.
    #[must_use]
    pub fn ack_timeout(mut self, timeout: Duration) -> Self {
        self.publishing.ack_timeout = timeout;
        self.link.patience = timeout;
        self
    }

    /// What these settings allow that may surprise somebody.
    pub(crate) fn doubts(&self) -> Vec<&'static str> {
        let shows_password =
            self.link.credentials.is_some() && self.link.sasl == Sasl::Plain && !self.link.is_tls;
        let shown = "user and password go to the brokers unencrypted; write kafkas:// (TLS), or sasl=SCRAM-SHA-256, which shows no password";
        self.doubt_of_acks().into_iter().chain(shows_password.then_some(shown)).collect()
    }

    /// What the acknowledgement that is waited for may lose, if it does.
    pub(super) fn doubt_of_acks(&self) -> Option<&'static str> {
        match self.publishing.acks {
            Acks::All => None,
            Acks::Leader => Some(
                "an event counts as delivered when one broker has it, and is lost with that broker (acks=1)",
            ),
            Acks::Nobody => Some("an event counts as delivered when it was sent, and may be lost (acks=0)"),
        }
    }

    /// Checks what a builder may have got wrong.
    pub(super) fn check(&self) -> Result<()> {
        self.link.check()?;
        self.consuming.check()?;
        self.topics.check(self.publishing.format)?;
        let publishing = &self.publishing;
        if publishing.window == 0 || publishing.window > WINDOW_MAX {
            return Err(Error::config(format!("window must be 1 to {WINDOW_MAX}")));
        }
        if publishing.batch_events == 0 || publishing.batch_events > BATCH_EVENTS_MAX {
            return Err(Error::config(format!("batch_events must be 1 to {BATCH_EVENTS_MAX}")));
        }
        if publishing.batch_bytes == 0 || publishing.batch_bytes > MESSAGE_BYTES_MAX {
            return Err(Error::config(format!("batch_bytes must be 1 to {MESSAGE_BYTES_MAX}")));
        }
        if publishing.linger > LINGER_MAX || publishing.linger * 2 > publishing.ack_timeout {
            return Err(Error::config(format!(
                "linger must be at most {LINGER_MAX:?} and half of ack_timeout: nothing would be acknowledged in time"
            )));
        }
        if publishing.ack_timeout < ACK_TIMEOUT_MIN {
            return Err(Error::config(format!("ack_timeout must be at least {ACK_TIMEOUT_MIN:?}")));
        }
        Ok(())
    }
}

impl LinkSettings {
    fn check(&self) -> Result<()> {
        if !(1_000..=MESSAGE_BYTES_MAX).contains(&self.message_bytes_max) {
            return Err(Error::config(format!("message_bytes_max must be 1000 to {MESSAGE_BYTES_MAX}")));
        }
        if self.connect_timeout < CONNECT_TIMEOUT_MIN {
            return Err(Error::config(format!("connect_timeout must be at least {CONNECT_TIMEOUT_MIN:?}")));
        }
        let has_files = self.root_cert.is_some() || self.cert.is_some() || self.key.is_some();
        if !self.is_tls && has_files {
            return Err(Error::config(
                "certificates need a kafkas:// URL; with kafka:// nothing is encrypted",
            ));
        }
        if !cfg!(feature = "kafka-tls") && (self.is_tls || self.sasl != Sasl::Plain) {
            return Err(Error::config(
                "this build has neither TLS nor SCRAM for Kafka; build it with --features kafka-tls, which needs make, a C++ compiler and OpenSSL",
            ));
        }
        Ok(())
    }
}

impl LinkSettings {
    /// The client itself tells of a file that it cannot read by a number, and when it is used first.
    pub(super) fn look_at_files(&self) -> Result<()> {
        for file in [&self.root_cert, &self.cert, &self.key].into_iter().flatten() {
            let found = std::fs::File::open(file);
            found.map_err(|error| {
                Error::config(format!("{} cannot be read", file.display())).because(error)
            })?;
        }
        Ok(())
    }
}

impl Topics {
    fn check(&self, format: Format) -> Result<()> {
        let wrong = |what: &str, name: &str, why: &str| {
            Error::config(format!("the {what} {name:?} cannot be (in) the name of a topic: {why}"))
        };
        if !self.prefix.is_empty() {
            naming::check(&self.prefix).map_err(|why| wrong("prefix", &self.prefix, &why))?;
        }
        if let Some(topic) = &self.topic {
            naming::check(&self.name_of(topic)).map_err(|why| wrong("topic", topic, &why))?;
            if format == Format::Raw {
                return Err(Error::config(
                    "a raw message does not say its topic, so with format=raw every topic needs a Kafka topic of its own; leave topic away",
                ));
            }
        }
        if self.create.is_some_and(|partitions| !(1..=PARTITIONS_MAX).contains(&partitions)) {
            return Err(Error::config(format!(
                "create_topics must be the partitions of a new topic, 1 to {PARTITIONS_MAX}"
            )));
        }
        if self.replicas.is_some_and(|replicas| !(1..=REPLICAS_MAX).contains(&replicas)) {
            return Err(Error::config(format!("replicas must be 1 to {REPLICAS_MAX}")));
        }
        Ok(())
    }
}

impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = URL.split(text)?;
        if !parts.path.is_empty() {
            return Err(URL.wrong("nothing may stand between the hosts and the question mark"));
        }
        let publishing = Publishing::default();
        let mut settings = Self {
            link: LinkSettings {
                is_tls: parts.is_tls,
                hosts: parts.hosts,
                credentials: parts.credentials,
                sasl: Sasl::Plain,
                root_cert: None,
                cert: None,
                key: None,
                connect_timeout: Duration::from_secs(10),
                reconnect_max: Duration::from_secs(5),
                patience: publishing.ack_timeout,
                message_bytes_max: 1024 * 1024,
            },
            topics: Topics::default(),
            publishing,
            consuming: Consuming::default(),
        };
        for (name, value) in parts.query {
            settings.set(&name, &value)?;
        }
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// Takes in one setting of the URL.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let (link, topics, publishing) = (&mut self.link, &mut self.topics, &mut self.publishing);
        let number = || URL.read(name, value, "a number", value.parse().ok());
        let size = || URL.read(name, value, "a size such as 1MiB", bytes(value));
        match name {
            "prefix" => topics.prefix = value.to_owned(),
            "topic" => topics.topic = Some(value.to_owned()),
            "create_topics" => topics.create = Some(URL.read(name, value, "a number", value.parse().ok())?),
            "replicas" => topics.replicas = Some(URL.read(name, value, "a number", value.parse().ok())?),
            "acks" => publishing.acks = URL.one_of(name, value, &Acks::NAMES)?,
            "compression" => publishing.compression = URL.one_of(name, value, &Compression::NAMES)?,
            "linger" => {
                publishing.linger =
                    URL.read(name, value, "a duration such as 0ms or 5ms", duration(value))?;
            }
            "batch_events" => publishing.batch_events = number()?,
            "batch_bytes" => publishing.batch_bytes = size()?,
            "format" => publishing.format = URL.one_of(name, value, &Format::NAMES)?,
            "window" => publishing.window = number()?,
            "ack_timeout" => {
                publishing.ack_timeout = URL.span(name, value)?;
                link.patience = publishing.ack_timeout;
            }
            "connect_timeout" => link.connect_timeout = URL.span(name, value)?,
            "reconnect_max" => link.reconnect_max = URL.span(name, value)?,
            "message_bytes_max" => link.message_bytes_max = size()?,
            "sasl" => link.sasl = URL.one_of(name, value, &Sasl::NAMES)?,
            "sslrootcert" => link.root_cert = Some(value.into()),
            "sslcert" => link.cert = Some(value.into()),
            "sslkey" => link.key = Some(value.into()),
            _ => self.consuming.set(name, value)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_everything() {
        let url = "kafka://u:p@a,b:1?prefix=shop.&topic=all&create_topics=6&replicas=3&acks=1&compression=zstd&linger=0ms\
                   &batch_events=7&batch_bytes=64KiB&format=structured&window=9&ack_timeout=2s&connect_timeout=3s\
                   &reconnect_max=4s&message_bytes_max=2MiB&sasl=PLAIN";
        let settings: Settings = url.parse().unwrap();
        let (link, topics, publishing) = (&settings.link, &settings.topics, &settings.publishing);
        assert_eq!(link.hosts, [("a".to_owned(), 9092), ("b".to_owned(), 1)]);
        assert_eq!((link.message_bytes_max, link.patience), (2 << 20, Duration::from_secs(2)));
        assert_eq!((link.connect_timeout.as_secs(), link.reconnect_max.as_secs()), (3, 4));
        assert_eq!(
            (topics.name_of("t"), topics.create, topics.replicas),
            ("shop.all".into(), Some(6), Some(3))
        );
        assert_eq!((publishing.acks, publishing.compression), (Acks::Leader, Compression::Zstd));
        assert_eq!((publishing.linger, publishing.batch_events), (Duration::ZERO, 7));
        assert_eq!((publishing.batch_bytes, publishing.window), (65_536, 9));
        assert_eq!(publishing.format, Format::Structured);
        let plain: Settings = "kafka://h".parse().unwrap();
        assert_eq!(plain.topics.name_of("t"), "t");
    }

    #[test]
    fn what_may_surprise_somebody_is_told() {
        let doubts = |url: &str| url.parse::<Settings>().unwrap().doubts().join(" ");
        for (url, says) in [
            ("kafka://h?acks=1", "acks=1"),
            ("kafka://h?acks=one", "acks=1"),
            ("kafka://h?acks=none", "acks=0"),
            ("kafka://u:p@h", "unencrypted"),
        ] {
            assert!(doubts(url).contains(says), "{url}: {}", doubts(url));
        }
        assert_eq!(doubts("kafka://h"), "");
        assert!(doubts("kafka://u:p@h?acks=0").contains("acks=0"), "one does not hide the other");
        #[cfg(feature = "kafka-tls")]
        assert_eq!(doubts("kafkas://u:p@h") + &doubts("kafka://u:p@h?sasl=SCRAM-SHA-256"), "");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name_and_without_secrets() {
        for (tail, says) in [
            ("?unknown=1", "unknown"),
            ("?acks=2", "all, -1, 1, one, 0, none"),
            ("?compression=brotli", "none, gzip, snappy, lz4, zstd"),
            ("?create_topics=0", "create_topics"),
            ("?create_topics=yes", "a number"),
            ("?replicas=0", "replicas"),
            ("?window=0", "window"),
            ("?linger=9s", "half of ack_timeout"),
            ("?ack_timeout=1ms", "ack_timeout"),
            ("?message_bytes_max=12", "message_bytes_max"),
            ("?sslrootcert=/ca", "kafkas://"),
            ("?topic=t&format=raw", "topic of its own"),
            ("?topic=a/b", "name of a topic"),
            ("?prefix=a%20b", "name of a topic"),
            ("/orders", "between the hosts"),
        ] {
            let error = format!("kafka://u:hunter2@h{tail}").parse::<Settings>().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{tail}: {error}");
        }
        let shown = format!("{:?}", "kafka://hunter1:hunter2@h".parse::<Settings>().unwrap());
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn what_this_build_lacks_says_what_to_build() {
        for url in ["kafkas://h", "kafka://u:p@h?sasl=SCRAM-SHA-256"] {
            let parsed = url.parse::<Settings>();
            assert_eq!(parsed.is_ok(), cfg!(feature = "kafka-tls"), "{url}");
            if let Err(error) = parsed {
                assert!(error.to_string().contains("--features kafka-tls"), "{error}");
            }
        }
    }
}
