//! A message as an event: CloudEvents in binary or structured form, or a raw message with AMQP's own properties.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};
use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::{PREFIX, PREFIX_COLON};
use crate::broker::cloudevents::{STRUCTURED, UNKNOWN_CONTENT, is_event, of_attributes, of_structured};

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
        of_structured(body)?
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
    Ok(is_event(&attributes).then_some(attributes))
}

fn binary(mut attributes: Headers, properties: &BasicProperties) -> Result<Envelope> {
    let mut envelope = of_attributes(&mut attributes)?;
    envelope.content_type = short(properties.content_type()).unwrap_or(UNKNOWN_CONTENT).to_owned();
    envelope.headers = attributes;
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
    envelope.content_type = short(properties.content_type()).unwrap_or(UNKNOWN_CONTENT).to_owned();
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
