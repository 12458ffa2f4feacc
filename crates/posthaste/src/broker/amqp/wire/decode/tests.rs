use std::sync::Arc;

use lapin::types::FieldTable;
use posthaste_core::store::Parcel;

use super::*;
use crate::broker::amqp::settings::{Format, Publishing};
use crate::broker::amqp::wire::encode::encode;

fn event() -> Envelope {
    let mut event = Envelope::new("order.placed", (0..=255).collect::<Vec<u8>>());
    event.id = "id-ünï-🦀".to_owned();
    event.source = "/shop".to_owned();
    event.topic = "orders".to_owned();
    event.key = Some("key-日本".to_owned());
    event.subject = Some("subject 🦀".to_owned());
    event.version = 7;
    event.content_type = "application/x-law".to_owned();
    event.headers.insert("Mixed-Case".to_owned(), "värde, with \"quotes\"".to_owned());
    event.headers.insert("dataschema".to_owned(), "urn:x".to_owned());
    event.occurred_at = Some(Timestamp::from_micros(1_767_225_600_250_000));
    event
}

fn round_trip(event: &Envelope, format: Format) -> Envelope {
    let parcel = Parcel::new(Arc::new(event.clone()), 1, false, Timestamp::default());
    let message = encode(&parcel, &Publishing { format, ..Publishing::default() }).unwrap();
    let mut body = message.body.bytes().to_vec();
    decode(&message.properties, message.routing_key.as_str(), &mut body).unwrap()
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
fn a_raw_message_is_what_amqp_can_say() {
    let mut event = event();
    event.headers.remove("dataschema");
    let seen = round_trip(&event, Format::Raw);
    assert_eq!((&seen.id, &seen.event_type, &seen.topic), (&event.id, &event.event_type, &event.topic));
    assert_eq!(
        (&seen.payload, &seen.headers, &seen.content_type),
        (&event.payload, &event.headers, &event.content_type)
    );
    assert_eq!((seen.key, seen.source.as_str()), (None, "posthaste"), "AMQP has no place for them");
}

fn with(headers: &[(&str, &str)]) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), AMQPValue::LongString((*value).into()));
    }
    BasicProperties::default().with_headers(table)
}

#[test]
fn a_colon_after_the_prefix_is_read_too_and_extensions_are_headers() {
    let properties = with(&[
        ("cloudEvents:specversion", "1.0"),
        ("cloudEvents:id", "1"),
        ("cloudEvents:source", "/s"),
        ("cloudEvents:type", "t"),
        ("cloudEvents:traceparent", "00-ab"),
        ("x-death", "of old"),
        ("posthaste-attempts", "3"),
        ("own", "kept"),
    ]);
    let event = decode(&properties, "anywhere", &mut b"x".to_vec()).unwrap();
    assert_eq!((event.id.as_str(), event.topic.as_str(), event.payload.as_slice()), ("1", "t", &b"x"[..]));
    let headers: Vec<_> = event.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(headers, ["own=kept", "traceparent=00-ab"]);
}

#[test]
fn what_is_no_event_is_refused_with_a_reason_and_stays_whole() {
    let structured = || BasicProperties::default().with_content_type("application/cloudevents+json".into());
    let cases = [
        (BasicProperties::default(), "x", "no message id"),
        (
            with(&[("cloudEvents_specversion", "1.0"), ("cloudEvents_id", "1")]),
            "x",
            "without the attribute type",
        ),
        (with(&[("cloudEvents_specversion", "0.3")]), "x", "version is \"0.3\""),
        (structured(), "no json", "no structured CloudEvent"),
        (
            structured(),
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","x":{}}"#,
            "\"x\" is no text",
        ),
        (
            structured(),
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"%"}"#,
            "base64",
        ),
        (
            structured(),
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","time":"noon"}"#,
            "not a time",
        ),
    ];
    for (properties, body, says) in cases {
        let mut bytes = body.as_bytes().to_vec();
        let error = decode(&properties, "t", &mut bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{says:?} is not in {error}");
        assert_eq!(bytes, body.as_bytes(), "the body stays");
    }
}
