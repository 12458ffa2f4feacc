//! An event as a message, checked before it is sent: the broker answers a message that it cannot take by closing the
//! channel, and with it everybody else's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_core::envelope::Envelope;
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};
use serde_json::{Map, Value, json};

use super::{DATASCHEMA, KEY, NO_SOURCE, PREFIX, PREFIX_COLON, SPECVERSION, STRUCTURED, TOPIC, VERSION};
use crate::broker::amqp::settings::{Format, Publishing};
use crate::broker::amqp::url::NAME_BYTES_MAX;

/// On disk before it is confirmed, in a durable queue.
const PERSISTENT: u8 = 2;

/// A message that the broker can take.
#[derive(Clone, Debug)]
pub(in crate::broker::amqp) struct Message {
    pub(in crate::broker::amqp) exchange: ShortString,
    pub(in crate::broker::amqp) routing_key: ShortString,
    pub(in crate::broker::amqp) properties: BasicProperties,
    pub(in crate::broker::amqp) body: Body,
}

/// What is sent: the event's own bytes, or a new text around them.
#[derive(Clone, Debug)]
pub(in crate::broker::amqp) enum Body {
    Payload(std::sync::Arc<Envelope>),
    Text(Vec<u8>),
}

impl Body {
    pub(in crate::broker::amqp) fn bytes(&self) -> &[u8] {
        match self {
            Self::Payload(envelope) => &envelope.payload,
            Self::Text(text) => text,
        }
    }
}

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
            headers.insert(short("header name", name)?, text(value));
        }
    }
    let (content_type, body) = match publishing.format {
        Format::Binary => {
            attributes(parcel, |name, value| {
                headers.insert(ShortString::from(format!("{PREFIX}{name}")), text(value));
            });
            (envelope.content_type.as_str(), Body::Payload(envelope.clone()))
        }
        Format::Structured => (STRUCTURED, Body::Text(structured(parcel))),
        Format::Raw => (envelope.content_type.as_str(), Body::Payload(envelope.clone())),
    };
    let size = body.bytes().len() as u64;
    if size > publishing.message_bytes_max {
        let limit = publishing.message_bytes_max;
        return Err(too_large(format!("the message has {size} bytes, the limit is {limit} (message_bytes_max)")));
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

/// Tells every CloudEvents attribute that is there.
fn attributes(parcel: &Parcel, mut put: impl FnMut(&str, &str)) {
    let envelope = &parcel.envelope;
    put("specversion", SPECVERSION);
    put("id", &envelope.id);
    put("source", if envelope.source.is_empty() { NO_SOURCE } else { &envelope.source });
    put("type", &envelope.event_type);
    put("time", &envelope.occurred_at.unwrap_or(parcel.stored_at).to_string());
    let optional = [
        ("subject", envelope.subject.as_deref()),
        (KEY, envelope.key.as_deref()),
        (TOPIC, (envelope.topic != envelope.event_type).then_some(envelope.topic.as_str())),
        (DATASCHEMA, envelope.headers.get(DATASCHEMA).map(String::as_str)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(name, value);
        }
    }
    if envelope.version != 1 {
        put(VERSION, &envelope.version.to_string());
    }
}

/// The event as one JSON object. The payload's bytes are never changed: what JSON would change travels as base64.
fn structured(parcel: &Parcel) -> Vec<u8> {
    let envelope = &parcel.envelope;
    let mut object = Map::new();
    attributes(parcel, |name, value| {
        object.insert(name.to_owned(), Value::from(value));
    });
    object.insert("datacontenttype".to_owned(), json!(envelope.content_type));
    let mut out = Value::Object(object).to_string().into_bytes();
    out.pop();
    let is_json = envelope.content_type.starts_with("application/json") || envelope.content_type.contains("+json");
    let raw = serde_json::from_slice::<&serde_json::value::RawValue>(&envelope.payload);
    match (is_json, raw) {
        (true, Ok(raw)) if raw.get().len() == envelope.payload.len() => {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(raw.get().as_bytes());
        }
        _ => {
            out.extend_from_slice(b",\"data_base64\":\"");
            out.extend_from_slice(STANDARD.encode(&envelope.payload).as_bytes());
            out.push(b'"');
        }
    }
    out.push(b'}');
    out
}

fn text(value: &str) -> AMQPValue {
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
