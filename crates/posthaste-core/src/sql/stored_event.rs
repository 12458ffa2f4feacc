//! A row of the table of events, between a driver and an envelope.

use crate::envelope::{Envelope, Headers};
use crate::time::{Moment, Timestamp};

/// An event as it stands in its row.
///
/// A store fills in the columns; [`into_envelope`](StoredEvent::into_envelope) makes the envelope that a target carries.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// Column `event_id`.
    pub id: String,
    /// Column `source`.
    pub source: String,
    /// Column `event_type`.
    pub event_type: String,
    /// Column `topic`; `None` is the type.
    pub topic: Option<String>,
    /// Column `key`.
    pub key: Option<String>,
    /// Column `subject`.
    pub subject: Option<String>,
    /// Column `schema_version`.
    pub version: u32,
    /// Column `content_type`.
    pub content_type: String,
    /// Column `headers`, read by [`StoredEvent::headers`].
    pub headers: Headers,
    /// Column `payload`; empty after an erasure.
    pub payload: Vec<u8>,
    /// Column `occurred_at`.
    pub occurred_at: Timestamp,
    /// Column `available_at`.
    pub available_at: Option<Timestamp>,
    /// Column `expires_at`.
    pub expires_at: Option<Timestamp>,
}

impl StoredEvent {
    /// Reads the column `headers`. A plain-SQL producer may have stored values that are no strings: these become their
    /// JSON text rather than a reason why the lane stands still.
    pub fn headers(text: &str) -> Headers {
        if text == "{}" {
            return Headers::new();
        }
        let Ok(serde_json::Value::Object(object)) = serde_json::from_str(text) else { return Headers::new() };
        let as_text = |value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        object.into_iter().map(|(name, value)| (name, as_text(value))).collect()
    }

    /// What the column `headers` holds for these.
    pub fn headers_column(headers: &Headers) -> String {
        if headers.is_empty() {
            return "{}".to_owned();
        }
        serde_json::to_string(headers).expect("a map of strings is always JSON")
    }

    /// The event as an envelope.
    pub fn into_envelope(self) -> Envelope {
        Envelope {
            id: self.id,
            source: self.source,
            topic: self.topic.unwrap_or_else(|| self.event_type.clone()),
            event_type: self.event_type,
            key: self.key,
            subject: self.subject,
            version: self.version,
            content_type: self.content_type,
            headers: self.headers,
            payload: self.payload,
            occurred_at: Some(self.occurred_at),
            available: self.available_at.map(Moment::At),
            expires: self.expires_at.map(Moment::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_their_column_and_odd_values_become_text() {
        let headers: Headers =
            [("a".to_owned(), "q\"\\é".to_owned()), ("b".to_owned(), String::new())].into();
        assert_eq!(StoredEvent::headers(&StoredEvent::headers_column(&headers)), headers);
        assert_eq!(StoredEvent::headers_column(&Headers::new()), "{}");
        assert_eq!(StoredEvent::headers(r#"{"n":1,"o":{"x":null}}"#)["o"], r#"{"x":null}"#);
        assert!(StoredEvent::headers("[1]").is_empty());
    }
}
