//! What the server answers, as entries.

use redis::Value;

use crate::broker::redis::wire::{Fields, unpack};

/// The field in which an entry of the group's own stream has all others.
const PACKED: &[u8] = b"entry";

/// An entry that was handed to us.
#[derive(Debug)]
pub(super) struct Entry {
    /// Which of the feed's streams it is in.
    pub(super) source: usize,
    pub(super) id: String,
    pub(super) fields: Fields,
    /// How often it was handed out and came back without an answer.
    pub(super) returns: u32,
}

/// The entries in an answer to `XREADGROUP`, by the streams' names; nothing when the time passed without any.
pub(super) fn read(answer: Value, source_of: impl Fn(&str) -> Option<usize>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for stream in list(answer) {
        let mut parts = list(stream).into_iter();
        let (Some(name), Some(found)) = (parts.next().and_then(text), parts.next()) else { continue };
        let Some(source) = source_of(&name) else { continue };
        entries.extend(list(found).into_iter().filter_map(|entry| one(entry, source)));
    }
    entries
}

/// What a script found in a stream.
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    /// Where there is more, or what was the last.
    pub(super) cursor: String,
    /// Whether this feed may read the stream.
    pub(super) is_active: bool,
}

/// What a script found in this stream.
pub(super) fn found(answer: Value, source: usize) -> Found {
    let mut parts = list(answer).into_iter();
    let (entries, cursor, active) = (parts.next(), parts.next().and_then(text), parts.next());
    let entries = list(entries.unwrap_or(Value::Nil)).into_iter().filter_map(|entry| one(entry, source));
    Found {
        entries: entries.collect(),
        cursor: cursor.unwrap_or_default(),
        is_active: active.as_ref().and_then(number) == Some(1),
    }
}

/// Entries of a stream that nobody handed out.
pub(super) fn range(answer: Value) -> Vec<(String, Fields)> {
    let entries = list(answer).into_iter().filter_map(|entry| one(entry, 0));
    entries.map(|entry| (entry.id, entry.fields)).collect()
}

fn one(entry: Value, source: usize) -> Option<Entry> {
    let mut parts = list(entry).into_iter();
    let id = parts.next().and_then(text)?;
    // Without fields it was removed from the stream since.
    let fields = pairs(parts.next()?)?;
    let handed_out = match parts.next() {
        Some(Value::Int(count)) => u32::try_from(count).unwrap_or(u32::MAX),
        _ => 1,
    };
    let fields = match fields.as_slice() {
        [(name, packed)] if name == PACKED => unpack(packed).unwrap_or(fields),
        _ => fields,
    };
    Some(Entry { source, id, fields, returns: handed_out.saturating_sub(1) })
}

fn pairs(value: Value) -> Option<Fields> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter().map(bytes);
    let mut fields = Fields::new();
    while let Some(name) = parts.next() {
        fields.push((name, parts.next().unwrap_or_default()));
    }
    Some(fields)
}

pub(super) fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A number in an answer; nothing if it is none.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::redis::wire::pack;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn entries_are_found_in_the_answers() {
        let entry = Value::Array(vec![bulk("1-0"), Value::Array(vec![bulk("a"), bulk("b")])]);
        let removed = Value::Array(vec![bulk("2-0"), Value::Nil]);
        let streams =
            Value::Array(vec![Value::Array(vec![bulk("s"), Value::Array(vec![entry.clone(), removed])])]);
        let found = read(streams, |name| (name == "s").then_some(3));
        assert_eq!((found.len(), found[0].source, found[0].returns), (1, 3, 0));
        assert_eq!(found[0].fields, [(b"a".to_vec(), b"b".to_vec())]);
        assert!(read(Value::Nil, |_| None).is_empty());
        assert_eq!(range(Value::Array(vec![entry]))[0].0, "1-0");
    }

    #[test]
    fn what_was_packed_is_unpacked_and_counted() {
        let fields = vec![(b"id".to_vec(), b"7".to_vec())];
        let packed = Value::Array(vec![bulk("entry"), Value::BulkString(pack(&fields))]);
        let entry = Value::Array(vec![bulk("1-0"), packed, Value::Int(3)]);
        let found = found(Value::Array(vec![Value::Array(vec![entry]), bulk("0-0"), Value::Int(1)]), 1);
        assert_eq!((found.entries[0].fields.clone(), found.entries[0].returns), (fields, 2));
        assert_eq!((found.cursor.as_str(), found.is_active), ("0-0", true));
    }
}
