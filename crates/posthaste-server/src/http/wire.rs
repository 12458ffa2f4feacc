//! The JSON that goes over the wire, defined once: the server answers these shapes, and the command line reads them and
//! prints them with `--output json`.
//!
//! Times are RFC 3339 in UTC. Payloads keep their bytes: a JSON payload stands in `data` exactly as it was published,
//! anything else stands in `data_base64`.

mod health;
mod history;
mod lanes;
mod review;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste::admin::{Found, LaneView, Record};
use posthaste::time::{Moment, Timestamp};
use posthaste::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

pub use health::{CheckDocument, ProofDocument, ReadinessDocument, StatsDocument, VersionDocument};
pub use history::HistoryDocument;
pub use lanes::{AppliedDocument, JobDocument, JobPage, LaneDocument, LanePage};
pub use review::{AuditDocument, AuditPage, DeadCodeDocument, DeadCodePage};

/// What `POST /v1/events` takes as `application/json`; the names are those of CloudEvents. An array of them is a batch.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(default)]
pub struct NewEvent {
    /// What happened. The only member that must be there.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Names the event within its source; a fresh one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Where it goes; the type if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Events of one key are delivered in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The version of the payload's schema; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// How the payload is encoded; `application/json` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    /// Where the payload's schema is described; carried as the header `dataschema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataschema: Option<String>,
    /// For consumers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The payload: kept as it is written here. A string with a content type that is not JSON gives the string's bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The payload in base64; instead of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// Not to be delivered before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_at: Option<String>,
    /// Not worth delivering after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The answer to one published event.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PublishedEvent {
    /// Its id.
    pub id: String,
}

/// The answer to a published batch.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PublishedBatch {
    /// The ids, in the order of the batch.
    pub ids: Vec<String>,
}

/// A page of events, the newest first: `GET /v1/events`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventPage {
    /// The events, without their payloads.
    pub events: Vec<EventDocument>,
    /// What to hand in as `after` to read on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl EventPage {
    /// A page as it goes over the wire.
    pub fn of(found: &Found) -> Self {
        Self { events: found.records.iter().map(EventDocument::of).collect(), next: found.next.clone() }
    }
}

/// An event and what the lanes have done with it: `GET /v1/events/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventDocument {
    /// Its place in the log.
    pub seq: i64,
    /// Names it within its source.
    pub id: String,
    /// Where it comes from.
    pub source: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Where it goes.
    pub topic: String,
    /// Events of one key are delivered in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The version of the payload's schema.
    pub version: u32,
    /// How the payload is encoded.
    pub datacontenttype: String,
    /// For consumers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// When it was taken in.
    pub created_at: String,
    /// Not delivered before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<String>,
    /// Discarded after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How many bytes the payload has; absent after an erasure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// The payload, if it was asked for and is JSON.
    #[serde(default, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The payload in base64, if it was asked for and is anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// How the lanes that want it see it.
    pub lanes: Vec<LaneViewDocument>,
    /// What happened to it, the earliest first, where one event is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryDocument>,
}

impl EventDocument {
    /// A record as it goes over the wire, without its payload.
    pub fn of(record: &Record) -> Self {
        let envelope = &record.envelope;
        let moment = |moment: Option<Moment>| moment.map(|at| at.resolve(record.created_at).to_string());
        Self {
            seq: record.seq,
            id: envelope.id.clone(),
            source: envelope.source.clone(),
            event_type: envelope.event_type.clone(),
            topic: envelope.topic.clone(),
            key: envelope.key.clone(),
            subject: envelope.subject.clone(),
            version: envelope.version,
            datacontenttype: envelope.content_type.clone(),
            headers: envelope.headers.clone(),
            time: text(envelope.occurred_at),
            created_at: record.created_at.to_string(),
            available_at: moment(envelope.available),
            expires_at: moment(envelope.expires),
            payload_bytes: record.payload_bytes,
            data: None,
            data_base64: None,
            lanes: record.lanes.iter().map(LaneViewDocument::of).collect(),
            history: Vec::new(),
        }
    }

    /// A record as it goes over the wire, with its payload.
    pub fn with_payload(record: &Record) -> Self {
        let mut document = Self::of(record);
        if record.payload_bytes.is_none_or(|bytes| bytes == 0) {
            return document;
        }
        let payload = &record.envelope.payload;
        document.data = is_json(&record.envelope.content_type).then(|| exact_json(payload)).flatten();
        if document.data.is_none() {
            document.data_base64 = Some(BASE64.encode(payload));
        }
        document
    }

    /// The payload's bytes as they were published; `None` if the document has none.
    ///
    /// # Errors
    /// `Corrupt` when `data_base64` is not base64.
    pub fn payload(&self) -> Result<Option<Vec<u8>>> {
        match (&self.data, &self.data_base64) {
            (Some(json), _) => Ok(Some(json.get().as_bytes().to_vec())),
            (None, Some(text)) => BASE64
                .decode(text)
                .map(Some)
                .map_err(|error| Error::corrupt("data_base64 is not base64").because(error)),
            (None, None) => Ok((self.payload_bytes == Some(0)).then(Vec::new)),
        }
    }
}

/// An event as one lane sees it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LaneViewDocument {
    /// Which lane.
    pub lane: String,
    /// pending, retrying, scheduled, behind, delivering, delivered, dead or discarded.
    pub state: String,
    /// How often its delivery was tried and failed.
    pub attempts: u32,
    /// When it is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<String>,
    /// The fingerprint of its last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What its last failure said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it first failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed_at: Option<String>,
    /// When it became dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_at: Option<String>,
    /// When it was delivered, where that is kept: an outbox table may have a column for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<String>,
    /// Whether it was redriven or replayed.
    pub replay: bool,
}

impl LaneViewDocument {
    fn of(view: &LaneView) -> Self {
        Self {
            lane: view.lane.to_string(),
            state: view.state.name().to_owned(),
            attempts: view.attempts,
            available_at: text(view.available_at),
            code: view.code.clone(),
            last_error: view.last_error.clone(),
            first_failed_at: text(view.first_failed_at),
            dead_at: text(view.dead_at),
            delivered_at: text(view.delivered_at),
            replay: view.replay,
        }
    }
}

/// Every error, as `application/problem+json`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProblemDocument {
    /// Names the kind of problem for programs.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The kind of problem, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What to do about it.
    pub detail: String,
}

/// Whether a content type says that the payload is JSON: `application/json`, `text/json` or `…+json`.
pub fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let Some((_, subtype)) = media_type.split_once('/') else { return false };
    let subtype = subtype.to_ascii_lowercase();
    subtype == "json" || subtype.ends_with("+json")
}

/// The payload as a JSON value, if embedding it loses not a byte: white space around a value would be lost.
fn exact_json(payload: &[u8]) -> Option<Box<RawValue>> {
    let value: &RawValue = serde_json::from_slice(payload).ok()?;
    (value.get().len() == payload.len()).then(|| value.to_owned())
}

/// `null` is a payload like any other, and not the absence of one.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

fn text(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use posthaste::envelope::Envelope;

    use super::*;

    fn through_the_wire(content_type: &str, payload: &[u8]) -> EventDocument {
        let mut envelope = Envelope::new("x", payload);
        envelope.content_type = content_type.to_owned();
        let record = Record::new(1, envelope, Some(payload.len() as u64), Timestamp::from_micros(0));
        let json = serde_json::to_string(&EventDocument::with_payload(&record)).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_payload_keeps_every_byte_over_the_wire() {
        let cases: [(&str, &[u8], bool); 10] = [
            ("application/json", br#"{"a":"q\"q"}"#, true),
            ("application/json", b"{ \"a\" :\n 1.0e5,\"a\":2 }", true),
            ("application/json; charset=utf-8", b"null", true),
            ("application/vnd.order+json", b"\"\\u0041\"", true),
            ("application/json", b" {\"a\":1}\n", false),
            ("application/json", b"{not json", false),
            ("application/json", b"\xff\xfe", false),
            ("text/plain", b"{}", false),
            ("application/octet-stream", &[0, 255, 10, 13], false),
            ("application/json", b"", false),
        ];
        for (content_type, payload, readable) in cases {
            let document = through_the_wire(content_type, payload);
            assert_eq!(document.payload().unwrap().unwrap(), payload, "{content_type} {payload:?}");
            assert_eq!(document.data.is_some(), readable, "{content_type} {payload:?}");
        }
    }

    #[test]
    fn json_is_told_by_the_subtype() {
        for json in ["application/json", "text/JSON", "application/cloudevents+json; charset=UTF-8"] {
            assert!(is_json(json), "{json}");
        }
        for other in ["text/plain", "application/jsonl", "json", "", "application/json-seq"] {
            assert!(!is_json(other), "{other}");
        }
    }
}
