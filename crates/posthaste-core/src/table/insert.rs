//! An event as a row of an outbox table.

use posthaste_sql::Value;

use super::Column;
use crate::envelope::Envelope;
use crate::sql::StoredEvent;
use crate::time::{Moment, micros};
use crate::{Error, Result};

/// What the table has no column for must not be lost silently.
///
/// # Errors
/// `Rejected` with what would be lost.
pub fn fits(columns: &[Column], event: &Envelope) -> Result<()> {
    let used = [
        (Column::Topic, event.topic != event.event_type),
        (Column::Key, event.key.is_some()),
        (Column::Subject, event.subject.is_some()),
        (Column::Headers, !event.headers.is_empty()),
    ];
    if let Some((column, _)) =
        used.into_iter().find(|(column, is_used)| *is_used && !columns.contains(column))
    {
        return Err(Error::rejected(format!("the table has no column for the event's {}", column.name())));
    }
    if event.expires.is_some() {
        return Err(Error::rejected("the table has no column for the time at which the event expires"));
    }
    Ok(())
}

/// The values of an event's row: id, type, payload, when it is available, in how long it is, and these columns. Times are
/// microseconds since 1970.
pub fn insert_values(columns: &[Column], event: &Envelope) -> Vec<Value> {
    let (at, span) = match event.available {
        Some(Moment::At(at)) => (Some(at.as_micros()), None),
        // Counted on the database's clock.
        Some(Moment::In(span)) => (None, Some(micros(span))),
        None => (None, None),
    };
    let mut values = vec![
        Value::Text(Some(event.id.clone())),
        Value::Text(Some(event.event_type.clone())),
        Value::Bytes(Some(event.payload.clone())),
        Value::Int(at),
        Value::Int(span),
    ];
    values.extend(columns.iter().map(|column| match column {
        Column::Key => Value::Text(event.key.clone()),
        Column::Headers => Value::Text(Some(StoredEvent::headers_column(&event.headers))),
        Column::Topic => Value::Text(Some(event.topic.clone())),
        Column::Source => Value::Text(Some(event.source.clone())),
        Column::Subject => Value::Text(event.subject.clone()),
        Column::ContentType => Value::Text(Some(event.content_type.clone())),
        Column::Version => Value::Int(Some(i64::from(event.version))),
        Column::OccurredAt => Value::Int(event.occurred_at.map(|at| at.as_micros())),
        _ => Value::Text(None),
    }));
    values
}
