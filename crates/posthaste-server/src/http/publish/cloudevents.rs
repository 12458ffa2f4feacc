//! CloudEvents 1.0 over HTTP: structured (`application/cloudevents+json`) and binary (`ce-` headers, the body is the
//! payload).
//!
//! Extension attributes become headers, but for two: `partitionkey` (CloudEvents' own extension for it) is the key, and
//! `posthastetopic` the topic. `dataschema` is carried as the header of that name.

use axum::http::{HeaderMap, header};
use posthaste::envelope::Envelope;
use serde_json::value::RawValue;

use super::data;
use super::members::Members;
use super::percent;
use super::plain::DATASCHEMA;
use crate::http::problem::{Kind, Problem};

const SPECVERSION: &str = "1.0";
const KEY: &str = "partitionkey";
const TOPIC: &str = "posthastetopic";

/// Reads one structured event.
pub(super) fn structured(json: &RawValue) -> Result<Envelope, Problem> {
    let mut members = Members::read(json)?;
    let specversion = members.needed("specversion");
    if !specversion.is_empty() && specversion != SPECVERSION {
        members.mistake(format!("specversion must be {SPECVERSION:?}"));
    }
    let mut envelope = Envelope::new(members.needed("type"), Vec::new());
    envelope.id = members.needed("id");
    envelope.source = members.needed("source");
    envelope.subject = members.text("subject");
    envelope.occurred_at = members.time("time");
    if let Some(content_type) = members.text("datacontenttype") {
        envelope.content_type = content_type;
    }
    if let Some(schema) = members.text(DATASCHEMA) {
        envelope.headers.insert(DATASCHEMA.to_owned(), schema);
    }
    envelope.payload = data::take(&mut members, &envelope.content_type);
    for (name, value) in members.rest() {
        match extension_text(value) {
            Ok(None) => {}
            Ok(Some(text)) => extend(&mut envelope, &name, text).unwrap_or_else(|why| members.mistake(why)),
            Err(()) => {
                members.mistake(format!("the extension {name:?} must be a string, a number or a boolean"));
            }
        }
    }
    members.end()?;
    Ok(envelope)
}

/// Reads one binary event: its attributes are `ce-` headers, its payload is the body.
pub(super) fn binary(headers: &HeaderMap, body: Vec<u8>) -> Result<Envelope, Problem> {
    let mut mistakes = Vec::new();
    let mut attributes = ce_headers(headers, &mut mistakes);
    let mut needed = |name: &str| {
        attributes.remove(name).unwrap_or_else(|| {
            mistakes.push(format!("the header ce-{name} is missing; every CloudEvent needs one"));
            String::new()
        })
    };
    let specversion = needed("specversion");
    let mut envelope = Envelope::new(needed("type"), body);
    envelope.id = needed("id");
    envelope.source = needed("source");
    if !specversion.is_empty() && specversion != SPECVERSION {
        mistakes.push(format!("ce-specversion must be {SPECVERSION}"));
    }
    envelope.subject = attributes.remove("subject");
    envelope.content_type = content_type(headers).unwrap_or_else(|| "application/octet-stream".to_owned());
    if let Some(time) = attributes.remove("time") {
        match time.parse() {
            Ok(time) => envelope.occurred_at = Some(time),
            Err(error) => mistakes.push(format!("ce-time: {error}")),
        }
    }
    for (name, text) in attributes {
        if name == DATASCHEMA {
            envelope.headers.insert(name, text);
        } else {
            extend(&mut envelope, &name, text).unwrap_or_else(|why| mistakes.push(why));
        }
    }
    if mistakes.is_empty() { Ok(envelope) } else { Err(Problem::new(Kind::Invalid, mistakes.join("; "))) }
}

fn ce_headers(headers: &HeaderMap, mistakes: &mut Vec<String>) -> std::collections::BTreeMap<String, String> {
    let mut attributes = std::collections::BTreeMap::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix("ce-") else { continue };
        match percent::decode(value.as_bytes()) {
            Some(text) if !attributes.contains_key(name) => {
                attributes.insert(name.to_owned(), text);
            }
            Some(_) => mistakes.push(format!("the header ce-{name} is there twice")),
            None => mistakes.push(format!("the header ce-{name} is not percent-encoded UTF-8")),
        }
    }
    attributes
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok().map(str::to_owned)
}

fn extend(envelope: &mut Envelope, name: &str, text: String) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return Err(format!(
            "{name:?} is not the name of an extension attribute; use lower-case letters and digits only"
        ));
    }
    match name {
        KEY => envelope.key = Some(text),
        TOPIC => envelope.topic = text,
        _ => {
            envelope.headers.insert(name.to_owned(), text);
        }
    }
    Ok(())
}

/// An extension's value as text; `None` for null, which is the same as absent.
fn extension_text(value: &RawValue) -> Result<Option<String>, ()> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => serde_json::from_str(text).map(Some).map_err(|_| ()),
        Some(b'{' | b'[') | None => Err(()),
        Some(_) => Ok(Some(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Envelope, Problem> {
        structured(serde_json::from_str(json).unwrap())
    }

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_structured_event_keeps_attributes_and_extensions() {
        let event = read(
            r#"{"specversion":"1.0","type":"order.placed","id":"1","source":"/shop","subject":"s","time":"2026-11-15T21:52:03Z",
                "dataschema":"urn:x","partitionkey":"k","posthastetopic":"orders","traceparent":"00-ab","retries":3,"urgent":true,"gone":null,
                "data":{ "a":"q\"q" }}"#,
        )
        .unwrap();
        assert_eq!(event.payload, br#"{ "a":"q\"q" }"#);
        assert_eq!((event.key.as_deref(), event.topic.as_str()), (Some("k"), "orders"));
        let names: Vec<_> = event.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["dataschema=urn:x", "retries=3", "traceparent=00-ab", "urgent=true"]);
    }

    #[test]
    fn a_structured_event_must_be_complete() {
        let detail = read(r#"{"specversion":"0.3","type":"x","nested":{},"not-a-name":"x"}"#)
            .unwrap_err()
            .document()
            .detail;
        for part in ["specversion must be", "id is missing", "source is missing", "nested", "not-a-name"] {
            assert!(detail.contains(part), "{part:?} is not in {detail}");
        }
    }

    #[test]
    fn a_binary_event_is_its_headers_and_its_body() {
        let list = [
            ("ce-specversion", "1.0"),
            ("ce-type", "order.placed"),
            ("ce-id", "1"),
            ("ce-source", "/shop"),
            ("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("ce-partitionkey", "\"k%22\""),
            ("ce-tracestate", "a=b"),
            ("content-type", "text/xml"),
            ("x-other", "not an attribute"),
        ];
        let event = binary(&headers(&list), vec![0, 255]).unwrap();
        assert_eq!(event.subject.as_deref(), Some("Euro € 😀"));
        assert_eq!(event.key.as_deref(), Some("k\""));
        assert_eq!((event.content_type.as_str(), event.payload.as_slice()), ("text/xml", &[0, 255][..]));
        assert_eq!(event.headers.keys().collect::<Vec<_>>(), ["tracestate"]);
    }

    #[test]
    fn a_binary_event_must_be_complete() {
        let list = [("ce-specversion", "1.0"), ("ce-type", "x"), ("ce-id", "%ff"), ("ce-time", "noon")];
        let detail = binary(&headers(&list), Vec::new()).unwrap_err().document().detail;
        for part in ["ce-id is not percent-encoded UTF-8", "ce-source is missing", "ce-time"] {
            assert!(detail.contains(part), "{part:?} is not in {detail}");
        }
    }
}
