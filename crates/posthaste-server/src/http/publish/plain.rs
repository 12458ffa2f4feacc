//! An event as plain JSON with CloudEvents' names: what `curl` and the command line send.

use posthaste::envelope::Envelope;
use posthaste::time::Moment;
use serde_json::value::RawValue;

use super::data;
use super::members::Members;
use crate::http::problem::Problem;

/// The header that carries CloudEvents' `dataschema`, for which an envelope has no place of its own.
pub(super) const DATASCHEMA: &str = "dataschema";

/// Reads one event. The members are those of [`crate::http::wire::NewEvent`]; any other is a mistake.
pub(super) fn read(json: &RawValue, default_source: &str) -> Result<Envelope, Problem> {
    let mut members = Members::read(json)?;
    let mut envelope = Envelope::new(members.needed("type"), Vec::new());
    if let Some(id) = members.text("id") {
        envelope.id = id;
    }
    envelope.source = members.text("source").unwrap_or_else(|| default_source.to_owned());
    if let Some(topic) = members.text("topic") {
        envelope.topic = topic;
    }
    envelope.key = members.text("key");
    envelope.subject = members.text("subject");
    envelope.occurred_at = members.time("time");
    envelope.version = members.version("version").unwrap_or(1);
    if let Some(content_type) = members.text("datacontenttype") {
        envelope.content_type = content_type;
    }
    envelope.headers = members.strings("headers");
    if let Some(schema) = members.text(DATASCHEMA) {
        envelope.headers.insert(DATASCHEMA.to_owned(), schema);
    }
    envelope.payload = data::take(&mut members, &envelope.content_type);
    let (available, expires) = (members.time("available_at"), members.time("expires_at"));
    if available.zip(expires).is_some_and(|(available, expires)| expires <= available) {
        members.mistake("expires_at is not after available_at, so the event would never be delivered");
    }
    envelope.available = available.map(Moment::At);
    envelope.expires = expires.map(Moment::At);
    members.end()?;
    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use posthaste::time::Timestamp;

    use super::*;
    use crate::http::wire::NewEvent;

    fn event(json: &str) -> Result<Envelope, Problem> {
        read(serde_json::from_str(json).unwrap(), "/posthaste")
    }

    fn detail(json: &str) -> String {
        event(json).unwrap_err().document().detail
    }

    #[test]
    fn a_type_is_enough() {
        let envelope = event(r#"{"type":"order.placed"}"#).unwrap();
        assert_eq!((envelope.topic.as_str(), envelope.source.as_str()), ("order.placed", "/posthaste"));
        assert_eq!((envelope.content_type.as_str(), envelope.version), ("application/json", 1));
        assert!(envelope.payload.is_empty() && !envelope.id.is_empty());
    }

    #[test]
    fn the_payload_is_the_text_as_it_was_sent() {
        for data in [r#"{"a":"q\"q"}"#, "{ \"b\":1 ,\n\t\"a\" : [1.00, 1e2] }", "null", "\"\\u00e9\"", "12"] {
            let envelope = event(&format!(r#"{{"type":"x","data": {data} }}"#)).unwrap();
            assert_eq!(String::from_utf8(envelope.payload).unwrap(), data);
        }
    }

    #[test]
    fn a_string_of_another_content_type_gives_its_characters() {
        let envelope = event(r#"{"type":"x","datacontenttype":"text/plain","data":"a\n\"é\""}"#).unwrap();
        assert_eq!(String::from_utf8(envelope.payload).unwrap(), "a\n\"é\"");
        let mistake = detail(r#"{"type":"x","datacontenttype":"text/xml","data":{}}"#);
        assert!(mistake.contains("data must be a string"), "{mistake}");
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let mistakes = detail(
            r#"{"typ":"x","id":7,"time":"yesterday","version":0,"headers":{"a":1},"data":1,"data_base64":"AA==","zzz":null}"#,
        );
        for part in [
            "type is missing",
            "id must be a string",
            "time: ",
            "version must be",
            "headers must be an object whose values are strings",
            "data and data_base64",
            r#"unknown members: "typ", "zzz""#,
        ] {
            assert!(mistakes.contains(part), "{part:?} is not in {mistakes}");
        }
        assert_eq!(detail(r#"{"type":"x","type":"y"}"#), "\"type\" is there twice");
        assert_eq!(detail(r#"{"type":"x","headers":{"a":"1","a":"2"}}"#), "headers has \"a\" twice");
        assert!(detail(r#"{"type":"x","data_base64":"not base64"}"#).contains("not base64"));
        assert!(detail("[1]").contains("JSON object"));
        let never = detail(
            r#"{"type":"x","available_at":"2026-01-02T00:00:00Z","expires_at":"2026-01-01T00:00:00Z"}"#,
        );
        assert!(never.contains("never be delivered"), "{never}");
    }

    #[test]
    fn every_member_that_clients_write_is_understood() {
        let time = Some("2026-11-15T21:52:03Z".to_owned());
        let some = |text: &str| Some(text.to_owned());
        let sent = NewEvent {
            event_type: "order.placed".to_owned(),
            id: some("o-1"),
            source: some("/shop"),
            subject: some("order 1"),
            time: time.clone(),
            topic: some("orders"),
            key: some("1"),
            version: Some(3),
            datacontenttype: some("application/vnd.shop+json"),
            dataschema: some("https://example.org/schema"),
            headers: [("a".to_owned(), "b".to_owned())].into(),
            data: serde_json::from_str("{ }").ok(),
            data_base64: None,
            available_at: time,
            expires_at: some("2026-11-16T21:52:03Z"),
        };
        let read = event(&serde_json::to_string(&sent).unwrap()).unwrap();
        let at = Timestamp::from_micros(1_794_779_523_000_000);
        assert_eq!(
            (read.id.as_str(), read.source.as_str(), read.topic.as_str(), read.version),
            ("o-1", "/shop", "orders", 3)
        );
        assert_eq!((read.key.as_deref(), read.subject.as_deref()), (Some("1"), Some("order 1")));
        assert_eq!((read.occurred_at, read.available), (Some(at), Some(Moment::At(at))));
        assert!(read.expires.is_some());
        assert_eq!(read.headers["dataschema"], "https://example.org/schema");
        assert_eq!(read.payload, b"{ }");
    }
}
