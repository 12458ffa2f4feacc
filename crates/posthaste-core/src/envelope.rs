//! An event as bytes, with its CloudEvents attributes.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::limits::{
    HEADERS_BYTES_MAX, HEADERS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, RESERVED_HEADER_PREFIXES,
};
use crate::time::{Moment, Timestamp};
use crate::{Error, Result};

/// Headers: an object of strings, in the order of their names.
pub type Headers = BTreeMap<String, String>;

/// An event as bytes with its attributes: what the log stores and a target carries.
///
/// # Guarantees
/// The payload's bytes are never changed on the way. Identity is [`source`](Envelope::source) and
/// [`id`](Envelope::id) together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// Names the event; unique within its source. UUIDv7 unless the producer chose another.
    pub id: String,
    /// Where it comes from: CloudEvents' `source`.
    pub source: String,
    /// What happened: CloudEvents' `type`.
    pub event_type: String,
    /// Where it goes; the type unless the producer chose another.
    pub topic: String,
    /// Routes, and orders: events of one key are delivered in order.
    pub key: Option<String>,
    /// What it is about: CloudEvents' `subject`.
    pub subject: Option<String>,
    /// The version of the payload's schema.
    pub version: u32,
    /// How the payload is encoded.
    pub content_type: String,
    /// For consumers: trace context, correlation, whatever the producer added.
    pub headers: Headers,
    /// The event itself, opaque.
    pub payload: Vec<u8>,
    /// When it happened. `None` before the store has stamped it: the time it was taken in.
    pub occurred_at: Option<Timestamp>,
    /// Not to be delivered before.
    pub available: Option<Moment>,
    /// Not worth delivering after; it is then discarded, with a record.
    pub expires: Option<Moment>,
}

impl Envelope {
    /// An event of this type with this payload and a fresh id; everything else at its default.
    pub fn new(event_type: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        let event_type = event_type.into();
        Self {
            id: fresh_id(),
            source: String::new(),
            topic: event_type.clone(),
            event_type,
            key: None,
            subject: None,
            version: 1,
            content_type: "application/json".to_owned(),
            headers: Headers::new(),
            payload: payload.into(),
            occurred_at: None,
            available: None,
            expires: None,
        }
    }

    /// How much memory and room in a window this event takes, roughly.
    pub fn weight(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.payload.len() + headers + self.id.len() + 256) as u64
    }

    /// Checks everything a producer may get wrong, against [`crate::limits`] and this payload limit.
    ///
    /// # Errors
    /// `TooLarge` when something is over its limit, `Rejected` for the rest; the message names the field and the limit.
    pub fn check(&self, payload_bytes_max: usize) -> Result<()> {
        check_name("id", &self.id, ID_BYTES_MAX)?;
        check_name("type", &self.event_type, NAME_BYTES_MAX)?;
        check_name("topic", &self.topic, NAME_BYTES_MAX)?;
        check_name("datacontenttype", &self.content_type, NAME_BYTES_MAX)?;
        check_text("source", &self.source, NAME_BYTES_MAX)?;
        check_text("key", self.key.as_deref().unwrap_or_default(), KEY_BYTES_MAX)?;
        check_text("subject", self.subject.as_deref().unwrap_or_default(), NAME_BYTES_MAX)?;
        check_headers(&self.headers)?;
        if self.version == 0 {
            return Err(Error::rejected("the schema version must be at least 1"));
        }
        if self.payload.len() > payload_bytes_max {
            return Err(Error::too_large(format!(
                "the payload has {} bytes, the limit is {payload_bytes_max}; publish a reference to large data instead",
                self.payload.len()
            )));
        }
        Ok(())
    }
}

/// An event's key, without copying it.
pub(crate) struct KeyOf(pub(crate) Arc<Envelope>);

impl KeyOf {
    fn text(&self) -> &str {
        self.0.key.as_deref().unwrap_or_default()
    }
}

impl Borrow<str> for KeyOf {
    fn borrow(&self) -> &str {
        self.text()
    }
}

impl Hash for KeyOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl PartialEq for KeyOf {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for KeyOf {}

/// A new event id: UUIDv7, so that ids that come one after another lie near each other in an index.
pub fn fresh_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn check_name(field: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::rejected(format!("the {field} is empty; every event needs one")));
    }
    check_text(field, text, bytes_max)
}

fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() > bytes_max {
        return Err(Error::too_large(format!(
            "the {field} has {} bytes, the limit is {bytes_max}",
            text.len()
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::rejected(format!("the {field} holds a control character")));
    }
    Ok(())
}

/// Checks headers that a producer handed in.
///
/// # Errors
/// `TooLarge` for too many of them or too many bytes; `Rejected` for a name that is empty, reserved or not a token.
pub fn check_headers(headers: &Headers) -> Result<()> {
    if headers.len() > HEADERS_MAX {
        return Err(Error::too_large(format!(
            "there are {} headers, the limit is {HEADERS_MAX}",
            headers.len()
        )));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(Error::too_large(format!(
            "the headers have {bytes} bytes, the limit is {HEADERS_BYTES_MAX}"
        )));
    }
    for (name, value) in headers {
        check_header(name, value)?;
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<()> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(Error::rejected(format!(
            "the header name {name:?} is not a name; use letters, digits, '-', '_' and '.'"
        )));
    }
    let lower = name.to_ascii_lowercase();
    if RESERVED_HEADER_PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
        return Err(Error::rejected(format!(
            "the header {name:?} begins with a reserved prefix (posthaste-, ce-)"
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(Error::rejected(format!("the header {name:?} holds a control character")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope::new("order.placed", "{}")
    }

    #[test]
    fn the_type_is_the_topic_unless_chosen() {
        assert_eq!(envelope().topic, "order.placed");
    }

    #[test]
    fn limits_hold_exactly_at_their_boundary() {
        let mut at = envelope();
        at.key = Some("k".repeat(KEY_BYTES_MAX));
        at.payload = vec![0; 10];
        assert!(at.check(10).is_ok());
        assert_eq!(at.check(9).unwrap_err().kind(), crate::ErrorKind::TooLarge);
        at.key = Some("k".repeat(KEY_BYTES_MAX + 1));
        assert!(at.check(10).unwrap_err().to_string().contains("key has 256 bytes, the limit is 255"));
    }

    #[test]
    fn empty_and_reserved_names_are_refused() {
        let mut bad = envelope();
        bad.event_type.clear();
        assert!(bad.check(10).unwrap_err().to_string().contains("the type is empty"));
        for name in ["ce-id", "Posthaste-Lane", "", "a b", "a\nb"] {
            let mut bad = envelope();
            bad.headers.insert(name.to_owned(), "x".to_owned());
            assert!(bad.check(10).is_err(), "{name:?}");
        }
    }

    #[test]
    fn sixty_four_headers_pass_and_sixty_five_do_not() {
        let mut many = envelope();
        many.headers = (0..HEADERS_MAX).map(|n| (format!("h{n}"), String::new())).collect();
        assert!(many.check(10).is_ok());
        many.headers.insert("one-more".to_owned(), String::new());
        assert_eq!(many.check(10).unwrap_err().kind(), crate::ErrorKind::TooLarge);
    }
}
