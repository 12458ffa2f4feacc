//! How a row of a foreign table becomes an event, or why it cannot.

use std::cmp::Ordering;
use std::sync::Arc;

use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::store::Parcel;
use posthaste_core::table::REPLAYED;
use posthaste_core::time::Timestamp;

/// A row as it was read; nothing about it is known to be right.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct RawRow {
    pub(in crate::store) id: String,
    pub(in crate::store) event_type: Option<String>,
    pub(in crate::store) topic: Option<String>,
    pub(in crate::store) key: Option<String>,
    pub(in crate::store) headers: Option<String>,
    pub(in crate::store) payload: Option<Vec<u8>>,
    pub(in crate::store) attempts: i64,
    pub(in crate::store) created_at: Timestamp,
    pub(in crate::store) available_at: Option<Timestamp>,
    pub(in crate::store) source: Option<String>,
    pub(in crate::store) subject: Option<String>,
    pub(in crate::store) content_type: Option<String>,
    pub(in crate::store) version: Option<i64>,
    pub(in crate::store) occurred_at: Option<Timestamp>,
    pub(in crate::store) sequence: Option<i64>,
    pub(in crate::store) trace_id: Option<String>,
    pub(in crate::store) correlation_id: Option<String>,
    pub(in crate::store) last_error: Option<String>,
    /// Why it cannot be an event, where that was seen by reading it.
    pub(in crate::store) wrong: Option<String>,
}

impl RawRow {
    /// Where it stands among the rows of a claim.
    pub(in crate::store) fn place(&self) -> (Option<Timestamp>, Timestamp, Option<i64>) {
        (self.available_at, self.created_at, self.sequence)
    }

    /// Where it stands among the rows of its key.
    pub(in crate::store) fn place_in_key(&self) -> (Timestamp, Option<i64>) {
        (self.created_at, self.sequence)
    }

    /// How it stands to another row of the same moment: numbers as the database orders them, 9 before 10.
    pub(in crate::store) fn by_id(&self, other: &Self, are_numbers: bool) -> Ordering {
        let number = |row: &Self| are_numbers.then(|| row.id.parse::<i128>().ok()).flatten();
        number(self).cmp(&number(other)).then_with(|| self.id.cmp(&other.id))
    }

    /// The event with its attempt; otherwise why it cannot be one, with a code in front.
    pub(in crate::store) fn parcel(mut self) -> Result<Parcel, String> {
        let attempt = u32::try_from(self.attempts.max(0)).unwrap_or(u32::MAX - 1) + 1;
        let stored_at = self.created_at;
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let is_replay = self.last_error.as_deref() == Some(REPLAYED);
        // Rows that come again are claimed in the order of their key as all others, and must not pass each other after that.
        Ok(Parcel::new(Arc::new(self.envelope()?), attempt, is_replay, stored_at).in_order())
    }

    /// The event as far as there is one, for operators.
    pub(in crate::store) fn envelope_or_empty(mut self) -> Envelope {
        let event_type = self.event_type.get_or_insert_default();
        if event_type.is_empty() {
            event_type.push('?');
        }
        self.payload.get_or_insert_default();
        let mut without_headers = self.clone();
        without_headers.headers = None;
        self.envelope().or_else(|_| without_headers.envelope()).unwrap_or_else(|_| Envelope::new("?", ""))
    }

    pub(in crate::store) fn envelope(self) -> Result<Envelope, String> {
        let event_type = self.event_type.filter(|text| !text.is_empty());
        let event_type = event_type.ok_or("INVALID_TYPE: the row has no type")?;
        let payload = self.payload.ok_or("INVALID_PAYLOAD: the payload is NULL")?;
        let mut envelope = Envelope::new(event_type, payload);
        envelope.headers = headers(self.headers.as_deref())?;
        for (name, value) in [("trace_id", self.trace_id), ("correlation_id", self.correlation_id)] {
            if let Some(value) = value.filter(|text| !text.is_empty()) {
                envelope.headers.entry(name.to_owned()).or_insert(value);
            }
        }
        envelope.id = self.id;
        if let Some(topic) = self.topic.filter(|text| !text.is_empty()) {
            envelope.topic = topic;
        }
        envelope.key = self.key.filter(|text| !text.is_empty());
        envelope.source = self.source.unwrap_or_default();
        envelope.subject = self.subject;
        if let Some(content_type) = self.content_type.filter(|text| !text.is_empty()) {
            envelope.content_type = content_type;
        }
        envelope.version = self.version.and_then(|version| u32::try_from(version).ok()).unwrap_or(1).max(1);
        envelope.occurred_at = Some(self.occurred_at.unwrap_or(self.created_at));
        Ok(envelope)
    }
}

/// Headers are an object; what is no string in it becomes its JSON text.
fn headers(text: Option<&str>) -> Result<Headers, String> {
    let Some(text) = text.filter(|text| !text.is_empty() && *text != "{}") else { return Ok(Headers::new()) };
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(object)) => {
            let as_text = |value| match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            Ok(object.into_iter().map(|(name, value)| (name, as_text(value))).collect())
        }
        Ok(serde_json::Value::Null) => Ok(Headers::new()),
        Ok(_) => Err("INVALID_HEADERS: the headers are no JSON object".to_owned()),
        Err(error) => Err(format!("INVALID_HEADERS: the headers are no JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RawRow {
        RawRow {
            id: "1".to_owned(),
            event_type: Some("order.placed".to_owned()),
            payload: Some(vec![0xff, 0]),
            ..RawRow::default()
        }
    }

    #[test]
    fn three_columns_are_an_event() {
        let parcel = row().parcel().unwrap();
        assert_eq!((parcel.attempt, parcel.envelope.topic.as_str()), (1, "order.placed"));
        assert_eq!(parcel.envelope.payload, [0xff, 0], "bytes that are no text stay as they are");
    }

    #[test]
    fn a_row_that_is_no_event_says_why() {
        let bad = |change: fn(&mut RawRow)| {
            let mut row = row();
            change(&mut row);
            row.parcel().unwrap_err()
        };
        assert!(bad(|row| row.payload = None).starts_with("INVALID_PAYLOAD"));
        assert!(bad(|row| row.event_type = Some(String::new())).starts_with("INVALID_TYPE"));
        assert!(bad(|row| row.headers = Some("[1]".to_owned())).starts_with("INVALID_HEADERS"));
        assert!(bad(|row| row.headers = Some("{".to_owned())).starts_with("INVALID_HEADERS"));
    }

    #[test]
    fn columns_that_are_headers_elsewhere_become_headers() {
        let mut traced = row();
        traced.headers = Some(r#"{"trace_id":"its own"}"#.to_owned());
        traced.trace_id = Some("t".to_owned());
        traced.correlation_id = Some("c".to_owned());
        let headers = traced.envelope().unwrap().headers;
        assert_eq!((headers["trace_id"].as_str(), headers["correlation_id"].as_str()), ("its own", "c"));
    }

    #[test]
    fn what_an_operator_wants_again_is_a_replay_until_it_failed() {
        let replay = |error: Option<&str>| {
            let mut again = row();
            again.last_error = error.map(str::to_owned);
            let parcel = again.parcel().unwrap();
            assert!(!parcel.outside_order, "its key's rows still go one after another");
            parcel.replay
        };
        assert!(replay(Some(REPLAYED)));
        assert!(!replay(None) && !replay(Some("timeout: no answer")));
    }

    #[test]
    fn ids_that_are_numbers_are_ordered_as_such() {
        let ids = |is_number: bool| {
            let mut rows = ["10", "9", "-1"].map(|id| RawRow { id: id.to_owned(), ..row() });
            rows.sort_by(|a, b| a.by_id(b, is_number));
            rows.map(|row| row.id)
        };
        assert_eq!(ids(true), ["-1", "9", "10"]);
        assert_eq!(ids(false), ["-1", "10", "9"]);
    }

    #[test]
    fn odd_header_values_become_text() {
        let mut odd = row();
        odd.headers = Some(r#"{"a":"x","n":1,"o":{"x":null}}"#.to_owned());
        let parcel = odd.parcel().unwrap();
        assert_eq!(
            (parcel.envelope.headers["n"].as_str(), parcel.envelope.headers["o"].as_str()),
            ("1", "{\"x\":null}")
        );
    }
}
