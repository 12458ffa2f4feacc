//! An event as an entry of a stream, in the fields that relays of the open-outbox specification write:
//!
//! | field | holds |
//! |---|---|
//! | `id` | the event's id |
//! | `payload` | its payload, byte by byte |
//! | `partition_key` | its key, if it has one |
//! | `h:<name>` | a header |
//!
//! CloudEvents has no binding for Redis. In the binary form every attribute is a header `ce_<name>`, the content type among them;
//! in the structured form `payload` is the JSON object and the header `content-type` says so.

use posthaste_core::envelope::{Envelope, Headers};
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, Result};
use redis::Cmd;

use super::settings::{Publishing, Settings};
use crate::broker::cloudevents::{
    DATASCHEMA, Format, STRUCTURED, UNKNOWN_CONTENT, attributes, is_event, of_attributes, of_structured,
    structured,
};
use crate::broker::story::{OURS, Story};

const ID: &str = "id";
const PAYLOAD: &str = "payload";
const KEY: &str = "partition_key";
/// What the fields of headers begin with.
const HEADER: &str = "h:";
/// What the headers of CloudEvents attributes begin with.
const ATTRIBUTE: &str = "ce_";
const CONTENT_TYPE: &str = "content-type";
const DATA_CONTENT_TYPE: &str = "datacontenttype";

/// The fields of an entry, as they are in the stream.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The command that adds an event to its stream.
///
/// # Errors
/// `Rejected` for a header whose name would be mistaken for something else, `TooLarge` for a payload over the limit: faults of
/// this event alone.
pub(super) fn encode(parcel: &Parcel, settings: &Settings) -> Result<Cmd, DeliverError> {
    let (envelope, publishing) = (&parcel.envelope, &settings.publishing);
    let text = (publishing.format == Format::Structured).then(|| structured(parcel));
    let payload = text.as_deref().unwrap_or(&envelope.payload);
    check(envelope, publishing, payload.len() as u64)?;
    let mut command = Cmd::with_capacity(32, payload.len() + 512);
    command.arg("XADD").arg(settings.stream_of(&envelope.topic));
    if let Some(most) = publishing.maxlen {
        command.arg("MAXLEN").arg("~").arg(most);
    }
    command.arg("*").arg(ID).arg(&envelope.id).arg(PAYLOAD).arg(payload);
    if let Some(key) = &envelope.key {
        command.arg(KEY).arg(key);
    }
    let mut header = |name: [&str; 2], value: &str| {
        command.arg([HEADER, name[0], name[1]].concat()).arg(value);
    };
    match publishing.format {
        Format::Binary => {
            attributes(parcel, |name, value| header([ATTRIBUTE, name], value));
            header([ATTRIBUTE, DATA_CONTENT_TYPE], &envelope.content_type);
        }
        Format::Structured => header([CONTENT_TYPE, ""], STRUCTURED),
        Format::Raw => {}
    }
    for (name, value) in &envelope.headers {
        if name != DATASCHEMA || publishing.format == Format::Raw {
            header([name, ""], value);
        }
    }
    Ok(command)
}

fn check(envelope: &Envelope, publishing: &Publishing, size: u64) -> Result<(), DeliverError> {
    // Without attributes of ours whoever wrote the event has written all of its headers.
    let is_taken = |name: &&String| match publishing.format {
        Format::Binary => name.starts_with(ATTRIBUTE),
        Format::Structured => name.starts_with(ATTRIBUTE) || *name == CONTENT_TYPE,
        Format::Raw => false,
    };
    if let Some(name) = envelope.headers.keys().find(is_taken) {
        let what = format!("the header {name:?} would be mistaken for a part of the CloudEvent");
        return Err(DeliverError::new(DeliverKind::Rejected, "redis header", what));
    }
    let limit = publishing.message_bytes_max;
    if size > limit {
        let what = format!("the payload has {size} bytes, the limit is {limit} (message_bytes_max)");
        return Err(DeliverError::new(DeliverKind::TooLarge, "too large", what));
    }
    Ok(())
}

/// Makes an event of an entry of this topic's stream.
///
/// # Errors
/// `Rejected` with what is wrong with it: such an entry is no event, and will never be.
pub(super) fn decode(fields: &Fields, topic: &str) -> Result<Envelope> {
    let (mut attributes, mut headers) = (Headers::new(), Headers::new());
    for (name, value) in fields {
        let Some(name) = name.strip_prefix(HEADER.as_bytes()) else { continue };
        let (name, value) = (words(name)?, words(value)?);
        match name.strip_prefix(ATTRIBUTE) {
            Some(attribute) => attributes.insert(attribute.to_owned(), value),
            None => headers.insert(name, value),
        };
    }
    let payload = field(fields, PAYLOAD).unwrap_or_default();
    let is_structured = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.starts_with(STRUCTURED));
    if is_event(&attributes) {
        let content_type = attributes.remove(DATA_CONTENT_TYPE);
        let mut envelope = of_attributes(&mut attributes)?;
        envelope.content_type = content_type.unwrap_or_else(|| UNKNOWN_CONTENT.to_owned());
        envelope.headers = attributes;
        envelope.headers.extend(headers);
        envelope.payload = payload.to_vec();
        return Ok(envelope);
    }
    if is_structured {
        headers.remove(CONTENT_TYPE);
        let mut envelope = of_structured(payload)?;
        envelope.headers.extend(headers);
        return Ok(envelope);
    }
    headers.extend(attributes.into_iter().map(|(name, value)| ([ATTRIBUTE, &name].concat(), value)));
    raw(fields, topic, headers, payload)
}

fn raw(fields: &Fields, topic: &str, headers: Headers, payload: &[u8]) -> Result<Envelope> {
    let id = field(fields, ID).filter(|id| !id.is_empty()).ok_or_else(|| {
        Error::rejected(
            "it has no field id, so nobody could tell whether it was handled; let its producer set one",
        )
    })?;
    let mut envelope = Envelope::new(topic, payload.to_vec());
    envelope.id = words(id)?;
    envelope.key = field(fields, KEY).map(words).transpose()?;
    envelope.content_type = headers.get(CONTENT_TYPE).cloned().unwrap_or_else(|| UNKNOWN_CONTENT.to_owned());
    envelope.headers = headers;
    Ok(envelope)
}

fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|(found, _)| found == name.as_bytes()).map(|(_, value)| value.as_slice())
}

fn words(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|error| Error::rejected("a field holds what is no text").because(error))
}

/// What an entry that is no event can still be shown as.
pub(super) fn as_far_as_it_goes(fields: &Fields, topic: &str) -> Envelope {
    let mut envelope = Envelope::new(topic, field(fields, PAYLOAD).unwrap_or_default().to_vec());
    envelope.id = String::from_utf8_lossy(field(fields, ID).unwrap_or_default()).into_owned();
    envelope
}

/// A field as text, if it is there.
pub(super) fn text(fields: &Fields, name: &str) -> Option<String> {
    field(fields, name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// The same fields with this story, and with no other.
pub(super) fn with_story(mut fields: Fields, story: &Story) -> Fields {
    fields.retain(|(name, _)| !name.starts_with(OURS.as_bytes()));
    let entries = story.entries().into_iter();
    fields.extend(entries.map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes())));
    fields
}

/// All fields in one value, for entries of our own streams: a script can move it without looking into it.
pub(super) fn pack(fields: &Fields) -> Vec<u8> {
    let size = fields.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
    let mut packed = Vec::with_capacity(size);
    for part in fields.iter().flat_map(|(name, value)| [name, value]) {
        // Redis has no value of 4 GiB.
        packed.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        packed.extend_from_slice(part);
    }
    packed
}

/// The fields in a value; `None` if it was not made by [`pack`].
pub(super) fn unpack(mut packed: &[u8]) -> Option<Fields> {
    let mut fields = Fields::new();
    while !packed.is_empty() {
        fields.push((part(&mut packed)?, part(&mut packed)?));
    }
    Some(fields)
}

fn part(packed: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = packed.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *packed = rest;
    Some(part.to_vec())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_core::time::Timestamp;
    use redis::Arg;

    use super::*;

    fn settings(query: &str) -> Settings {
        format!("redis://h?{query}").parse().unwrap()
    }

    fn event() -> Envelope {
        let mut event = Envelope::new("order.placed", (0..=255).collect::<Vec<u8>>());
        event.id = "id-ünï-🦀".to_owned();
        event.source = "/shop".to_owned();
        event.topic = "orders".to_owned();
        event.key = Some("key-日本".to_owned());
        event.version = 7;
        event.content_type = "application/x-law".to_owned();
        event.headers.insert("Mixed-Case".to_owned(), "värde".to_owned());
        event.headers.insert("dataschema".to_owned(), "urn:x".to_owned());
        event.occurred_at = Some(Timestamp::from_micros(1_767_225_600_250_000));
        event
    }

    fn written(event: &Envelope, query: &str) -> Result<Vec<Vec<u8>>, DeliverError> {
        let parcel = Parcel::new(Arc::new(event.clone()), 1, false, Timestamp::default());
        let command = encode(&parcel, &settings(query))?;
        let simple = |arg: Arg<&[u8]>| match arg {
            Arg::Simple(bytes) => bytes.to_vec(),
            _ => panic!("a cursor"),
        };
        Ok(command.args_iter().map(simple).collect())
    }

    fn fields(event: &Envelope, query: &str) -> Fields {
        let args = written(event, query).unwrap();
        let star = args.iter().position(|arg| arg == b"*").unwrap();
        args[star + 1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    #[test]
    fn what_was_encoded_is_decoded_unchanged() {
        for format in ["binary", "structured"] {
            let query = format!("format={format}");
            assert_eq!(decode(&fields(&event(), &query), "orders").unwrap(), event(), "{format}");
        }
    }

    #[test]
    fn consumers_of_other_relays_find_what_they_know() {
        for format in ["binary", "raw"] {
            let fields = fields(&event(), &format!("format={format}"));
            assert_eq!(text(&fields, "id").unwrap(), event().id);
            assert_eq!(text(&fields, "partition_key").unwrap(), "key-日本");
            assert_eq!(text(&fields, "h:Mixed-Case").unwrap(), "värde");
            assert_eq!(field(&fields, "payload").unwrap(), event().payload);
        }
        let args = written(&event(), "prefix=shop:&maxlen=9&format=raw").unwrap();
        assert_eq!(args[..5].join(&b' '), b"XADD shop:orders MAXLEN ~ 9");
    }

    #[test]
    fn a_raw_entry_is_what_the_stream_and_its_fields_say() {
        let seen = decode(&fields(&event(), "format=raw"), "orders").unwrap();
        assert_eq!((seen.id, seen.key, seen.payload), (event().id, event().key, event().payload));
        assert_eq!((seen.event_type.as_str(), seen.topic.as_str()), ("orders", "orders"));
        let strange = vec![(b"what".to_vec(), b"ever".to_vec())];
        assert!(decode(&strange, "orders").unwrap_err().to_string().contains("no field id"));
        let binary = vec![(b"id".to_vec(), b"\xff".to_vec())];
        assert!(decode(&binary, "orders").is_err());
        assert_eq!(as_far_as_it_goes(&strange, "orders").topic, "orders");
    }

    #[test]
    fn what_would_be_mistaken_or_is_too_large_is_refused_alone() {
        let mut odd = event();
        odd.headers.insert("ce_id".to_owned(), "x".to_owned());
        assert_eq!(written(&odd, "").unwrap_err().kind, DeliverKind::Rejected);
        let mut odd = event();
        odd.headers.insert("content-type".to_owned(), "x".to_owned());
        assert!(written(&odd, "").is_ok());
        assert_eq!(written(&odd, "format=structured").unwrap_err().kind, DeliverKind::Rejected);
        odd.headers.insert("ce_id".to_owned(), "x".to_owned());
        let seen = decode(&fields(&odd, "format=raw"), "orders").unwrap();
        assert_eq!(
            (&seen.id, &seen.headers),
            (&odd.id, &odd.headers),
            "in the raw form they are the event's own"
        );
        let large = written(&event(), "message_bytes_max=255").unwrap_err();
        assert_eq!((large.kind, large.code.as_str()), (DeliverKind::TooLarge, "too large"));
    }

    #[test]
    fn packed_fields_are_unpacked_and_nothing_else_is() {
        let fields = vec![(b"a".to_vec(), (0..=255).collect()), (Vec::new(), Vec::new())];
        let packed = pack(&fields);
        assert_eq!(unpack(&packed), Some(fields));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(b"\xff\xff\xff\xff"), None);
        assert_eq!(unpack(b"x"), None);
    }
}
