//! An event as a CloudEvent, as far as every broker has it alike: its attributes by name, and the structured form. How a broker
//! carries attributes in the binary form is its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::store::Parcel;
use posthaste_core::{Error, Result};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The content type of a structured event.
pub(crate) const STRUCTURED: &str = "application/cloudevents+json";
/// CloudEvents' own attribute that an envelope keeps as a header.
pub(crate) const DATASCHEMA: &str = "dataschema";
/// What a payload is when nobody says it.
pub(crate) const UNKNOWN_CONTENT: &str = "application/octet-stream";
/// CloudEvents' version.
const SPECVERSION: &str = "1.0";
/// CloudEvents wants a source; this stands for none.
pub(crate) const NO_SOURCE: &str = "/";
/// The extension attributes that carry what CloudEvents has no name for.
const KEY: &str = "partitionkey";
const TOPIC: &str = "posthastetopic";
const VERSION: &str = "posthasteversion";

/// How CloudEvents attributes travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The payload as it is, attributes as headers of the broker's own kind.
    #[default]
    Binary,
    /// Attributes and payload as one JSON object, `application/cloudevents+json`.
    Structured,
    /// The payload as it is, and what the broker itself has a place for; no other attribute.
    Raw,
}

impl Format {
    /// As they are called in the URLs of brokers.
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("binary", Self::Binary), ("structured", Self::Structured), ("raw", Self::Raw)];
}

/// Tells every CloudEvents attribute that is there.
pub(crate) fn attributes(parcel: &Parcel, mut put: impl FnMut(&str, &str)) {
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
pub(crate) fn structured(parcel: &Parcel) -> Vec<u8> {
    let envelope = &parcel.envelope;
    let mut object = Map::new();
    attributes(parcel, |name, value| {
        object.insert(name.to_owned(), Value::from(value));
    });
    object.insert("datacontenttype".to_owned(), json!(envelope.content_type));
    let mut out = Value::Object(object).to_string().into_bytes();
    out.pop();
    let is_json =
        envelope.content_type.starts_with("application/json") || envelope.content_type.contains("+json");
    let raw = serde_json::from_slice::<&RawValue>(&envelope.payload);
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

/// Whether these attributes say that they are a CloudEvent's.
pub(crate) fn is_event(attributes: &Headers) -> bool {
    attributes.contains_key("specversion")
}

/// Takes the attributes that an envelope has a field for; what is left are extensions.
///
/// # Errors
/// `Rejected` with what is wrong with them.
pub(crate) fn of_attributes(attributes: &mut Headers) -> Result<Envelope> {
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

/// Makes an event of its structured form.
///
/// # Errors
/// `Rejected` with what is wrong with it.
pub(crate) fn of_structured(body: &[u8]) -> Result<Envelope> {
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
