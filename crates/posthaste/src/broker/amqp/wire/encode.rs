//! An event as a message, checked before it is sent: the broker answers a message that it cannot take by closing the
//! channel, and with it everybody else's.

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};

use super::{Body, Message, PREFIX, PREFIX_COLON};
use crate::broker::amqp::settings::{Format, Publishing};
use crate::broker::amqp::url::NAME_BYTES_MAX;
use crate::broker::cloudevents::{DATASCHEMA, STRUCTURED, attributes, structured};

/// On disk before it is confirmed, in a durable queue.
const PERSISTENT: u8 = 2;

/// Makes a message of an event.
///
/// # Errors
/// `Rejected` when a name is too long for AMQP, `TooLarge` when the message is larger than the broker takes: faults of this
/// event alone.
pub(in crate::broker::amqp) fn encode(
    parcel: &Parcel,
    publishing: &Publishing,
) -> Result<Message, DeliverError> {
    let envelope = &parcel.envelope;
    let route = publishing.mapping.route(envelope, &publishing.exchange);
    let mut headers = FieldTable::default();
    for (name, value) in &envelope.headers {
        if name.starts_with(PREFIX) || name.starts_with(PREFIX_COLON) {
            return Err(rejected(
                "header",
                format!("the header {name:?} begins as a CloudEvents attribute does"),
            ));
        }
        if name != DATASCHEMA || publishing.format == Format::Raw {
            headers.insert(short("header name", name)?, long(value));
        }
    }
    let (content_type, text) = match publishing.format {
        Format::Binary => {
            attributes(parcel, |name, value| {
                headers.insert(ShortString::from(format!("{PREFIX}{name}")), long(value));
            });
            (envelope.content_type.as_str(), None)
        }
        Format::Structured => (STRUCTURED, Some(structured(parcel))),
        Format::Raw => (envelope.content_type.as_str(), None),
    };
    let body = text.map_or_else(|| Body::Payload(Arc::clone(envelope)), Body::own);
    let size = body.bytes().len() as u64;
    if size > publishing.message_bytes_max {
        let limit = publishing.message_bytes_max;
        return Err(too_large(format!(
            "the message has {size} bytes, the limit is {limit} (message_bytes_max)"
        )));
    }
    let at = envelope.occurred_at.unwrap_or(parcel.stored_at);
    let properties = BasicProperties::default()
        .with_message_id(short("id", &envelope.id)?)
        .with_type(short("type", &envelope.event_type)?)
        .with_content_type(short("content type", content_type)?)
        .with_timestamp(u64::try_from(at.as_micros() / 1_000_000).unwrap_or(0))
        .with_app_id(short("app_id", &publishing.app_id)?)
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers);
    Ok(Message {
        exchange: short("exchange", &route.exchange)?,
        routing_key: short("routing key", &route.routing_key)?,
        properties,
        body,
    })
}

fn long(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn short(what: &str, text: &str) -> Result<ShortString, DeliverError> {
    ShortString::try_new(text).map_err(|_| {
        rejected(what, format!("the {what} has {} bytes, AMQP's limit is {NAME_BYTES_MAX}", text.len()))
    })
}

fn rejected(what: &str, message: String) -> DeliverError {
    DeliverError::new(DeliverKind::Rejected, format!("amqp {what}"), message)
}

pub(in crate::broker::amqp) fn too_large(message: String) -> DeliverError {
    DeliverError::new(DeliverKind::TooLarge, "too large", message)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use posthaste_core::envelope::Envelope;
    use posthaste_core::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::broker::amqp::mapping::{Mapping, Route};

    fn parcel(change: impl FnOnce(&mut Envelope)) -> Parcel {
        let mut envelope = Envelope::new("order.placed", "{\"n\":1}");
        envelope.id = "e1".to_owned();
        change(&mut envelope);
        Parcel::new(Arc::new(envelope), 1, false, Timestamp::from_micros(1_700_000_000_000_000))
    }

    fn header<'a>(message: &'a Message, name: &str) -> Option<&'a [u8]> {
        match message.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    #[test]
    fn a_binary_event_has_its_attributes_as_headers() {
        let event = parcel(|envelope| {
            envelope.source = "/shop".to_owned();
            envelope.key = Some("k".to_owned());
            envelope.topic = "orders".to_owned();
            envelope.version = 2;
            envelope.headers.insert("traceparent".to_owned(), "00-ab".to_owned());
            envelope.headers.insert("dataschema".to_owned(), "urn:x".to_owned());
        });
        let message = encode(&event, &Publishing::default()).unwrap();
        assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), ("posthaste", "orders"));
        for (name, value) in [
            ("cloudEvents_specversion", "1.0"),
            ("cloudEvents_id", "e1"),
            ("cloudEvents_source", "/shop"),
            ("cloudEvents_type", "order.placed"),
            ("cloudEvents_partitionkey", "k"),
            ("cloudEvents_posthastetopic", "orders"),
            ("cloudEvents_posthasteversion", "2"),
            ("cloudEvents_dataschema", "urn:x"),
            ("traceparent", "00-ab"),
        ] {
            assert_eq!(header(&message, name), Some(value.as_bytes()), "{name}");
        }
        assert_eq!(header(&message, "dataschema"), None);
        let properties = &message.properties;
        assert_eq!(properties.message_id().as_ref().unwrap().as_str(), "e1");
        assert_eq!(properties.kind().as_ref().unwrap().as_str(), "order.placed");
        assert_eq!((*properties.delivery_mode(), *properties.timestamp()), (Some(2), Some(1_700_000_000)));
        assert_eq!(message.body.bytes(), b"{\"n\":1}");
    }

    #[test]
    fn a_structured_event_is_one_json_object_and_keeps_its_bytes() {
        let publishing = Publishing { format: Format::Structured, ..Publishing::default() };
        let message = encode(&parcel(|_| {}), &publishing).unwrap();
        let json: Value = serde_json::from_slice(message.body.bytes()).unwrap();
        assert_eq!((&json["data"], &json["source"]), (&json!({"n": 1}), &json!("/")));
        assert_eq!(message.properties.content_type().as_ref().unwrap().as_str(), STRUCTURED);
        for payload in [&b"{\"n\":1} "[..], b"\xff", b"plain", b""] {
            let message =
                encode(&parcel(|envelope| envelope.payload = payload.to_vec()), &publishing).unwrap();
            let json: Value = serde_json::from_slice(message.body.bytes()).unwrap();
            assert_eq!(STANDARD.decode(json["data_base64"].as_str().unwrap()).unwrap(), payload);
        }
    }

    #[test]
    fn what_the_broker_would_close_the_channel_for_is_refused_here() {
        let long = "x".repeat(256);
        let publishing = Publishing {
            mapping: Mapping::custom(|envelope| {
                Route::new("e", format!("{}{}", envelope.topic, "y".repeat(250)))
            }),
            ..Publishing::default()
        };
        let error = encode(&parcel(|_| {}), &publishing).unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Rejected, "amqp routing key"));
        let error = encode(&parcel(|envelope| envelope.event_type = long.clone()), &Publishing::default());
        assert_eq!(error.unwrap_err().kind, DeliverKind::Rejected);
        for name in [long.as_str(), "cloudEvents_id", "cloudEvents:id"] {
            let event = parcel(|envelope| drop(envelope.headers.insert(name.to_owned(), String::new())));
            assert_eq!(encode(&event, &Publishing::default()).unwrap_err().kind, DeliverKind::Rejected);
        }
        let publishing = Publishing { message_bytes_max: 6, ..Publishing::default() };
        assert_eq!(encode(&parcel(|_| {}), &publishing).unwrap_err().kind, DeliverKind::TooLarge);
    }
}
