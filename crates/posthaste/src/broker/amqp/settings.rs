//! How to reach RabbitMQ and how to speak with it: from a URL, or by a builder.
//!
//! | in the URL | default | means |
//! |---|---|---|
//! | `exchange` | `posthaste` | the exchange that events are published to and queues are bound to |
//! | `create_exchange` | `false` | `true`: an exchange that events are published to is created if it is missing |
//! | `exchange_type` | `topic` | the type of an exchange that is created: `topic`, `direct`, `fanout` |
//! | `mapping` | `topic` | `topic`: to `exchange`, routed by the topic; `key`: to the exchange that is named as the topic, routed by the key, or by the topic where there is no key |
//! | `format` | `binary` | how CloudEvents attributes travel: `binary`, `structured`, `raw` |
//! | `unrouted` | `retry` | what becomes of an event that no queue takes: `retry`, `dead`, `drop` |
//! | `window` | `1000` | unconfirmed events of a lane |
//! | `confirm_timeout` | `5s` | how long the broker may take to confirm |
//! | `message_bytes_max` | `16MiB` | the largest message the broker takes |
//! | `app_id` | `posthaste` | AMQP's `app_id` |
//! | `consume_user`, `consume_password` | the URL's | other credentials for consuming |
//! | `heartbeat` | `10s` | silence after which a connection is in doubt; it is given up after twice as long |
//! | `connect_timeout` | `10s` | how long a connection may take to be made |
//! | `monitor` | `10s` | how often an idle connection is tried |
//! | `reconnect_max` | `30s` | the longest pause between two attempts to connect |
//! | `sslrootcert`, `sslcert`, `sslkey` | the system's CAs | PEM files, with `amqps://` |
//! | `auth` | `plain` | `external`: the broker knows us by our client certificate |
//! | `prefix` | `{group}` | what the names of a group's queues begin with; without `{group}` in it, for one group alone |
//! | `retry_queue`, `dead_queue` | `{queue}.retry.{tier}`, `{queue}.dlq` | the names of what belongs to a queue |
//! | `declare` | `true` | `false`: nothing is created, everything must be there |
//! | `queue_type` | `quorum` | of a group's queue: `quorum` or `classic` |
//! | `retry_queue_type` | `quorum` | of the queues in which a retry waits |
//! | `tiers` | `5s,30s,120s` | the pauses that a retry can have |
//! | `dead_exchange` | `false` | `true`: an exchange `<exchange>_dlq` is declared in front of the dead queues |
//! | `hold_max` | `5m` | with order per key: how long a failing event may hold its key in the process |

use std::time::Duration;

use posthaste_core::{Error, Result};

use super::mapping::Mapping;
use super::naming::Naming;
use super::tiers::Tiers;
use super::url::{self, NAME_BYTES_MAX, URL};
use crate::broker::address::{Credentials, YES_NO};
pub use crate::broker::cloudevents::Format;
use crate::tls::Files;
use crate::url::bytes;

/// What becomes of an event that no queue takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrouted {
    /// It failed, and is tried again as the lane's policy says.
    #[default]
    Retry,
    /// It is dead at once.
    Dead,
    /// It counts as delivered: whoever wants it must be there before it is published.
    Drop,
}

/// The type of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated, on disk before it is confirmed.
    #[default]
    Quorum,
    /// On one node.
    Classic,
}

impl QueueType {
    /// As RabbitMQ calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// How to reach RabbitMQ and how to speak with it.
///
/// Made from a URL ([`parse`](str::parse)); what the URL does not say has its default and can be set by the builder. Its
/// `Debug` shows no credentials.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) link: LinkSettings,
    pub(super) publishing: Publishing,
    pub(super) consuming: Consuming,
}

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub(super) struct LinkSettings {
    pub(super) is_tls: bool,
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) vhost: String,
    pub(super) publish: Credentials,
    pub(super) consume: Credentials,
    pub(super) files: Files,
    pub(super) is_external: bool,
    pub(super) heartbeat: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) monitor: Duration,
    pub(super) reconnect_max: Duration,
}

/// How events are published.
#[derive(Clone, Debug)]
pub(super) struct Publishing {
    pub(super) exchange: String,
    pub(super) create_exchange: bool,
    pub(super) mapping: Mapping,
    pub(super) format: Format,
    pub(super) unrouted: Unrouted,
    pub(super) window: u32,
    pub(super) confirm_timeout: Duration,
    pub(super) message_bytes_max: u64,
    pub(super) app_id: String,
}

/// How events are consumed.
#[derive(Clone, Debug)]
pub(super) struct Consuming {
    pub(super) exchange_type: String,
    pub(super) naming: Naming,
    pub(super) declare: bool,
    pub(super) queue_type: QueueType,
    pub(super) retry_queue_type: QueueType,
    pub(super) tiers: Vec<Duration>,
    pub(super) dead_exchange: bool,
    pub(super) hold_max: Duration,
}

impl Default for Publishing {
    fn default() -> Self {
        Self {
            exchange: "posthaste".to_owned(),
            create_exchange: false,
            mapping: Mapping::Topic,
            format: Format::Binary,
            unrouted: Unrouted::Retry,
            window: 1_000,
            confirm_timeout: Duration::from_secs(5),
            message_bytes_max: 16 * 1024 * 1024,
            app_id: "posthaste".to_owned(),
        }
    }
}

impl Default for Consuming {
    fn default() -> Self {
        Self {
            exchange_type: "topic".to_owned(),
            naming: Naming::default(),
            declare: true,
            queue_type: QueueType::Quorum,
            retry_queue_type: QueueType::Quorum,
            tiers: [5, 30, 120].map(Duration::from_secs).to_vec(),
            dead_exchange: false,
            hold_max: Duration::from_secs(300),
        }
    }
}

impl Settings {
    /// Publishes to this exchange, and binds queues to it.
    #[must_use]
    pub fn exchange(mut self, name: impl Into<String>) -> Self {
        self.publishing.exchange = name.into();
        self
    }

    /// Creates an exchange that events are published to if it is missing: durable, and a topic exchange
    /// unless the URL says `exchange_type`.
    #[must_use]
    pub fn create_exchange(mut self) -> Self {
        self.publishing.create_exchange = true;
        self
    }

    /// Says where an event goes.
    #[must_use]
    pub fn mapping(mut self, mapping: Mapping) -> Self {
        self.publishing.mapping = mapping;
        self
    }

    /// Says how CloudEvents attributes travel.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.publishing.format = format;
        self
    }

    /// Says what becomes of an event that no queue takes.
    #[must_use]
    pub fn unrouted(mut self, unrouted: Unrouted) -> Self {
        self.publishing.unrouted = unrouted;
        self
    }

    /// Waits so long for a confirm.
    #[must_use]
    pub fn confirm_timeout(mut self, timeout: Duration) -> Self {
        self.publishing.confirm_timeout = timeout;
        self
    }

    /// Consumes as another user than it publishes.
    #[must_use]
    pub fn consume_as(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.link.consume = Credentials::new(user, password);
        self
    }

    /// Uses these pauses for retries, shortest first.
    #[must_use]
    pub fn tiers(mut self, tiers: impl Into<Vec<Duration>>) -> Self {
        self.consuming.tiers = tiers.into();
        self
    }

    /// Makes a group's queues of this type.
    #[must_use]
    pub fn queue_type(mut self, kind: QueueType) -> Self {
        self.consuming.queue_type = kind;
        self.consuming.retry_queue_type = kind;
        self
    }

    /// Creates nothing: exchanges and queues must be there.
    #[must_use]
    pub fn declare_nothing(mut self) -> Self {
        self.consuming.declare = false;
        self
    }

    /// Checks what a builder may have got wrong.
    pub(super) fn check(&self) -> Result<()> {
        let publishing = &self.publishing;
        for (what, name) in [("exchange", &publishing.exchange), ("app_id", &publishing.app_id)] {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::config(format!("{what} must have 1 to {NAME_BYTES_MAX} bytes")));
            }
        }
        Tiers::new(self.consuming.tiers.clone())?;
        if !EXCHANGE_TYPES.contains(&self.consuming.exchange_type.as_str()) {
            return Err(Error::config(format!("exchange_type must be one of {}", EXCHANGE_TYPES.join(", "))));
        }
        if publishing.window == 0 || publishing.window > WINDOW_MAX {
            return Err(Error::config(format!("window must be 1 to {WINDOW_MAX}")));
        }
        if !self.link.is_tls && (self.link.files != Files::default() || self.link.is_external) {
            return Err(Error::config(
                "certificates need an amqps:// URL; with amqp:// nothing is encrypted",
            ));
        }
        Ok(())
    }
}

/// Those that route by a topic, or to everybody.
const EXCHANGE_TYPES: [&str; 3] = ["topic", "direct", "fanout"];
const WINDOW_MAX: u32 = 100_000;

impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (parts, credentials, vhost) = url::split(text)?;
        let mut settings = Self {
            link: LinkSettings {
                is_tls: parts.is_tls,
                hosts: parts.hosts,
                vhost,
                consume: credentials.clone(),
                publish: credentials,
                files: Files::default(),
                is_external: false,
                heartbeat: Duration::from_secs(10),
                connect_timeout: Duration::from_secs(10),
                monitor: Duration::from_secs(10),
                reconnect_max: Duration::from_secs(30),
            },
            publishing: Publishing::default(),
            consuming: Consuming::default(),
        };
        let mut consumer = (None, None);
        for (name, value) in parts.query {
            match name.as_str() {
                "consume_user" => consumer.0 = Some(value),
                "consume_password" => consumer.1 = Some(value),
                _ => settings.set(&name, &value)?,
            }
        }
        match consumer {
            (None, None) => {}
            (Some(user), Some(password)) => settings = settings.consume_as(user, password),
            _ => return Err(Error::config("consume_user and consume_password belong together")),
        }
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// Takes in one setting of the URL.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let (link, publishing, consuming) = (&mut self.link, &mut self.publishing, &mut self.consuming);
        match name {
            "exchange" => publishing.exchange = value.to_owned(),
            "create_exchange" => publishing.create_exchange = URL.one_of(name, value, &YES_NO)?,
            "mapping" => {
                publishing.mapping =
                    URL.one_of(name, value, &[("topic", Mapping::Topic), ("key", Mapping::Key)])?
            }
            "format" => {
                publishing.format = URL.one_of(name, value, &Format::NAMES)?;
            }
            "unrouted" => {
                let fates = [("retry", Unrouted::Retry), ("dead", Unrouted::Dead), ("drop", Unrouted::Drop)];
                publishing.unrouted = URL.one_of(name, value, &fates)?;
            }
            "window" => publishing.window = URL.read(name, value, "a number", value.parse().ok())?,
            "confirm_timeout" => publishing.confirm_timeout = URL.span(name, value)?,
            "message_bytes_max" => {
                publishing.message_bytes_max = URL.read(name, value, "a size such as 16MiB", bytes(value))?;
            }
            "app_id" => publishing.app_id = value.to_owned(),
            "heartbeat" => link.heartbeat = URL.span(name, value)?,
            "connect_timeout" => link.connect_timeout = URL.span(name, value)?,
            "monitor" => link.monitor = URL.span(name, value)?,
            "reconnect_max" => link.reconnect_max = URL.span(name, value)?,
            "sslrootcert" => link.files.ca = Some(value.into()),
            "sslcert" => link.files.certificate = Some(value.into()),
            "sslkey" => link.files.key = Some(value.into()),
            "auth" => link.is_external = URL.one_of(name, value, &[("plain", false), ("external", true)])?,
            "exchange_type" => consuming.exchange_type = value.to_owned(),
            "prefix" => consuming.naming.set_prefix(value)?,
            "retry_queue" => consuming.naming.set_retry(value)?,
            "dead_queue" => consuming.naming.set_dead(value)?,
            "declare" => consuming.declare = URL.one_of(name, value, &YES_NO)?,
            "queue_type" => consuming.queue_type = URL.one_of(name, value, &QUEUE_TYPES)?,
            "retry_queue_type" => consuming.retry_queue_type = URL.one_of(name, value, &QUEUE_TYPES)?,
            "tiers" => {
                let pauses = value.split(',').map(|pause| URL.span(name, pause));
                consuming.tiers = pauses.collect::<Result<_>>()?;
            }
            "dead_exchange" => consuming.dead_exchange = URL.one_of(name, value, &YES_NO)?,
            "hold_max" => consuming.hold_max = URL.span(name, value)?,
            _ => return Err(URL.unknown(name)),
        }
        Ok(())
    }
}

const QUEUE_TYPES: [(&str, QueueType); 2] = [("quorum", QueueType::Quorum), ("classic", QueueType::Classic)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_stand_in_the_url() {
        let url = "amqps://u:p@h/v?exchange=orders&create_exchange=true&exchange_type=direct&mapping=key&format=structured&unrouted=dead\
                   &window=7&confirm_timeout=250ms&message_bytes_max=1MiB&app_id=shop&consume_user=c&consume_password=d\
                   &heartbeat=3s&connect_timeout=4s&monitor=5s&reconnect_max=6s&sslrootcert=/ca&sslcert=/c&sslkey=/k&auth=external&prefix=g&retry_queue={queue}.r{tier}&dead_queue={queue}.d\
                   &declare=false&queue_type=classic&retry_queue_type=classic&tiers=200ms,400ms&dead_exchange=true&hold_max=1m";
        let settings: Settings = url.parse().unwrap();
        let (publishing, consuming) = (&settings.publishing, &settings.consuming);
        assert_eq!((publishing.exchange.as_str(), publishing.window), ("orders", 7));
        assert_eq!((publishing.format, publishing.unrouted), (Format::Structured, Unrouted::Dead));
        assert_eq!(publishing.message_bytes_max, 1024 * 1024);
        assert_eq!(publishing.confirm_timeout, Duration::from_millis(250));
        assert_eq!(consuming.tiers, [200, 400].map(Duration::from_millis));
        assert!(publishing.create_exchange && consuming.exchange_type == "direct");
        assert!(consuming.dead_exchange && !consuming.declare && settings.link.is_external);
        assert_eq!(consuming.queue_type, QueueType::Classic);
        assert_eq!((consuming.hold_max.as_secs(), settings.link.reconnect_max.as_secs()), (60, 6));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name_and_without_secrets() {
        for (query, says) in [
            ("unknown=1", "unknown"),
            ("window=many", "window"),
            ("window=0", "window"),
            ("confirm_timeout=5", "500ms"),
            ("confirm_timeout=0s", "confirm_timeout"),
            ("create_exchange=maybe", "create_exchange"),
            ("exchange_type=headers", "topic, direct, fanout"),
            ("format=xml", "binary, structured, raw"),
            ("tiers=5s,1s", "longer than the one before"),
            ("consume_user=x", "belong together"),
            ("sslrootcert=/ca", "amqps://"),
            ("exchange=", "exchange must have"),
        ] {
            let error = format!("amqp://u:hunter2@h?{query}").parse::<Settings>().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{query}: {error}");
        }
        let shown = format!("{:?}", "amqp://me:hunter2@h".parse::<Settings>().unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
