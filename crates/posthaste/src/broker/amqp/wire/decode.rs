//! A message as an event: CloudEvents in binary or structured form, or a raw message with AMQP's own properties.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};
use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{KEY, NO_SOURCE, PREFIX, PREFIX_COLON, STRUCTURED, TOPIC, VERSION};

/// What brokers and we put on a message, which is no business of a handler's.
const NOT_HEADERS: [&str; 4] = ["x-death", "x-first-death-", "x-last-death-", "x-delivery-count"];
const OURS: &str = "posthaste-";
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Makes an event of a message that came by this routing key. Where the event's payload is the message's body, the body is
/// taken; otherwise, and when it fails, it stays.
///
/// # Errors
/// `Rejected` with what is wrong with it: such a message is no event, and will never be.
pub(in crate::broker::amqp) fn decode(
    properties: &BasicProperties,
    routing_key: &str,
    body: &mut Vec<u8>,
) -> Result<Envelope> {
    let is_structured = short(properties.content_type()).is_some_and(|kind| kind.starts_with(STRUCTURED));
    let mut envelope = if is_structured {
        structured(body)?
    } else {
        match attributes(properties)? {
            Some(attributes) => binary(attributes, properties)?,
            None => raw(properties, routing_key)?,
        }
    };
    for (name, value) in entries(properties) {
        let is_attribute = name.starts_with(PREFIX) || name.starts_with(PREFIX_COLON);
        let is_internal = NOT_HEADERS.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with(OURS);
        if let (false, false, Some(value)) = (is_attribute, is_internal, text(value)?) {
            envelope.headers.insert(name.to_owned(), value);
        }
    }
    if !is_structured {
        envelope.payload = std::mem::take(body);
    }
    Ok(envelope)
}

fn entries(properties: &BasicProperties) -> impl Iterator<Item = (&str, &AMQPValue)> {
    let headers = properties.headers().iter().flat_map(|headers| headers.inner());
    headers.map(|(name, value)| (name.as_str(), value))
}

/// The CloudEvents attributes among the headers; `None` when it says nothing of being one.
fn attributes(properties: &BasicProperties) -> Result<Option<Headers>> {
    let mut attributes = Headers::new();
    for (name, value) in entries(properties) {
        let name = name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(PREFIX_COLON));
        if let (Some(name), Some(value)) = (name, text(value)?) {
            attributes.insert(name.to_owned(), value);
        }
    }
    Ok(attributes.contains_key("specversion").then_some(attributes))
}

fn binary(mut attributes: Headers, properties: &BasicProperties) -> Result<Envelope> {
    let mut envelope = of_attributes(&mut attributes)?;
    envelope.content_type = short(properties.content_type()).unwrap_or("application/octet-stream").to_owned();
    envelope.headers = attributes;
    Ok(envelope)
}

/// Takes the attributes that an envelope has a field for; what is left are extensions.
fn of_attributes(attributes: &mut Headers) -> Result<Envelope> {
    let specversion = attributes.remove("specversion").unwrap_or_default();
    if !specversion.starts_with("1.") {
        return Err(Error::rejected(format!(
            "its CloudEvents version is {specversion:?}, and 1.0 is understood"
        )));
    }
    let mut needed = |name: &str| {
        let value = attributes.remove(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Error::rejected(format!("it is a CloudEvent without the attribute {name}")))
    };
    let mut envelope = Envelope::new(needed("type")?, Vec::new());
    envelope.id = needed("id")?;
    envelope.source =
        needed("source").map(|source| if source == NO_SOURCE { String::new() } else { source })?;
    envelope.subject = attributes.remove("subject");
    envelope.key = attributes.remove(KEY);
    if let Some(topic) = attributes.remove(TOPIC) {
        envelope.topic = topic;
    }
    if let Some(version) = attributes.remove(VERSION) {
        let wrong = |_| Error::rejected(format!("{version:?} is no version of a schema"));
        envelope.version = version.parse().map_err(wrong)?;
    }
    envelope.occurred_at = attributes.remove("time").map(|time| time.parse()).transpose()?;
    Ok(envelope)
}

fn structured(body: &[u8]) -> Result<Envelope> {
    let wrong = |error: serde_json::Error| Error::rejected("it is no structured CloudEvent").because(error);
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_slice(body).map_err(wrong)?;
    let mut attributes = Headers::new();
    let mut data = None;
    for (name, value) in members {
        match name.as_str() {
            "data" => data = Some((false, value)),
            "data_base64" => data = Some((true, value)),
            _ => match serde_json::from_str(value.get()).map_err(wrong)? {
                Value::Null => {}
                Value::String(text) => drop(attributes.insert(name, text)),
                Value::Array(_) | Value::Object(_) => {
                    return Err(Error::rejected(format!(
                        "its attribute {name:?} is no text, number or boolean"
                    )));
                }
                other => drop(attributes.insert(name, other.to_string())),
            },
        }
    }
    let content_type = attributes.remove("datacontenttype");
    let mut envelope = of_attributes(&mut attributes)?;
    envelope.content_type = content_type.unwrap_or_else(|| "application/json".to_owned());
    envelope.headers = attributes;
    let is_json = envelope.content_type.contains("json");
    envelope.payload = match data {
        None => Vec::new(),
        Some((true, value)) => {
            let text: String = serde_json::from_str(value.get()).map_err(wrong)?;
            let wrong = |error| Error::rejected("its data_base64 is no base64").because(error);
            STANDARD.decode(text).map_err(wrong)?
        }
        // A text in a content type that is not JSON is that text.
        Some((false, value)) if !is_json && value.get().starts_with('"') => {
            serde_json::from_str::<String>(value.get()).map_err(wrong)?.into_bytes()
        }
        Some((false, value)) => value.get().as_bytes().to_vec(),
    };
    Ok(envelope)
}

fn raw(properties: &BasicProperties, routing_key: &str) -> Result<Envelope> {
    let id = short(properties.message_id()).filter(|id| !id.is_empty()).ok_or_else(|| {
        Error::rejected(
            "it has no message id, so nobody could tell whether it was handled; let its producer set one",
        )
    })?;
    let kind = short(properties.kind()).filter(|kind| !kind.is_empty()).unwrap_or(routing_key);
    if kind.is_empty() {
        return Err(Error::rejected("it has neither a type nor a routing key"));
    }
    let mut envelope = Envelope::new(kind, Vec::new());
    envelope.id = id.to_owned();
    if !routing_key.is_empty() {
        envelope.topic = routing_key.to_owned();
    }
    envelope.source = short(properties.app_id()).unwrap_or_default().to_owned();
    envelope.content_type = short(properties.content_type()).unwrap_or("application/octet-stream").to_owned();
    let seconds = properties.timestamp().and_then(|seconds| i64::try_from(seconds).ok());
    envelope.occurred_at =
        seconds.map(|seconds| Timestamp::from_micros(seconds.saturating_mul(MICROS_PER_SECOND)));
    Ok(envelope)
}

fn short(value: &Option<ShortString>) -> Option<&str> {
    value.as_ref().map(ShortString::as_str)
}

/// A header's value as text; `None` for what is no single value.
fn text(value: &AMQPValue) -> Result<Option<String>> {
    let text = match value {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec())
            .map_err(|error| Error::rejected("a header holds what is no text").because(error))?,
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(number) => number.to_string(),
        AMQPValue::ShortShortUInt(number) => number.to_string(),
        AMQPValue::ShortInt(number) => number.to_string(),
        AMQPValue::ShortUInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        AMQPValue::LongUInt(number) => number.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::Float(number) => number.to_string(),
        AMQPValue::Double(number) => number.to_string(),
        AMQPValue::Timestamp(seconds) => {
            let seconds = i64::try_from(*seconds).unwrap_or(i64::MAX);
            Timestamp::from_micros(seconds.saturating_mul(MICROS_PER_SECOND)).to_string()
        }
        AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => return Ok(None),
    };
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
