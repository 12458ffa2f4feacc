//! How to reach NATS and how to speak with it: from a URL, or by a builder.
//!
//! | in the URL | default | means |
//! |---|---|---|
//! | `prefix` | none | what the subjects of events begin with, before a dot; the rest is the topic |
//! | `stream` | the one that takes the subject | the stream that events must go to, and are consumed from |
//! | `create_stream` | `false` | `true`: the stream is created if it is missing |
//! | `subjects` | `<prefix>.>` | the subjects of a stream that is created |
//! | `replicas` | `1` | the replicas of streams that are created |
//! | `format` | `binary` | how CloudEvents attributes travel: `binary`, `structured`, `raw` |
//! | `window` | `1000` | unacknowledged events of a lane |
//! | `ack_timeout` | `5s` | how long the server may take to acknowledge an event, and to answer anything else |
//! | `message_bytes_max` | `1MiB` | the largest message, with its headers; the server's `max_payload` if that is smaller |
//! | `creds` | none | a credentials file (JWT and seed) |
//! | `connect_timeout` | `10s` | how long a connection may take to be made |
//! | `ping` | `10s` | how often an idle connection is tried; it is given up when two were not answered |
//! | `reconnect_max` | `30s` | the longest pause between two attempts to connect |
//! | `sslrootcert`, `sslcert`, `sslkey` | the system's CAs | PEM files, with `tls://` |
//! | `from` | `all` | where a new group begins: `all` that the stream still has, or only what is `new` |
//! | `declare` | `true` | `false`: no consumer and no stream of ours is created, everything must be there |
//! | `ack_wait` | `30s` | after so long without a sign of life from a consumer its events go to others |
//! | `max_ack_pending` | `10000` | unsettled events of a group, over all its members |
//! | `dead_stream`, `again_stream`, `notes_stream` | `posthaste-dead`, … | the streams for dead letters, for what is redriven, and for what is known of failing events |
//! | `hold_max` | `5m` | with order per key: how long a failing event may hold its key in the process |

use std::path::PathBuf;
use std::time::Duration;

use posthaste_core::{Error, Result};

use super::naming;
use crate::broker::address::{Credentials, Dialect, YES_NO};
use crate::broker::cloudevents::Format;
use crate::tls::Files;
use crate::url::bytes;

/// NATS' URLs; TLS is asked for by `tls://`, on the same port.
pub(super) const URL: Dialect = Dialect {
    broker: "NATS",
    schemes: &[("nats", false, 4222), ("tls", true, 4222)],
    example: "nats://user:password@host:4222, or nats://token@host",
    page: "docs/nats.md",
};
const WINDOW_MAX: u32 = 100_000;
const REPLICAS_MAX: usize = 5;

/// Where a group begins that the stream does not know yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begin {
    /// With everything that the stream still has.
    #[default]
    All,
    /// With what comes after.
    New,
}

/// How to reach NATS and how to speak with it.
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
    pub(super) credentials: Option<Credentials>,
    pub(super) creds: Option<PathBuf>,
    pub(super) files: Files,
    pub(super) ping: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) reconnect_max: Duration,
    /// How long the server may take to answer.
    pub(super) patience: Duration,
}

/// How events are published.
#[derive(Clone, Debug)]
pub(super) struct Publishing {
    pub(super) prefix: String,
    pub(super) stream: Option<String>,
    pub(super) create: bool,
    pub(super) subjects: Vec<String>,
    pub(super) replicas: usize,
    pub(super) format: Format,
    pub(super) window: u32,
    pub(super) ack_timeout: Duration,
    pub(super) message_bytes_max: u64,
}

/// How events are consumed.
#[derive(Clone, Debug)]
pub(super) struct Consuming {
    pub(super) from: Begin,
    pub(super) declare: bool,
    pub(super) ack_wait: Duration,
    pub(super) max_ack_pending: u32,
    pub(super) dead_stream: String,
    pub(super) again_stream: String,
    pub(super) notes_stream: String,
    pub(super) hold_max: Duration,
}

impl LinkSettings {
    /// How long it may take until a connection is there, or is said not to be had: there may be several servers.
    pub(super) fn dial_timeout(&self) -> Duration {
        self.connect_timeout * 2
    }
}

impl Default for Publishing {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            stream: None,
            create: false,
            subjects: Vec::new(),
            replicas: 1,
            format: Format::Binary,
            window: 1_000,
            ack_timeout: Duration::from_secs(5),
            message_bytes_max: 1024 * 1024,
        }
    }
}

impl Default for Consuming {
    fn default() -> Self {
        Self {
            from: Begin::All,
            declare: true,
            ack_wait: Duration::from_secs(30),
            max_ack_pending: 10_000,
            dead_stream: "posthaste-dead".to_owned(),
            again_stream: "posthaste-again".to_owned(),
            notes_stream: "posthaste-notes".to_owned(),
            hold_max: Duration::from_secs(300),
        }
    }
}

impl Settings {
    /// Begins subjects so, before a dot.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.publishing.prefix = prefix.into();
        self
    }

    /// Publishes to this stream and no other, and consumes from it.
    #[must_use]
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.publishing.stream = Some(name.into());
        self
    }

    /// Creates the stream with these subjects if it is missing.
    #[must_use]
    pub fn create_stream(mut self, subjects: impl Into<Vec<String>>) -> Self {
        self.publishing.create = true;
        self.publishing.subjects = subjects.into();
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

    /// Begins a new group here.
    #[must_use]
    pub fn begin(mut self, from: Begin) -> Self {
        self.consuming.from = from;
        self
    }

    /// Creates nothing for consumers: all of it must be there.
    #[must_use]
    pub fn declare_nothing(mut self) -> Self {
        self.consuming.declare = false;
        self
    }

    /// Checks what a builder may have got wrong.
    pub(super) fn check(&self) -> Result<()> {
        let (publishing, consuming) = (&self.publishing, &self.consuming);
        if !publishing.prefix.is_empty() {
            naming::check_subject(&publishing.prefix).map_err(|why| {
                Error::config(format!("the prefix {:?} cannot begin a subject: {why}", publishing.prefix))
            })?;
        }
        let streams = [&consuming.dead_stream, &consuming.again_stream, &consuming.notes_stream];
        for name in streams.into_iter().chain(&publishing.stream) {
            naming::check_stream(name)?;
        }
        if publishing.create && publishing.stream_subjects().is_empty() {
            return Err(Error::config(
                "create_stream needs subjects=SUBJECT,SUBJECT or a prefix: a stream of all subjects would take the server's own messages too",
            ));
        }
        if publishing.window == 0 || publishing.window > WINDOW_MAX {
            return Err(Error::config(format!("window must be 1 to {WINDOW_MAX}")));
        }
        if publishing.replicas == 0 || publishing.replicas > REPLICAS_MAX {
            return Err(Error::config(format!("replicas must be 1 to {REPLICAS_MAX}")));
        }
        if consuming.max_ack_pending < 2 {
            return Err(Error::config(
                "max_ack_pending must be at least 2; one at a time is what order per key does",
            ));
        }
        if consuming.ack_wait < Duration::from_secs(1) {
            return Err(Error::config(
                "ack_wait must be at least 1s: a consumer gives signs of life no more often",
            ));
        }
        if !self.link.is_tls && self.link.files != Files::default() {
            return Err(Error::config(
                "certificates need a tls:// URL; with nats:// nothing need be encrypted",
            ));
        }
        Ok(())
    }
}

impl Publishing {
    /// What a stream that we create is called.
    pub(super) fn stream_name(&self) -> &str {
        self.stream.as_deref().unwrap_or("posthaste")
    }

    /// What a stream that we create takes.
    pub(super) fn stream_subjects(&self) -> Vec<String> {
        if self.subjects.is_empty() && !self.prefix.is_empty() {
            return vec![format!("{}.>", self.prefix)];
        }
        self.subjects.clone()
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
                creds: None,
                files: Files::default(),
                ping: Duration::from_secs(10),
                connect_timeout: Duration::from_secs(10),
                reconnect_max: Duration::from_secs(30),
                patience: publishing.ack_timeout,
            },
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
        let (link, publishing, consuming) = (&mut self.link, &mut self.publishing, &mut self.consuming);
        match name {
            "prefix" => publishing.prefix = value.to_owned(),
            "stream" => publishing.stream = Some(value.to_owned()),
            "create_stream" => publishing.create = URL.one_of(name, value, &YES_NO)?,
            "subjects" => publishing.subjects = value.split(',').map(str::to_owned).collect(),
            "replicas" => publishing.replicas = URL.read(name, value, "a number", value.parse().ok())?,
            "format" => publishing.format = URL.one_of(name, value, &Format::NAMES)?,
            "window" => publishing.window = URL.read(name, value, "a number", value.parse().ok())?,
            "ack_timeout" => {
                publishing.ack_timeout = URL.span(name, value)?;
                link.patience = publishing.ack_timeout;
            }
            "message_bytes_max" => {
                publishing.message_bytes_max = URL.read(name, value, "a size such as 1MiB", bytes(value))?;
            }
            "creds" => link.creds = Some(value.into()),
            "ping" => link.ping = URL.span(name, value)?,
            "connect_timeout" => link.connect_timeout = URL.span(name, value)?,
            "reconnect_max" => link.reconnect_max = URL.span(name, value)?,
            "sslrootcert" => link.files.ca = Some(value.into()),
            "sslcert" => link.files.certificate = Some(value.into()),
            "sslkey" => link.files.key = Some(value.into()),
            "from" => {
                consuming.from = URL.one_of(name, value, &[("all", Begin::All), ("new", Begin::New)])?
            }
            "declare" => consuming.declare = URL.one_of(name, value, &YES_NO)?,
            "ack_wait" => consuming.ack_wait = URL.span(name, value)?,
            "max_ack_pending" => {
                consuming.max_ack_pending = URL.read(name, value, "a number", value.parse().ok())?;
            }
            "dead_stream" => consuming.dead_stream = value.to_owned(),
            "again_stream" => consuming.again_stream = value.to_owned(),
            "notes_stream" => consuming.notes_stream = value.to_owned(),
            "hold_max" => consuming.hold_max = URL.span(name, value)?,
            _ => return Err(URL.unknown(name)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_stand_in_the_url() {
        let url = "tls://u:p@a,b:1?prefix=shop&stream=S&create_stream=true&subjects=shop.>,x&replicas=3&format=raw\
                   &window=7&ack_timeout=250ms&message_bytes_max=64KiB&creds=/c&ping=3s&connect_timeout=4s&reconnect_max=6s\
                   &sslrootcert=/ca&sslcert=/c&sslkey=/k&from=new&declare=false&ack_wait=2s&max_ack_pending=9\
                   &dead_stream=D&again_stream=A&notes_stream=N&hold_max=1m";
        let settings: Settings = url.parse().unwrap();
        let (link, publishing, consuming) = (&settings.link, &settings.publishing, &settings.consuming);
        assert_eq!(link.hosts, [("a".to_owned(), 4222), ("b".to_owned(), 1)]);
        assert_eq!((publishing.stream_name(), publishing.window), ("S", 7));
        assert_eq!(publishing.stream_subjects(), ["shop.>", "x"]);
        assert_eq!((publishing.format, consuming.from), (Format::Raw, Begin::New));
        assert_eq!(
            (publishing.ack_timeout, link.patience),
            (Duration::from_millis(250), Duration::from_millis(250))
        );
        assert_eq!((consuming.max_ack_pending, consuming.dead_stream.as_str()), (9, "D"));
        assert!(!consuming.declare && publishing.create && link.is_tls);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name_and_without_secrets() {
        for (query, says) in [
            ("unknown=1", "unknown"),
            ("window=many", "window"),
            ("window=0", "window"),
            ("ack_timeout=5", "500ms"),
            ("format=xml", "binary, structured, raw"),
            ("create_stream=true", "subjects="),
            ("prefix=a..b", "prefix"),
            ("prefix=a.>", "prefix"),
            ("stream=a.b", "a.b"),
            ("ack_wait=10ms", "ack_wait"),
            ("replicas=9", "replicas"),
            ("sslrootcert=/ca", "tls://"),
        ] {
            let error = format!("nats://u:hunter2@h?{query}").parse::<Settings>().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{query}: {error}");
        }
        assert!("nats://h/path".parse::<Settings>().is_err());
        let shown = format!("{:?}", "nats://me:hunter2@h".parse::<Settings>().unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
