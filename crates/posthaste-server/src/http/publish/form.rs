//! The ways in which a request carries events, told by its headers, and how each is read.

use axum::http::{HeaderMap, header};
use posthaste::envelope::Envelope;
use posthaste::limits::BATCH_EVENTS_MAX;
use serde_json::value::RawValue;

use super::{cloudevents, plain};
use crate::http::problem::{Kind, Problem};

/// How a request carries its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `application/json` (or nothing said): an event with CloudEvents' names, or an array of them.
    Plain,
    /// `application/cloudevents+json`: one event.
    Structured,
    /// `application/cloudevents-batch+json`: an array.
    Batch,
    /// `ce-` headers: the body is the payload.
    Binary,
}

/// Events as they came: an array is answered as one, even an array of one.
#[derive(Debug)]
pub(super) enum Events {
    /// One event.
    One(Box<Envelope>),
    /// A batch, all or nothing.
    Many(Vec<Envelope>),
}

impl Form {
    /// The form that these headers say.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        // Storing a compressed body as if it were the payload would change what consumers get.
        if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Problem::new(
                Kind::UnsupportedMediaType,
                "send the body without Content-Encoding; compressed bodies are not understood",
            ));
        }
        let content_type = match headers.get(header::CONTENT_TYPE) {
            None => String::new(),
            Some(value) => value.to_str().map(str::to_ascii_lowercase).map_err(|_| unsupported())?,
        };
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type == "application/cloudevents+json" {
            Ok(Self::Structured)
        } else if media_type == "application/cloudevents-batch+json" {
            Ok(Self::Batch)
        } else if media_type.starts_with("application/cloudevents") {
            Err(unsupported())
        } else if headers.keys().any(|name| name.as_str().starts_with("ce-")) {
            Ok(Self::Binary)
        } else if media_type.is_empty() || media_type == "application/json" {
            Ok(Self::Plain)
        } else {
            Err(unsupported())
        }
    }

    /// Reads the events that this body carries.
    pub(super) fn read(
        self,
        headers: &HeaderMap,
        body: Vec<u8>,
        default_source: &str,
    ) -> Result<Events, Problem> {
        match self {
            Self::Binary => cloudevents::binary(headers, body).map(|event| Events::One(Box::new(event))),
            Self::Structured => {
                cloudevents::structured(json(&body)?).map(|event| Events::One(Box::new(event)))
            }
            Self::Batch => batch(&body, cloudevents::structured),
            Self::Plain if body.trim_ascii_start().starts_with(b"[") => {
                batch(&body, |event| plain::read(event, default_source))
            }
            Self::Plain => {
                plain::read(json(&body)?, default_source).map(|event| Events::One(Box::new(event)))
            }
        }
    }
}

fn batch(body: &[u8], read: impl Fn(&RawValue) -> Result<Envelope, Problem>) -> Result<Events, Problem> {
    let json = json(body)?;
    if !json.get().starts_with('[') {
        return Err(Problem::new(Kind::Invalid, "a batch is a JSON array of events"));
    }
    let list: Vec<&RawValue> = serde_json::from_str(json.get()).map_err(|error| malformed(&error))?;
    if list.is_empty() {
        return Err(Problem::new(Kind::Invalid, "the batch is empty; send at least one event"));
    }
    if list.len() > BATCH_EVENTS_MAX {
        return Err(Problem::new(
            Kind::TooLarge,
            format!("the batch has {} events, the limit is {BATCH_EVENTS_MAX}; send several", list.len()),
        ));
    }
    let numbered = list.into_iter().enumerate();
    let events = numbered.map(|(index, event)| read(event).map_err(|problem| problem.in_event(index + 1)));
    events.collect::<Result<_, _>>().map(Events::Many)
}

fn json(body: &[u8]) -> Result<&RawValue, Problem> {
    serde_json::from_slice(body).map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Kind::Malformed, format!("the body is not JSON: {error}"))
}

fn unsupported() -> Problem {
    Problem::new(
        Kind::UnsupportedMediaType,
        "send application/json, application/cloudevents+json, application/cloudevents-batch+json, or ce- headers with any other content type",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(list: &[(&'static str, &'static str)]) -> Result<Form, Problem> {
        let headers: HeaderMap =
            list.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Form::of(&headers)
    }

    #[test]
    fn headers_tell_the_form() {
        let ce = ("ce-id", "1");
        assert_eq!(form(&[]).unwrap(), Form::Plain);
        assert_eq!(form(&[("content-type", "Application/JSON; charset=utf-8")]).unwrap(), Form::Plain);
        assert_eq!(form(&[("content-type", "application/json"), ce]).unwrap(), Form::Binary);
        assert_eq!(form(&[("content-type", "image/png"), ce]).unwrap(), Form::Binary);
        let structured = ("content-type", "application/cloudevents+json;charset=utf-8");
        assert_eq!(form(&[structured, ce]).unwrap(), Form::Structured);
        assert_eq!(form(&[("content-type", "application/cloudevents-batch+json")]).unwrap(), Form::Batch);
        for unknown in ["application/cloudevents+avro", "text/plain", "application/x-www-form-urlencoded"] {
            let problem = form(&[("content-type", unknown)]).unwrap_err();
            assert_eq!(problem.kind(), Kind::UnsupportedMediaType, "{unknown}");
        }
        let compressed = form(&[("content-encoding", "gzip"), ce]).unwrap_err();
        assert_eq!(compressed.kind(), Kind::UnsupportedMediaType);
    }

    #[test]
    fn a_batch_names_the_event_that_is_wrong() {
        let read = |body: &str| Form::Plain.read(&HeaderMap::new(), body.into(), "/p");
        let problem = read(r#" [{"type":"a"},{"typ":"b"}]"#).unwrap_err().document();
        assert!(problem.detail.starts_with("event 2 of the batch: type is missing"), "{}", problem.detail);
        assert_eq!(read("[]").unwrap_err().kind(), Kind::Invalid);
        assert_eq!(read("{").unwrap_err().kind(), Kind::Malformed);
        let many = |count| format!("[{}]", vec![r#"{"type":"a"}"#; count].join(","));
        assert!(matches!(read(&many(1_000)), Ok(Events::Many(events)) if events.len() == 1_000));
        assert_eq!(read(&many(1_001)).unwrap_err().kind(), Kind::TooLarge);
    }
}
