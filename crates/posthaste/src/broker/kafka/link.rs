//! What every client of the cluster has in common: its configuration, what it says of itself, and what errors mean.

mod error;

use std::sync::{Mutex, PoisonError};

use posthaste_core::redact;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use secrecy::ExposeSecret as _;
use tracing::{debug, warn};

pub(super) use self::error::{Fault, fault, words};
use super::settings::LinkSettings;

/// What Kafka puts around a message and a request that carries it.
const REQUEST_BYTES: u64 = 64 * 1024;

/// The configuration of a client for this half of the work: where the brokers are, and how to speak with them.
pub(super) fn client_config(link: &LinkSettings, role: &str) -> ClientConfig {
    let hosts = link.hosts.iter().map(|(host, port)| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    });
    let millis = |span: std::time::Duration| span.as_millis().to_string();
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", hosts.collect::<Vec<_>>().join(","))
        .set("client.id", format!("posthaste-{role}"))
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        .set("socket.connection.setup.timeout.ms", millis(link.connect_timeout))
        .set(
            "reconnect.backoff.max.ms",
            millis(link.reconnect_max.max(std::time::Duration::from_millis(100))),
        )
        .set("message.max.bytes", (link.message_bytes_max + REQUEST_BYTES).to_string())
        // A topic comes into being because somebody asked for it, not by a misspelt name.
        .set("allow.auto.create.topics", "false")
        // What goes on is told by this program, once; the client's own words are there when somebody looks for them.
        .set_log_level(RDKafkaLogLevel::Info);
    let protocol = match (link.is_tls, link.credentials.is_some()) {
        (false, false) => "plaintext",
        (false, true) => "sasl_plaintext",
        (true, false) => "ssl",
        (true, true) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(credentials) = &link.credentials {
        config
            .set("sasl.mechanism", link.sasl.name())
            .set("sasl.username", credentials.user.expose_secret())
            .set("sasl.password", credentials.password.expose_secret());
    }
    for (name, file) in [
        ("ssl.ca.location", &link.root_cert),
        ("ssl.certificate.location", &link.cert),
        ("ssl.key.location", &link.key),
    ] {
        if let Some(file) = file {
            config.set(name, file.display().to_string());
        }
    }
    config
}

/// What a client says of itself: remembered, so that whoever waits in vain can be told why.
#[derive(Debug, Default)]
pub(super) struct Saying {
    state: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    /// What was wrong last.
    words: Option<String>,
    /// The client can go on no longer: why.
    fatal: Option<String>,
}

impl Saying {
    /// What was wrong last, if anything was.
    pub(super) fn last_words(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).words.clone()
    }

    /// Why the client can go on no longer, if that is so.
    pub(super) fn fatal(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fatal.clone()
    }

    /// Something went well: what was wrong before is over.
    pub(super) fn is_well(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).words = None;
    }

    /// Takes in an error that is about no message of its own.
    pub(super) fn hear(&self, error: &KafkaError, reason: &str) {
        let reason = redact::clean(reason);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Fatal) => state.fatal = Some(reason),
            // "2/2 brokers are down" says less than why each of them is.
            Some(RDKafkaErrorCode::AllBrokersDown) if state.words.is_some() => {}
            _ => state.words = Some(reason),
        }
    }
}

impl ClientContext for Saying {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.hear(&error, reason);
    }
}

/// Passes on what the client logs: what it warns of comes back as an error of something, so it is no news.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    let message = redact::clean(message);
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            warn!(facility, "Kafka's client: {message}");
        }
        _ => debug!(facility, "Kafka's client: {message}"),
    }
}
