//! Reading rows: by column number, and never in a way that one odd row can stop a lane.

use posthaste_core::admin::{EventState, LaneState};
use posthaste_core::envelope::Envelope;
use posthaste_core::sql::StoredEvent;
use posthaste_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// An event as it is delivered.
pub(super) struct LogRow {
    pub(super) envelope: Envelope,
    pub(super) created_at: Timestamp,
}

/// The column of [`event`] that holds the payload, or its length.
pub(super) const PAYLOAD: usize = 14;
/// The column of `log_read.sql` that says whether the payload must be fetched.
pub(super) const PAYLOAD_IS_LONG: usize = 15;
/// The columns of [`event`] that decide about an event before it is read as a whole.
pub(super) const EVENT_TYPE: usize = 3;
pub(super) const TOPIC: usize = 4;
pub(super) const KEY: usize = 5;
pub(super) const AVAILABLE_AT: usize = 11;
pub(super) const EXPIRES_AT: usize = 12;

/// Reads an event from the columns that `event_get.sql` and its sisters name.
pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let mut read = without_payload(row)?;
    read.envelope.payload = match row.get_ref(PAYLOAD)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    };
    Ok(read)
}

/// The same, but for the payload, which stays empty.
pub(super) fn without_payload(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let headers = match row.get_ref(9)? {
        ValueRef::Text(b"{}") => posthaste_core::envelope::Headers::new(),
        other => StoredEvent::headers(&lossy(other).unwrap_or_default()),
    };
    let stored = StoredEvent {
        id: text(row, 1)?,
        source: text(row, 2)?,
        event_type: text(row, EVENT_TYPE)?,
        topic: maybe_text(row, TOPIC)?,
        key: maybe_text(row, KEY)?,
        subject: maybe_text(row, 6)?,
        version: row.get(7)?,
        content_type: text(row, 8)?,
        headers,
        payload: Vec::new(),
        occurred_at: time(row, 10)?,
        available_at: maybe_time(row, AVAILABLE_AT)?,
        expires_at: maybe_time(row, EXPIRES_AT)?,
    };
    Ok(LogRow { envelope: stored.into_envelope(), created_at: time(row, 13)? })
}

/// A text; bytes that are no UTF-8 are replaced, as a plain-SQL producer can store any.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(maybe_text(row, column)?.unwrap_or_default())
}

pub(super) fn maybe_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(lossy(row.get_ref(column)?))
}

/// Borrows a text where that is possible, for decisions that need no copy.
pub(super) fn text_ref<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    })
}

fn lossy(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        }),
        _ => None,
    }
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// The state of a parked row, as operators see it.
pub(super) fn seen(parked_state: &str) -> EventState {
    match parked_state {
        "scheduled" => EventState::Scheduled,
        "behind" => EventState::Behind,
        "leased" => EventState::Delivering,
        "dead" => EventState::Dead,
        "discarded" => EventState::Discarded,
        "done" => EventState::Delivered,
        _ => EventState::Retrying,
    }
}

/// The state in a lane's row.
pub(super) fn lane_state(text: &str) -> LaneState {
    LaneState::named(text).unwrap_or(LaneState::Error)
}
