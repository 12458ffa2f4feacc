//! Publishing into the table, for the command line and for tests; producers write their rows themselves.

use posthaste_core::Result;
use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::sql::StoredEvent;
use posthaste_core::table::{Column, SqliteTableSql};
use posthaste_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::work::{read, text};
use crate::store::table::look::published_before;

/// Adds an event.
pub(super) fn insert(
    connection: &Connection,
    sql: &SqliteTableSql,
    event: &Envelope,
    now: Timestamp,
) -> rusqlite::Result<Result<Published>> {
    let optional = |text: Option<String>| text.map_or(Value::Null, Value::from);
    let available = event.available.map(|moment| text(moment.resolve(now)));
    let mut values = vec![
        Value::from(event.id.clone()),
        Value::from(event.event_type.clone()),
        Value::from(event.payload.clone()),
        optional(available),
        Value::from(text(now)),
    ];
    for column in &sql.insert_columns {
        values.push(match column {
            Column::Key => optional(event.key.clone()),
            Column::Headers => Value::from(StoredEvent::headers_column(&event.headers)),
            Column::Topic => Value::from(event.topic.clone()),
            Column::Source => Value::from(event.source.clone()),
            Column::Subject => optional(event.subject.clone()),
            Column::ContentType => Value::from(event.content_type.clone()),
            Column::Version => Value::from(i64::from(event.version)),
            Column::OccurredAt => optional(event.occurred_at.map(text)),
            _ => Value::Null,
        });
    }
    if connection.prepare_cached(&sql.insert)?.execute(params_from_iter(values))? > 0 {
        return Ok(Ok(Published::Now));
    }
    let there = connection.prepare_cached(&sql.same)?.query_row([&event.id], read).optional()?;
    Ok(published_before(there, event))
}
