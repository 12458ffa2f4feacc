//! How to reach Redis and how to speak with it: from a URL, or by a builder.
//!
//! | in the URL | default | means |
//! |---|---|---|
//! | `prefix` | none | stands before the topic in the name of a stream |
//! | `stream` | the topic | one stream for all topics; whoever reads it can use patterns |
//! | `format` | `binary` | how CloudEvents attributes travel: `binary`, `structured`, `raw` |
//! | `maxlen` | none | about so many entries stay in a stream; older ones are removed, read or not |
//! | `replicas` | `0` | so many replicas must have an event before it counts as delivered |
//! | `window` | `1000` | unanswered events of a lane |
//! | `answer_timeout` | `5s` | how long the server may take to answer |
//! | `connect_timeout` | `5s` | how long a connection may take to be made |
//! | `message_bytes_max` | `16MiB` | the largest payload |
//! | `sslrootcert`, `sslcert`, `sslkey` | the system's CAs | PEM files, with `rediss://` |
//! | `declare` | `true` | `false`: groups are not created, they must be there |
//! | `from` | `start` | where a new group begins: `start`, with what the stream holds, or `now` |
//! | `claim_after` | `30s` | after so long without a sign of life a consumer's events go to another one |
//! | `hold_max` | `5m` | with order per key: how long a failing event may hold its key in the process |
//! | `ttl` | `7d` | how long an idempotency record is kept after its end |

use std::time::Duration;

use posthaste_core::{Error, Result};

use crate::broker::address::{Credentials, Dialect, YES_NO};
use crate::broker::cloudevents::Format;
use crate::tls::Files;
use crate::url::{bytes, duration};

/// Redis' URLs.
pub(super) const URL: Dialect = Dialect {
    broker: "Redis",
    schemes: &[("redis", false, 6379), ("rediss", true, 6379)],
    example: "redis://user:password@host:6379/0, with redis://:password@host where there is only a password",
    page: "docs/redis.md",
};

const WINDOW_MAX: u32 = 100_000;
const REPLICAS_MAX: u32 = 100;
/// Redis takes no larger string.
const MESSAGE_BYTES_MAX: u64 = 512 * 1024 * 1024;
const DAY: Duration = Duration::from_secs(86_400);
const TTL_MAX: Duration = Duration::from_secs(3_650 * 86_400);

/// Where a group begins that is new on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beginning {
    /// With everything that the stream holds: what was published before the group was there is not missed.
    #[default]
    Start,
    /// With what comes from now on.
    Now,
}

/// How to reach Redis and how to speak with it.
///
/// Made from a URL ([`parse`](str::parse)); what the URL does not say has its default and can be set by the builder. Its
/// `Debug` shows no credentials.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) link: LinkSettings,
    pub(super) publishing: Publishing,
    pub(super) consuming: Consuming,
    pub(super) ttl: Duration,
    /// Stands before every topic.
    pub(super) prefix: String,
    /// One stream for all topics.
    pub(super) stream: Option<String>,
}

/// How connections are made.
#[derive(Clone, Debug)]
pub(super) struct LinkSettings {
    pub(super) is_tls: bool,
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) credentials: Option<Credentials>,
    pub(super) database: i64,
    pub(super) files: Files,
    pub(super) connect_timeout: Duration,
    pub(super) answer_timeout: Duration,
}

/// How events are published.
#[derive(Clone, Debug)]
pub(super) struct Publishing {
    pub(super) format: Format,
    pub(super) maxlen: Option<u64>,
    pub(super) replicas: u32,
    pub(super) window: u32,
    pub(super) message_bytes_max: u64,
}

/// How events are consumed.
#[derive(Clone, Debug)]
pub(super) struct Consuming {
    pub(super) declare: bool,
    pub(super) from: Beginning,
    pub(super) claim_after: Duration,
    pub(super) hold_max: Duration,
}

impl Default for Publishing {
    fn default() -> Self {
        Self {
            format: Format::Binary,
            maxlen: None,
            replicas: 0,
            window: 1_000,
            message_bytes_max: 16 * 1024 * 1024,
        }
    }
}

impl Default for Consuming {
    fn default() -> Self {
        Self {
            declare: true,
            from: Beginning::Start,
            claim_after: Duration::from_secs(30),
            hold_max: Duration::from_secs(300),
        }
    }
}

impl Settings {
    /// Puts this before the topic in the name of every stream.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Puts all topics into one stream, which is called so after the prefix.
    #[must_use]
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.stream = Some(name.into());
        self
    }

    /// The stream of a topic.
    pub(super) fn stream_of(&self, topic: &str) -> String {
        [self.prefix.as_str(), self.stream.as_deref().unwrap_or(topic)].concat()
    }

    /// Says how CloudEvents attributes travel.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.publishing.format = format;
        self
    }

    /// Keeps about so many entries in a stream, read or not.
    #[must_use]
    pub fn maxlen(mut self, entries: u64) -> Self {
        self.publishing.maxlen = Some(entries);
        self
    }

    /// Counts an event as delivered when so many replicas have it too.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.publishing.replicas = replicas;
        self
    }

    /// Waits so long for an answer.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.link.answer_timeout = timeout;
        self
    }

    /// Begins a new group there.
    #[must_use]
    pub fn from(mut self, from: Beginning) -> Self {
        self.consuming.from = from;
        self
    }

    /// Gives a consumer's events to another one after so long without a sign of life.
    #[must_use]
    pub fn claim_after(mut self, silence: Duration) -> Self {
        self.consuming.claim_after = silence;
        self
    }

    /// Creates no group: they must be there.
    #[must_use]
    pub fn declare_nothing(mut self) -> Self {
        self.consuming.declare = false;
        self
    }

    /// Checks what a builder may have got wrong.
    pub(super) fn check(&self) -> Result<()> {
        let publishing = &self.publishing;
        let ranges = [
            ("window", u64::from(publishing.window), 1, u64::from(WINDOW_MAX)),
            ("replicas", u64::from(publishing.replicas), 0, u64::from(REPLICAS_MAX)),
            ("maxlen", publishing.maxlen.unwrap_or(1), 1, u64::MAX),
            ("message_bytes_max", publishing.message_bytes_max, 1, MESSAGE_BYTES_MAX),
        ];
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return Err(Error::config(format!("{name} must be {least} to {most}")));
            }
        }
        if self.stream.is_some() && publishing.format == Format::Raw {
            return Err(Error::config(
                "a raw entry does not say its topic, so with format=raw every topic needs a stream of its own; leave stream away",
            ));
        }
        if self.stream.as_deref() == Some("") {
            return Err(Error::config("stream must have a name"));
        }
        if !self.link.is_tls && self.link.files != Files::default() {
            return Err(Error::config(
                "certificates need a rediss:// URL; with redis:// nothing is encrypted",
            ));
        }
        Ok(())
    }

    /// Takes in one setting of the URL.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let (link, publishing, consuming) = (&mut self.link, &mut self.publishing, &mut self.consuming);
        let number = || URL.read(name, value, "a number", value.parse::<u64>().ok());
        let small = || URL.read(name, value, "a number", value.parse::<u32>().ok());
        match name {
            "prefix" => self.prefix = value.to_owned(),
            "stream" => self.stream = Some(value.to_owned()),
            "format" => publishing.format = URL.one_of(name, value, &Format::NAMES)?,
            "maxlen" => publishing.maxlen = Some(number()?),
            "replicas" => publishing.replicas = small()?,
            "window" => publishing.window = small()?,
            "answer_timeout" => link.answer_timeout = URL.span(name, value)?,
            "connect_timeout" => link.connect_timeout = URL.span(name, value)?,
            "message_bytes_max" => {
                publishing.message_bytes_max = URL.read(name, value, "a size such as 16MiB", bytes(value))?;
            }
            "sslrootcert" => link.files.ca = Some(value.into()),
            "sslcert" => link.files.certificate = Some(value.into()),
            "sslkey" => link.files.key = Some(value.into()),
            "declare" => consuming.declare = URL.one_of(name, value, &YES_NO)?,
            "from" => {
                consuming.from =
                    URL.one_of(name, value, &[("start", Beginning::Start), ("now", Beginning::Now)])?;
            }
            "claim_after" => consuming.claim_after = URL.span(name, value)?,
            "hold_max" => consuming.hold_max = URL.span(name, value)?,
            "ttl" => self.ttl = URL.read(name, value, "a duration such as 12h or 7d", days(value))?,
            _ => return Err(URL.unknown(name)),
        }
        Ok(())
    }
}

/// A duration, or so many days.
fn days(text: &str) -> Option<Duration> {
    let span = match text.strip_suffix('d') {
        Some(days) => DAY.checked_mul(days.parse().ok()?)?,
        None => duration(text)?,
    };
    (!span.is_zero() && span <= TTL_MAX).then_some(span)
}

impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = URL.split(text)?;
        let wrong = |_| URL.wrong("the database after the slash is no number");
        let database = if parts.path.is_empty() { 0 } else { parts.path.parse::<u32>().map_err(wrong)? };
        let mut settings = Self {
            link: LinkSettings {
                is_tls: parts.is_tls,
                hosts: parts.hosts,
                credentials: parts.credentials,
                database: i64::from(database),
                files: Files::default(),
                connect_timeout: Duration::from_secs(5),
                answer_timeout: Duration::from_secs(5),
            },
            publishing: Publishing::default(),
            consuming: Consuming::default(),
            ttl: 7 * DAY,
            prefix: String::new(),
            stream: None,
        };
        for (name, value) in parts.query {
            settings.set(&name, &value)?;
        }
        settings.check()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_stand_in_the_url() {
        let url = "rediss://u:p@a,b:1/3?prefix=shop:&format=raw&maxlen=1000&replicas=2&window=7&answer_timeout=250ms\
                   &connect_timeout=1s&message_bytes_max=1MiB&sslrootcert=/ca&sslcert=/c&sslkey=/k&declare=false&from=now\
                   &claim_after=10s&hold_max=1m&ttl=2d";
        let settings: Settings = url.parse().unwrap();
        let (link, publishing, consuming) = (&settings.link, &settings.publishing, &settings.consuming);
        assert_eq!((link.hosts.len(), link.database, settings.prefix.as_str()), (2, 3, "shop:"));
        assert_eq!(
            (publishing.format, publishing.maxlen, publishing.replicas),
            (Format::Raw, Some(1_000), 2)
        );
        assert_eq!((publishing.window, publishing.message_bytes_max), (7, 1 << 20));
        assert_eq!(
            (link.answer_timeout, link.connect_timeout),
            (Duration::from_millis(250), Duration::from_secs(1))
        );
        assert_eq!((consuming.declare, consuming.from), (false, Beginning::Now));
        assert_eq!((consuming.claim_after.as_secs(), consuming.hold_max.as_secs()), (10, 60));
        assert_eq!(settings.ttl, 2 * DAY);
        assert_eq!(settings.stream_of("t"), "shop:t");
        assert_eq!("redis://h?stream=all".parse::<Settings>().unwrap().stream_of("t"), "all");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name_and_without_secrets() {
        for (tail, says) in [
            ("?unknown=1", "unknown"),
            ("?window=many", "window"),
            ("?window=0", "window"),
            ("?answer_timeout=5", "500ms"),
            ("?format=xml", "binary, structured, raw"),
            ("?maxlen=0", "maxlen"),
            ("?ttl=0d", "ttl"),
            ("?ttl=99999999d", "ttl"),
            ("?sslrootcert=/ca", "rediss://"),
            ("?stream=s&format=raw", "stream of its own"),
            ("?stream=", "must have a name"),
            ("/zero", "no number"),
        ] {
            let error = format!("redis://u:hunter2@h{tail}").parse::<Settings>().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{tail}: {error}");
        }
        let shown = format!("{:?}", "redis://me:hunter2@h".parse::<Settings>().unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
