//! Reading rows: by column number, and never in a way that one odd row can stop a lane.

use posthaste_core::admin::{EventState, LaneState};
use posthaste_core::envelope::Envelope;
use posthaste_core::sql::StoredEvent;
use posthaste_core::time::Timestamp;
use tokio_postgres::Row;

use super::error::Db;
use super::value::Stamp;

/// An event as it is delivered.
pub(super) struct LogRow {
    pub(super) seq: i64,
    pub(super) envelope: Envelope,
    pub(super) created_at: Timestamp,
    /// How long the payload is; `None` after an erasure.
    pub(super) payload_bytes: Option<u64>,
    /// The payload is not in this row.
    pub(super) is_long: bool,
}

/// The columns that are looked at before an event is read as a whole.
pub(super) const EVENT_TYPE: usize = 3;
pub(super) const TOPIC: usize = 4;
pub(super) const KEY: usize = 5;
pub(super) const AVAILABLE_AT: usize = 11;
pub(super) const EXPIRES_AT: usize = 12;
pub(super) const CREATED_AT: usize = 13;
const PAYLOAD: usize = 14;
const PAYLOAD_BYTES: usize = 15;
/// The first column after those of an event.
pub(super) const MORE: usize = 16;

/// Reads an event from the columns that `event_get.sql` and its sisters name.
pub(super) fn event(row: &Row) -> Db<LogRow> {
    let headers: &str = row.try_get(9)?;
    let payload: Option<&[u8]> = row.try_get(PAYLOAD)?;
    let payload_bytes = row.try_get::<_, Option<i64>>(PAYLOAD_BYTES)?.map(i64::unsigned_abs);
    let created_at = time(row, CREATED_AT)?;
    let stored = StoredEvent {
        id: row.try_get(1)?,
        source: row.try_get(2)?,
        event_type: row.try_get(EVENT_TYPE)?,
        topic: row.try_get(TOPIC)?,
        key: row.try_get(KEY)?,
        subject: row.try_get(6)?,
        version: u32::try_from(row.try_get::<_, i64>(7)?).unwrap_or(1),
        content_type: row.try_get(8)?,
        headers: StoredEvent::headers(headers),
        payload: payload.unwrap_or_default().to_vec(),
        occurred_at: time(row, 10)?,
        available_at: maybe_time(row, AVAILABLE_AT)?,
        expires_at: maybe_time(row, EXPIRES_AT)?,
    };
    let is_long = payload.is_none() && payload_bytes.is_some();
    Ok(LogRow { seq: row.try_get(0)?, envelope: stored.into_envelope(), created_at, payload_bytes, is_long })
}

pub(super) fn time(row: &Row, column: usize) -> Db<Timestamp> {
    Ok(row.try_get::<_, Stamp>(column)?.0)
}

pub(super) fn maybe_time(row: &Row, column: usize) -> Db<Option<Timestamp>> {
    Ok(row.try_get::<_, Option<Stamp>>(column)?.map(|stamp| stamp.0))
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
