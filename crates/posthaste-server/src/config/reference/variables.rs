//! Every variable of the reference relay, and what it is here.

use std::net::SocketAddr;
use std::time::Duration;

use super::super::unit;

/// A value in our words, or what is wrong with it.
type Change = fn(&str) -> Result<String, String>;

/// What becomes of a variable.
pub(super) enum Meaning {
    /// It is this setting, as it is.
    Is(&'static str),
    /// It is this setting, after a change.
    Becomes(&'static str, Change),
    /// If events go to this kind of broker, it is this setting in the URL of the target, after a change.
    InUrl(&'static str, &'static str, Change),
    /// It is part of what another one says.
    Part,
    /// It has no effect here, and why.
    Nothing(&'static str),
}

use Meaning::{Becomes, InUrl, Is, Nothing, Part};

const BY_ITSELF: &str = "a target that is away is asked again by itself";

/// Every variable of the reference but those that say where traces and metrics go.
pub(super) const VARIABLES: [(&str, Meaning); 33] = [
    ("STORAGE_URL", Is("store.url")),
    ("STORAGE_TYPE", Part),
    ("STORAGE_TABLE_NAME", Is("store.table")),
    ("PUBLISHER_TYPE", Part),
    ("PUBLISHER_URL", Part),
    ("POLL_INTERVAL", Becomes("relay.poll_max", span)),
    ("BATCH_SIZE", Is("lanes.main.window")),
    ("LEASE_TIMEOUT", Becomes("relay.lease", span)),
    ("REAP_BATCH_SIZE", Is("store.sweep_rows")),
    ("RELAY_ID", Is("relay.id")),
    ("RETRY_MAX_ATTEMPTS", Is("lanes.main.retry.attempts")),
    ("RETRY_BASE_DELAY", Becomes("lanes.main.retry.first", span)),
    ("RETRY_MAX_DELAY", Becomes("lanes.main.retry.cap", span)),
    ("RETRY_JITTER", Becomes("lanes.main.retry.jitter", jitter)),
    ("ENVIRONMENT", Becomes("log.format", format)),
    ("SERVER_PORT", Becomes("server.admin_listen", address)),
    ("PUBLISHER_CONNECT_RETRY_INTERVAL", Nothing(BY_ITSELF)),
    ("HEALTH_CHECK_INTERVAL", Nothing(BY_ITSELF)),
    ("ENABLE_STATS", Nothing("totals are counted when somebody asks")),
    ("NATS_PUBLISH_TIMEOUT", InUrl("nats", "ack_timeout", span)),
    ("NATS_CONNECTION_TIMEOUT", InUrl("nats", "connect_timeout", span)),
    ("REDIS_CONNECTION_TIMEOUT", InUrl("redis", "connect_timeout", span)),
    ("REDIS_WRITE_TIMEOUT", InUrl("redis", "answer_timeout", span)),
    ("KAFKA_BATCH_SIZE", Nothing("as many events share a batch as are there")),
    ("KAFKA_BATCH_BYTES", InUrl("kafka", "batch_bytes", bytes)),
    ("KAFKA_BATCH_TIMEOUT", InUrl("kafka", "linger", span)),
    ("KAFKA_MAX_ATTEMPTS", Nothing("one attempt is one attempt")),
    ("KAFKA_WRITE_TIMEOUT", InUrl("kafka", "ack_timeout", span)),
    ("KAFKA_READ_TIMEOUT", Nothing("KAFKA_WRITE_TIMEOUT is for every answer")),
    ("KAFKA_CONNECTION_TIMEOUT", InUrl("kafka", "connect_timeout", second_or_more)),
    ("KAFKA_COMPRESSION", InUrl("kafka", "compression", lower)),
    ("KAFKA_REQUIRED_ACKS", InUrl("kafka", "acks", acks)),
    ("KAFKA_ASYNC", Nothing("an event is delivered when the broker says so")),
];

/// Where traces and metrics go, with `OTEL_` in front or without.
const EXPORTING: [&str; 7] = [
    "TRACES_EXPORTER",
    "METRICS_EXPORTER",
    "EXPORTER_OTLP_ENDPOINT",
    "EXPORTER_OTLP_PROTOCOL",
    "BSP_EXPORT_TIMEOUT",
    "BSP_SCHEDULE_DELAY",
    "METRIC_EXPORT_INTERVAL",
];

/// What begins so is meant for the reference, or misspelt.
const PREFIXES: [&str; 14] = [
    "STORAGE_",
    "PUBLISHER_",
    "RETRY_",
    "REAP_",
    "KAFKA_",
    "NATS_",
    "REDIS_",
    "LEASE_",
    "POLL_",
    "BATCH_",
    "RELAY_",
    "SERVER_",
    "HEALTH_",
    "ENABLE_",
];

/// Whether the environment is asked for this variable at all.
pub(crate) fn is_one(name: &str) -> bool {
    is_known(name) || is_exporting(name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the reference knows it.
pub(super) fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|(known, _)| *known == name)
}

/// Whether it says where traces and metrics go.
pub(super) fn is_exporting(name: &str) -> bool {
    EXPORTING.contains(&name.strip_prefix("OTEL_").unwrap_or(name))
}

/// A duration as Go writes it, with fractions and units from `ns` to `h`, or as we do; answers milliseconds.
pub(super) fn span(text: &str) -> Result<String, String> {
    let wrong = || "is not a duration; write a number with a unit, like 500ms, 1.5s or 1m30s".to_owned();
    if let Ok(span) = unit::duration(text) {
        return Ok(format!("{}ms", span.as_millis()));
    }
    let (mut rest, mut millis) = (text.trim(), 0.0);
    if rest == "0" {
        return Ok("0ms".to_owned());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let factor = match unit {
            "ns" => 1e-6,
            "us" | "µs" | "μs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3_600e3,
            _ => return Err(wrong()),
        };
        millis += number.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = next;
    }
    // A part of a millisecond is a millisecond: nothing becomes no time at all. Parts of parts are what adding up leaves.
    let whole = (millis - 1e-9).ceil();
    if text.trim().is_empty() || whole >= 1e15 {
        return Err(wrong());
    }
    Ok(format!("{}ms", whole.max(0.0)))
}

/// The client makes no connection faster; the reference's own default of 10 ms is one of its mistakes.
fn second_or_more(text: &str) -> Result<String, String> {
    let text = span(text)?;
    let is_short = unit::duration(&text).is_ok_and(|span| span < Duration::from_secs(1));
    Ok(if is_short { "1000ms".to_owned() } else { text })
}

fn jitter(text: &str) -> Result<String, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(format!("additive:{share}")),
        _ => Err("is not a share; write a number from 0 to 1, like 0.15".to_owned()),
    }
}

fn format(text: &str) -> Result<String, String> {
    match text {
        "development" => Ok("text".to_owned()),
        _ => Ok("json".to_owned()),
    }
}

/// A port is open to everybody, as it is in the reference.
fn address(text: &str) -> Result<String, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    match (port.parse::<u16>(), text.parse::<SocketAddr>()) {
        (Ok(port), _) => Ok(format!("0.0.0.0:{port}")),
        (_, Ok(address)) => Ok(address.to_string()),
        _ => Err("is not a port; write :8080, 8080 or 127.0.0.1:8080".to_owned()),
    }
}

fn bytes(text: &str) -> Result<String, String> {
    match text.parse::<u64>() {
        Ok(bytes) => Ok(bytes.to_string()),
        Err(_) => Err("is not a number of bytes, like 1048576".to_owned()),
    }
}

fn lower(text: &str) -> Result<String, String> {
    Ok(text.to_ascii_lowercase())
}

fn acks(text: &str) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        "all" | "-1" => Ok("all".to_owned()),
        "one" | "1" => Ok("1".to_owned()),
        "none" | "0" => Ok("0".to_owned()),
        _ => Err("is not one of all, one, none, -1, 1, 0".to_owned()),
    }
}
