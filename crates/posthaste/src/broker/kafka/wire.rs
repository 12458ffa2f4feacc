//! An event as a message, and a message as an event.
//!
//! Whatever the format, a message has the event's key as its key, the header `X-Event-ID`, and the event's own headers as they
//! are; in the raw form also those that look like attributes of a CloudEvent. The binary form adds the attributes as `ce_…` and the
//! header `content-type`, as the CloudEvents binding for Kafka says; in the structured form the value is the JSON object and
//! `content-type` says so.

use std::borrow::Cow;

use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, Result};
use rdkafka::message::{Header, Headers as MessageHeaders, OwnedHeaders};

use super::naming;
use super::settings::Settings;
use crate::broker::cloudevents::{
    DATASCHEMA, Format, STRUCTURED, UNKNOWN_CONTENT, attributes, is_event, of_attributes, of_structured,
    structured,
};
use crate::broker::story::OURS;

/// The event's id, where relays of the open-outbox specification write it.
pub(super) const ID: &str = "X-Event-ID";
const CONTENT_TYPE: &str = "content-type";
/// What the headers of CloudEvents attributes begin with.
const ATTRIBUTE: &str = "ce_";
/// What a record needs beside its key, value and headers, at most: lengths, offset, time, and the batch around it.
const FRAME_BYTES: u64 = 120;
/// What a header needs beside its name and value, at most.
const HEADER_FRAME_BYTES: u64 = 10;

/// A message that a topic can take.
pub(super) struct Message<'a> {
    pub(super) topic: String,
    pub(super) key: Option<&'a str>,
    pub(super) headers: OwnedHeaders,
    pub(super) payload: Cow<'a, [u8]>,
}

/// Headers as they are put together, and how large they are.
pub(super) struct Heading {
    headers: OwnedHeaders,
    bytes: u64,
}

impl Heading {
    pub(super) fn new() -> Self {
        Self { headers: OwnedHeaders::new_with_capacity(16), bytes: 0 }
    }

    /// Adds a header.
    pub(super) fn put(&mut self, name: &str, value: &[u8]) {
        self.bytes += (name.len() + value.len()) as u64 + HEADER_FRAME_BYTES;
        let header = Header { key: name, value: Some(value) };
        self.headers =
            std::mem::replace(&mut self.headers, OwnedHeaders::new_with_capacity(0)).insert(header);
    }

    /// The headers of a message.
    pub(super) fn finish(self) -> OwnedHeaders {
        self.headers
    }
}

/// Makes a message of an event.
///
/// # Errors
/// `Rejected` when its topic cannot be one of Kafka's or a header would be mistaken for something else, `TooLarge` when the
/// message is over the limit: faults of this event alone.
pub(super) fn encode<'a>(parcel: &'a Parcel, settings: &Settings) -> Result<Message<'a>, DeliverError> {
    let (envelope, format) = (&parcel.envelope, settings.publishing.format);
    let topic = settings.topics.name_of(&envelope.topic);
    naming::check(&topic).map_err(|why| {
        rejected("topic", format!("the topic {:?} cannot be one of Kafka's: {why}", envelope.topic))
    })?;
    let mut heading = Heading::new();
    heading.put(ID, envelope.id.as_bytes());
    if format == Format::Binary {
        let mut name = String::with_capacity(24);
        attributes(parcel, |attribute, value| {
            name.clear();
            name.push_str(ATTRIBUTE);
            name.push_str(attribute);
            heading.put(&name, value.as_bytes());
        });
    }
    let mut content_type =
        Some(if format == Format::Structured { STRUCTURED } else { &envelope.content_type });
    for (name, value) in &envelope.headers {
        check_header(name, format)?;
        let is_content_type = name.eq_ignore_ascii_case(CONTENT_TYPE);
        let is_ours = match format {
            // Who wrote the event has written all of its headers; only the id is ours.
            Format::Raw => name.eq_ignore_ascii_case(ID),
            Format::Binary | Format::Structured => name == DATASCHEMA || is_content_type,
        };
        if !is_ours {
            heading.put(name, value.as_bytes());
            content_type = content_type.filter(|_| !is_content_type);
        }
    }
    if let Some(content_type) = content_type {
        heading.put(CONTENT_TYPE, content_type.as_bytes());
    }
    let payload = match format {
        Format::Structured => Cow::Owned(structured(parcel)),
        Format::Binary | Format::Raw => Cow::Borrowed(envelope.payload.as_slice()),
    };
    let key = envelope.key.as_deref();
    let bytes = (payload.len() + key.map_or(0, str::len)) as u64 + heading.bytes + FRAME_BYTES;
    let limit = settings.link.message_bytes_max;
    if bytes > limit {
        return Err(too_large(format!(
            "the message has {bytes} bytes with its key and headers, the limit is {limit} (message_bytes_max)"
        )));
    }
    Ok(Message { topic, key, headers: heading.finish(), payload })
}

fn check_header(name: &str, format: Format) -> Result<(), DeliverError> {
    let lower = name.to_ascii_lowercase();
    let is_of_event = lower.starts_with(ATTRIBUTE) || name.eq_ignore_ascii_case(ID);
    if lower.starts_with(OURS) || (is_of_event && format != Format::Raw) {
        let what =
            format!("the header {name:?} would be mistaken for a part of the CloudEvent, or for the id");
        return Err(rejected("header", what));
    }
    if name.contains('\0') {
        return Err(rejected(
            "header",
            format!("the header {name:?} has a name that Kafka's client cannot carry"),
        ));
    }
    Ok(())
}

/// Makes an event of a message on this topic: the event's, without the prefix.
///
/// # Errors
/// `Rejected` with what is wrong with it: such a message is no event, and will never be.
pub(super) fn decode<H: MessageHeaders>(
    topic: &str,
    key: Option<&[u8]>,
    headers: Option<&H>,
    payload: &[u8],
) -> Result<Envelope> {
    let (mut attributes, mut others, mut as_written) = (Headers::new(), Headers::new(), Headers::new());
    let (mut id, mut content_type) = (None, None);
    for header in headers.iter().flat_map(|headers| headers.iter()) {
        let value = String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned();
        let lower = header.key.to_ascii_lowercase();
        match lower.strip_prefix(ATTRIBUTE) {
            Some(attribute) => {
                attributes.insert(attribute.to_owned(), value.clone());
                as_written.insert(header.key.to_owned(), value);
            }
            None if lower == CONTENT_TYPE => content_type = Some(value),
            None if header.key.eq_ignore_ascii_case(ID) => id = Some(value),
            None if lower.starts_with(OURS) => {}
            None => drop(others.insert(header.key.to_owned(), value)),
        }
    }
    let is_structured = content_type.as_deref().is_some_and(|kind| kind.starts_with(STRUCTURED));
    let mut envelope = if is_structured {
        of_structured(payload)?
    } else {
        let mut envelope = if is_event(&attributes) {
            let mut envelope = of_attributes(&mut attributes)?;
            envelope.headers = attributes;
            envelope
        } else {
            let mut envelope = raw(topic, id)?;
            envelope.headers = as_written;
            envelope
        };
        envelope.content_type = content_type.unwrap_or_else(|| UNKNOWN_CONTENT.to_owned());
        envelope.payload = payload.to_vec();
        envelope
    };
    if envelope.key.is_none() {
        envelope.key = key.map(text_of_key);
    }
    envelope.headers.extend(others);
    Ok(envelope)
}

/// A message that is no CloudEvent: its topic is its type.
fn raw(topic: &str, id: Option<String>) -> Result<Envelope> {
    let id = id.filter(|id| !id.is_empty()).ok_or_else(|| {
        Error::rejected(
            "it has no X-Event-ID, so nobody could tell whether it was handled; let its producer set one",
        )
    })?;
    let mut envelope = Envelope::new(topic, Vec::new());
    envelope.id = id;
    Ok(envelope)
}

/// Others may have keys that are no text; two different ones stay different.
fn text_of_key(key: &[u8]) -> String {
    let hex = || key.iter().fold("0x".to_owned(), |hex, byte| hex + &format!("{byte:02x}"));
    std::str::from_utf8(key).map_or_else(|_| hex(), str::to_owned)
}

/// A header of a message as text, whatever the case of its name.
pub(super) fn text<H: MessageHeaders>(headers: &H, name: &str) -> Option<String> {
    let found = headers.iter().find(|header| header.key.eq_ignore_ascii_case(name));
    found.and_then(|header| header.value).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn rejected(what: &str, message: String) -> DeliverError {
    DeliverError::new(DeliverKind::Rejected, format!("kafka {what}"), message)
}

pub(super) fn too_large(message: String) -> DeliverError {
    DeliverError::new(DeliverKind::TooLarge, "too large", message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_core::time::Timestamp;

    use super::*;

    fn event() -> Envelope {
        let mut event = Envelope::new("order.placed", (0..=255).collect::<Vec<u8>>());
        event.id = "id-ünï-🦀".to_owned();
        event.source = "/shop".to_owned();
        event.topic = "orders".to_owned();
        event.key = Some("key-日本".to_owned());
        event.subject = Some("subject 🦀 100%".to_owned());
        event.version = 7;
        event.content_type = "application/x-law".to_owned();
        event.headers.insert("Mixed-Case".to_owned(), "värde, with \"quotes\"".to_owned());
        event.headers.insert("dataschema".to_owned(), "urn:x".to_owned());
        event.occurred_at = Some(Timestamp::from_micros(1_767_225_600_250_000));
        event
    }

    fn parcel(event: Envelope) -> Parcel {
        Parcel::new(Arc::new(event), 1, false, Timestamp::default())
    }

    fn settings(tail: &str) -> Settings {
        format!("kafka://h?{tail}").parse().unwrap()
    }

    fn round_trip(event: &Envelope, format: &str) -> Envelope {
        let parcel = parcel(event.clone());
        let message = encode(&parcel, &settings(&format!("prefix=shop.&format={format}"))).unwrap();
        assert_eq!(message.topic, format!("shop.{}", event.topic));
        decode(&event.topic, message.key.map(str::as_bytes), Some(&message.headers), &message.payload)
            .unwrap()
    }

    #[test]
    fn what_was_encoded_is_decoded_unchanged() {
        for format in ["binary", "structured"] {
            assert_eq!(round_trip(&event(), format), event(), "{format}");
            let mut plain = event();
            (plain.source, plain.key, plain.subject, plain.version) = (String::new(), None, None, 1);
            (plain.topic, plain.content_type) = (plain.event_type.clone(), "application/json".to_owned());
            for payload in [&b"{ \"a\": [1, 2] }"[..], b" \"a\"", b"not json", b""] {
                plain.payload = payload.to_vec();
                assert_eq!(round_trip(&plain, format), plain, "{format} {payload:?}");
            }
        }
    }

    #[test]
    fn a_raw_message_is_what_the_reference_relay_sends() {
        let event = event();
        let parcel = parcel(event.clone());
        let message = encode(&parcel, &settings("format=raw")).unwrap();
        assert_eq!((message.topic.as_str(), &message.payload[..]), ("orders", &event.payload[..]));
        assert_eq!((text(&message.headers, ID), message.key), (Some(event.id.clone()), event.key.as_deref()));
        assert_eq!(text(&message.headers, "Mixed-Case").as_ref(), event.headers.get("Mixed-Case"));
        assert_eq!(text(&message.headers, "ce_id"), None);
        let seen = round_trip(&event, "raw");
        assert_eq!((&seen.id, &seen.topic, &seen.key), (&event.id, &event.topic, &event.key));
        assert_eq!((&seen.payload, &seen.headers), (&event.payload, &event.headers));
        assert_eq!(seen.event_type, "orders", "there is no place for another");
    }

    #[test]
    fn a_raw_message_has_the_event_s_own_headers_whatever_they_are_called() {
        let mut event = event();
        event.headers.insert("Content-Type".to_owned(), "text/csv".to_owned());
        event.headers.insert("ce_tenant".to_owned(), "7".to_owned());
        event.headers.insert("x-event-id".to_owned(), "another".to_owned());
        let parcel = parcel(event.clone());
        let message = encode(&parcel, &settings("format=raw")).unwrap();
        let values = |name: &str| {
            let is_it = |header: &Header<'_, &[u8]>| header.key.eq_ignore_ascii_case(name);
            let text =
                |header: Header<'_, &[u8]>| String::from_utf8_lossy(header.value.unwrap()).into_owned();
            message.headers.iter().filter(is_it).map(text).collect::<Vec<_>>()
        };
        assert_eq!(values(ID), [event.id.clone()]);
        assert_eq!(
            (values(CONTENT_TYPE), values("ce_tenant")),
            (vec!["text/csv".to_owned()], vec!["7".to_owned()])
        );
        let seen = round_trip(&event, "raw");
        assert_eq!((seen.content_type.as_str(), seen.headers["ce_tenant"].as_str()), ("text/csv", "7"));
    }

    #[test]
    fn a_binary_event_has_its_attributes_beside_what_plain_clients_look_for() {
        let parcel = parcel(event());
        let message = encode(&parcel, &settings("")).unwrap();
        for (name, value) in [
            ("ce_specversion", "1.0"),
            ("ce_id", "id-ünï-🦀"),
            ("ce_subject", "subject 🦀 100%"),
            ("ce_type", "order.placed"),
            ("ce_partitionkey", "key-日本"),
            ("ce_posthastetopic", "orders"),
            ("ce_dataschema", "urn:x"),
            ("content-type", "application/x-law"),
            ("X-Event-ID", "id-ünï-🦀"),
        ] {
            assert_eq!(text(&message.headers, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(text(&message.headers, "dataschema"), None);
    }

    #[test]
    fn what_kafka_cannot_take_is_refused_here() {
        for change in [
            (|event: &mut Envelope| event.topic = "a b".to_owned()) as fn(&mut Envelope),
            |event| event.topic = "..".to_owned(),
            |event| event.topic = "x".repeat(250),
            |event| drop(event.headers.insert("Ce_id".to_owned(), "other".to_owned())),
            |event| drop(event.headers.insert("x-event-id".to_owned(), "other".to_owned())),
            |event| drop(event.headers.insert("nul\0".to_owned(), String::new())),
        ] {
            let mut event = event();
            change(&mut event);
            assert_eq!(encode(&parcel(event), &settings("")).err().unwrap().kind, DeliverKind::Rejected);
        }
        let mut large = event();
        large.payload = vec![0; 1000];
        let error = encode(&parcel(large), &settings("message_bytes_max=1000")).err().unwrap();
        assert!(
            error.kind == DeliverKind::TooLarge && error.message.contains("message_bytes_max"),
            "{error}"
        );
    }

    #[test]
    fn what_others_wrote_is_taken_as_far_as_it_goes() {
        let none: Option<&OwnedHeaders> = None;
        assert!(decode("t", None, none, b"x").unwrap_err().to_string().contains(ID));
        let mut heading = Heading::new();
        heading.put(ID, b"1");
        heading.put("bytes", &[0xff, b'a']);
        let seen = decode("t", Some(&[0xff, 0x01]), Some(&heading.finish()), b"").unwrap();
        assert_eq!((seen.key.as_deref(), seen.headers["bytes"].as_str()), (Some("0xff01"), "\u{fffd}a"));
        assert_eq!(seen.content_type, UNKNOWN_CONTENT);
        let mut heading = Heading::new();
        heading.put("ce_specversion", b"1.0");
        assert!(decode("t", None, Some(&heading.finish()), b"x").unwrap_err().to_string().contains("type"));
    }
}
