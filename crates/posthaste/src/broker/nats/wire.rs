//! An event as a message, and a message as an event.
//!
//! Whatever the format, a message has `Nats-Msg-Id` (the event's id, by which a stream drops what it has already) and
//! `X-Partition-Key`, and the event's own headers as they are; in the raw form also those that look like attributes of a
//! CloudEvent. The binary form adds the attributes as `ce-…`, with the encoding that the CloudEvents binding for NATS takes from HTTP.

use std::sync::Arc;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, Result};

use super::naming;
use super::settings::Publishing;
use crate::broker::cloudevents::{
    DATASCHEMA, Format, STRUCTURED, UNKNOWN_CONTENT, attributes, is_event, of_attributes, of_structured,
    structured,
};
use crate::broker::story::OURS;
use crate::url::decoded;

/// By which a stream knows a message that it has already: the event's id, and where that is taken by an event of another source,
/// the source and a space before it.
pub(super) const MSG_ID: &str = "Nats-Msg-Id";
/// The event's id, where `Nats-Msg-Id` is not to be it: a stream would drop what is delivered again on purpose.
pub(super) const ID: &str = "posthaste-id";
/// No other stream may take it.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
const KEY: &str = "X-Partition-Key";
/// The source of an event in its binary form.
pub(super) const SOURCE: &str = "ce-source";
/// By which a CloudEvent is known in its binary form.
const SPECVERSION: &str = "ce-specversion";
const CONTENT_TYPE: &str = "content-type";
const ATTRIBUTE: &str = "ce-";
/// What headers for the server begin with: one of them empties the stream.
const SERVERS: &str = "nats-";
/// What we write on a message when it is buried; an event leaves as much room.
const LABEL_BYTES: u64 = 1024;

/// A message that the server can take.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

/// The bytes of an event's payload, without a copy.
struct Payload(Arc<Envelope>);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0.payload
    }
}

/// Makes a message of an event.
///
/// # Errors
/// `Rejected` when its topic is no subject or a header cannot be one, `TooLarge` when the message is larger than the server
/// takes (`server_max`, if that is known): faults of this event alone.
pub(super) fn encode(
    parcel: &Parcel,
    publishing: &Publishing,
    server_max: Option<u64>,
) -> Result<Message, DeliverError> {
    let envelope = &parcel.envelope;
    let subject = naming::subject(&publishing.prefix, &envelope.topic);
    naming::check_subject(&subject)
        .map_err(|why| rejected("subject", format!("the topic {:?} is no subject: {why}", envelope.topic)))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &envelope.headers {
        if !is_replaced(name, envelope, publishing.format)? {
            put(&mut headers, name, value)?;
        }
    }
    let id = if parcel.replay { ID } else { MSG_ID };
    put(&mut headers, id, &envelope.id)?;
    if let Some(key) = &envelope.key {
        put(&mut headers, KEY, key)?;
    }
    let (content_type, json) = match publishing.format {
        Format::Binary => {
            let mut odd = Ok(());
            attributes(parcel, |name, value| {
                if odd.is_ok() {
                    odd = put(&mut headers, &format!("{ATTRIBUTE}{name}"), &percent(value));
                }
            });
            odd?;
            (envelope.content_type.as_str(), None)
        }
        Format::Structured => (STRUCTURED, Some(structured(parcel))),
        Format::Raw => (envelope.content_type.as_str(), None),
    };
    if text(&headers, CONTENT_TYPE).is_none() {
        put(&mut headers, CONTENT_TYPE, content_type)?;
    }
    if let Some(stream) = &publishing.stream {
        put(&mut headers, EXPECTED_STREAM, stream)?;
    }
    let payload = json.map_or_else(|| Bytes::from_owner(Payload(Arc::clone(envelope))), Bytes::from);
    let message = Message { subject, headers, payload };
    fits(&message, publishing.message_bytes_max, server_max)?;
    Ok(message)
}

/// Whether a header of the event's own gives way to one that says the same. Without attributes of ours whoever wrote the event has
/// written all of its headers; only id and key are ours.
///
/// # Errors
/// `Rejected` for one that the server, or a reader of the event, would take for something else.
fn is_replaced(name: &str, envelope: &Envelope, format: Format) -> Result<bool, DeliverError> {
    let (lower, is_raw) = (name.to_ascii_lowercase(), format == Format::Raw);
    let is_id = is_raw && name.eq_ignore_ascii_case(MSG_ID);
    let is_attribute = !is_raw && lower.starts_with(ATTRIBUTE);
    if lower.starts_with(OURS) || is_attribute || (lower.starts_with(SERVERS) && !is_id) {
        return Err(rejected(
            "header",
            format!("the header {name:?} begins as one for the server or of CloudEvents"),
        ));
    }
    let is_key = envelope.key.is_some() && name.eq_ignore_ascii_case(KEY);
    Ok(is_id || is_key || (!is_raw && (name == DATASCHEMA || lower == CONTENT_TYPE)))
}

/// Whether the server would take it, before it is asked: it ends the connection of whoever sends too much.
fn fits(message: &Message, ours: u64, servers: Option<u64>) -> Result<(), DeliverError> {
    let size = size(message);
    let servers = servers.map(|limit| limit.saturating_sub(LABEL_BYTES.min(limit / 4)));
    let (limit, whose) = match servers {
        Some(limit) if limit < ours => (limit, "max_payload of the server, less what a dead letter needs"),
        _ => (ours, "message_bytes_max"),
    };
    if size <= limit {
        return Ok(());
    }
    Err(too_large(format!("the message has {size} bytes with its headers, the limit is {limit} ({whose})")))
}

/// What the server counts: headers and payload.
pub(super) fn size(message: &Message) -> u64 {
    // `NATS/1.0`, and `: ` and a line's end around each header.
    let of_header = |(name, values): (&HeaderName, &Vec<HeaderValue>)| {
        values.iter().map(|value| name_of(name).len() + value.as_str().len() + 4).sum::<usize>()
    };
    let headers: usize = message.headers.iter().map(of_header).sum();
    (message.payload.len() + headers + 12) as u64
}

/// Adds a header.
pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), DeliverError> {
    let wrong = |what: &str| rejected("header", format!("the header {name:?} {what}"));
    let checked: HeaderName = name.parse().map_err(|_| wrong("has a name that NATS cannot carry"))?;
    let value: HeaderValue = value.parse().map_err(|_| wrong("has a line end in its value"))?;
    headers.insert(checked, value);
    Ok(())
}

/// As in the HTTP binding: what is no visible ASCII, a quote, and the percent sign itself.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_graphic() && character != '"' && character != '%' {
            out.push(character);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Makes an event of a message on this topic.
///
/// # Errors
/// `Rejected` with what is wrong with it: such a message is no event, and will never be.
pub(super) fn decode(headers: &HeaderMap, topic: &str, payload: &[u8]) -> Result<Envelope> {
    let content_type = text(headers, CONTENT_TYPE);
    let is_structured = content_type.as_deref().is_some_and(|kind| kind.starts_with(STRUCTURED));
    let content_type = content_type.unwrap_or_else(|| UNKNOWN_CONTENT.to_owned());
    let mut envelope = if is_structured {
        of_structured(payload)?
    } else {
        let mut attributes = attributes_of(headers);
        let mut envelope = if is_event(&attributes) {
            let mut envelope = of_attributes(&mut attributes)?;
            envelope.headers = attributes;
            envelope
        } else {
            raw(headers, topic)?
        };
        envelope.content_type = content_type;
        envelope.payload = payload.to_vec();
        envelope
    };
    if envelope.key.is_none() {
        envelope.key = text(headers, KEY);
    }
    let is_raw = !is_structured && text(headers, SPECVERSION).is_none();
    for (name, values) in headers.iter() {
        let (name, lower) = (name_of(name), name_of(name).to_ascii_lowercase());
        let is_attribute = lower.starts_with(ATTRIBUTE) && !is_raw;
        let is_ours = is_attribute || [SERVERS, OURS].iter().any(|prefix| lower.starts_with(prefix));
        if let (false, false, Some(value)) =
            (is_ours, lower == CONTENT_TYPE || name.eq_ignore_ascii_case(KEY), values.first())
        {
            envelope.headers.insert(name.to_owned(), value.as_str().to_owned());
        }
    }
    Ok(envelope)
}

fn attributes_of(headers: &HeaderMap) -> Headers {
    let mut attributes = Headers::new();
    for (name, values) in headers.iter() {
        let lower = name_of(name).to_ascii_lowercase();
        if let (Some(name), Some(value)) = (lower.strip_prefix(ATTRIBUTE), values.first()) {
            attributes.insert(name.to_owned(), decoded(value.as_str()));
        }
    }
    attributes
}

/// A message that is no CloudEvent: its subject is its type.
fn raw(headers: &HeaderMap, topic: &str) -> Result<Envelope> {
    let id = event_id(headers).ok_or_else(|| {
        Error::rejected(
            "it has no Nats-Msg-Id, so nobody could tell whether it was handled; let its producer set one",
        )
    })?;
    let mut envelope = Envelope::new(topic, Vec::new());
    envelope.id = id;
    Ok(envelope)
}

/// The id that a message says of itself.
pub(super) fn event_id(headers: &HeaderMap) -> Option<String> {
    text(headers, ID).or_else(|| text(headers, MSG_ID)).filter(|id| !id.is_empty())
}

/// A header's name as text.
pub(super) fn name_of(name: &HeaderName) -> &str {
    name.as_ref()
}

/// A header of a message, whatever the case of its name.
pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let found = headers.iter().find(|(known, _)| name_of(known).eq_ignore_ascii_case(name));
    found.and_then(|(_, values)| values.first()).map(|value| value.as_str().to_owned())
}

fn rejected(what: &str, message: String) -> DeliverError {
    DeliverError::new(DeliverKind::Rejected, format!("nats {what}"), message)
}

pub(super) fn too_large(message: String) -> DeliverError {
    DeliverError::new(DeliverKind::TooLarge, "too large", message)
}

#[cfg(test)]
mod tests {
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

    fn encoded(event: Envelope, publishing: &Publishing) -> Result<Message, DeliverError> {
        encode(&Parcel::new(Arc::new(event), 1, false, Timestamp::default()), publishing, None)
    }

    fn round_trip(event: &Envelope, format: Format) -> Envelope {
        let publishing = Publishing { format, prefix: "shop".to_owned(), ..Publishing::default() };
        let message = encoded(event.clone(), &publishing).unwrap();
        decode(&message.headers, naming::topic("shop", &message.subject), &message.payload).unwrap()
    }

    #[test]
    fn what_was_encoded_is_decoded_unchanged() {
        for format in [Format::Binary, Format::Structured] {
            assert_eq!(round_trip(&event(), format), event(), "{format:?}");
            let mut plain = event();
            (plain.source, plain.key, plain.subject, plain.version) = (String::new(), None, None, 1);
            (plain.topic, plain.content_type) = (plain.event_type.clone(), "application/json".to_owned());
            for payload in [&b"{ \"a\": [1, 2] }"[..], b" \"a\"", b"not json", b""] {
                plain.payload = payload.to_vec();
                assert_eq!(round_trip(&plain, format), plain, "{format:?} {payload:?}");
            }
        }
    }

    #[test]
    fn a_raw_message_is_what_the_reference_relay_sends() {
        let event = event();
        let publishing = Publishing { format: Format::Raw, ..Publishing::default() };
        let message = encoded(event.clone(), &publishing).unwrap();
        let header = |name: &str| text(&message.headers, name);
        assert_eq!((message.subject.as_str(), &message.payload[..]), ("orders", &event.payload[..]));
        assert_eq!(
            (header("Nats-Msg-Id"), header("X-Partition-Key")),
            (Some(event.id.clone()), event.key.clone())
        );
        assert_eq!(header("Mixed-Case").as_ref(), event.headers.get("Mixed-Case"));
        let seen = round_trip(&event, Format::Raw);
        assert_eq!((&seen.id, &seen.topic, &seen.key), (&event.id, &event.topic, &event.key));
        assert_eq!((&seen.payload, &seen.headers), (&event.payload, &event.headers));
        assert_eq!(seen.event_type, "orders", "there is no place for another");
    }

    #[test]
    fn a_raw_message_has_the_event_s_own_headers_whatever_they_are_called() {
        let mut event = event();
        for (name, value) in [
            ("Content-Type", "text/csv"),
            ("ce-tenant", "7"),
            ("nats-msg-id", "another"),
            ("x-partition-key", "another"),
        ] {
            event.headers.insert(name.to_owned(), value.to_owned());
        }
        let publishing = Publishing { format: Format::Raw, ..Publishing::default() };
        let message = encoded(event.clone(), &publishing).unwrap();
        let values = |name: &str| {
            let is_it =
                |(known, _): &(&HeaderName, &Vec<HeaderValue>)| name_of(known).eq_ignore_ascii_case(name);
            let values = message.headers.iter().filter(is_it).flat_map(|(_, values)| values);
            values.map(|value| value.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((values(MSG_ID), values(KEY)), (vec![event.id.clone()], vec![event.key.clone().unwrap()]));
        assert_eq!(
            (values(CONTENT_TYPE), values("ce-tenant")),
            (vec!["text/csv".to_owned()], vec!["7".to_owned()])
        );
        let seen = round_trip(&event, Format::Raw);
        assert_eq!((seen.content_type.as_str(), seen.headers["ce-tenant"].as_str()), ("text/csv", "7"));
        event.headers.insert("Nats-Rollup".to_owned(), "all".to_owned());
        assert_eq!(
            encoded(event, &publishing).unwrap_err().kind,
            DeliverKind::Rejected,
            "it empties the stream"
        );
    }

    #[test]
    fn a_binary_event_has_its_attributes_beside_what_plain_clients_look_for() {
        let message = encoded(event(), &Publishing::default()).unwrap();
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "id-%C3%BCn%C3%AF-%F0%9F%A6%80"),
            ("ce-subject", "subject%20%F0%9F%A6%80%20100%25"),
            ("ce-type", "order.placed"),
            ("ce-posthastetopic", "orders"),
            ("ce-dataschema", "urn:x"),
            ("content-type", "application/x-law"),
            ("Nats-Msg-Id", "id-ünï-🦀"),
            ("X-Partition-Key", "key-日本"),
        ] {
            assert_eq!(text(&message.headers, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(text(&message.headers, "dataschema"), None);
    }

    #[test]
    fn what_is_replayed_is_not_taken_for_a_duplicate() {
        let parcel = Parcel::new(Arc::new(event()), 1, true, Timestamp::default());
        for format in [Format::Binary, Format::Raw] {
            let publishing = Publishing { format, ..Publishing::default() };
            let message = encode(&parcel, &publishing, None).unwrap();
            assert_eq!(text(&message.headers, MSG_ID), None);
            assert_eq!(decode(&message.headers, "orders", &message.payload).unwrap().id, event().id);
        }
    }

    #[test]
    fn what_the_server_cannot_take_is_refused_here() {
        let with = |change: fn(&mut Envelope)| {
            let mut event = event();
            change(&mut event);
            encoded(event, &Publishing::default()).unwrap_err()
        };
        for change in [
            (|event: &mut Envelope| event.topic = "a b".to_owned()) as fn(&mut Envelope),
            |event| event.topic = "orders.>".to_owned(),
            |event| event.topic = "a..b".to_owned(),
            |event| drop(event.headers.insert("Nats-Rollup".to_owned(), "all".to_owned())),
            |event| drop(event.headers.insert("ce-id".to_owned(), "other".to_owned())),
            |event| drop(event.headers.insert("with space".to_owned(), String::new())),
            |event| drop(event.headers.insert("h".to_owned(), "a\r\nNats-Rollup: all".to_owned())),
            |event| event.key = Some("a\nb".to_owned()),
        ] {
            assert_eq!(with(change).kind, DeliverKind::Rejected);
        }
        let told = with(|event| drop(event.headers.insert("trace".to_owned(), "a\nb".to_owned())));
        assert_eq!(told.message, "the header \"trace\" has a line end in its value");
        let small = Publishing { message_bytes_max: 300, ..Publishing::default() };
        assert_eq!(encoded(event(), &small).unwrap_err().kind, DeliverKind::TooLarge);
        let parcel = Parcel::new(Arc::new(event()), 1, false, Timestamp::default());
        let error = encode(&parcel, &Publishing::default(), Some(512)).unwrap_err();
        assert!(error.kind == DeliverKind::TooLarge && error.message.contains("max_payload"), "{error}");
    }

    #[test]
    fn what_is_no_event_is_said_to_be_none() {
        let mut headers = HeaderMap::new();
        assert!(decode(&headers, "t", b"x").unwrap_err().to_string().contains("Nats-Msg-Id"));
        headers.insert("ce-specversion", "1.0");
        assert!(decode(&headers, "t", b"x").unwrap_err().to_string().contains("type"));
    }
}
