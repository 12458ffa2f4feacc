//! Publishing in a commit that is shared with whoever publishes at the same time.

use std::path::Path;

use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::sql::{SqliteSql, StoredEvent};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use rusqlite::{Connection, OptionalExtension};

use super::error::explain;
use super::rows;

/// Appends these events, all or none; an error rolls back what was appended here.
pub(super) fn publish(
    connection: &Connection,
    sql: &SqliteSql,
    path: &Path,
    events: &[Envelope],
    now: Timestamp,
) -> Result<Vec<Published>> {
    let mut published = Vec::with_capacity(events.len());
    for event in events {
        let is_new = insert(connection, sql, event, now).map_err(|error| explain(error, path))?;
        if !is_new && !is_same(connection, sql, event).map_err(|error| explain(error, path))? {
            return Err(Error::conflict(format!(
                "the event {:?} of source {:?} exists with other contents; nothing of this call was stored",
                event.id, event.source
            )));
        }
        published.push(if is_new { Published::Now } else { Published::Before });
    }
    Ok(published)
}

fn insert(
    connection: &Connection,
    sql: &SqliteSql,
    event: &Envelope,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let rows = connection.prepare_cached(&sql.event_insert)?.execute(rusqlite::params![
        event.id,
        event.source,
        event.event_type,
        (event.topic != event.event_type).then_some(&event.topic),
        event.key,
        event.subject,
        event.version,
        event.content_type,
        StoredEvent::headers_column(&event.headers),
        event.occurred_at.unwrap_or(now).as_micros(),
        event.available.map(|moment| moment.resolve(now).as_micros()),
        event.expires.map(|moment| moment.resolve(now).as_micros()),
        now.as_micros(),
        event.payload,
    ])?;
    Ok(rows == 1)
}

/// Whether the stored event of this identity says the same. Times are not compared, as a second try has other ones; nor
/// is a payload that was erased, as nobody knows any more what it was.
fn is_same(connection: &Connection, sql: &SqliteSql, event: &Envelope) -> rusqlite::Result<bool> {
    let read = |row: &rusqlite::Row<'_>| {
        let is_erased = matches!(row.get_ref(rows::PAYLOAD)?, rusqlite::types::ValueRef::Null);
        Ok((rows::event(row)?.envelope, is_erased))
    };
    let mut statement = connection.prepare_cached(&sql.event_same)?;
    let Some((stored, is_erased)) = statement.query_row((&event.id, &event.source), read).optional()? else {
        return Ok(false);
    };
    Ok(stored.event_type == event.event_type
        && stored.topic == event.topic
        && stored.key == event.key
        && stored.subject == event.subject
        && stored.version == event.version
        && stored.content_type == event.content_type
        && stored.headers == event.headers
        && (is_erased || stored.payload == event.payload))
}
