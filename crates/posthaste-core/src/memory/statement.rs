//! Reads the few statements that a producer and a consumer send: the outbox's insert, the inbox's, and savepoints.

use posthaste_sql::{SqlError, Statement, Value};

use crate::envelope::Envelope;
use crate::time::{Moment, Timestamp};

/// The values of one row, in the order in which the outbox writes them.
const VALUES_PER_ROW: usize = 15;

/// Consumer, event id, source.
pub(super) type InboxRow = (String, String, String);

/// A statement, understood.
pub(super) enum Understood {
    Insert { events: Vec<Envelope>, once: bool },
    Inbox(Vec<InboxRow>),
    Savepoint(String),
    RollbackTo(String),
}

pub(super) fn understand(statement: Statement) -> Result<Understood, SqlError> {
    let sql = statement.sql.trim();
    let once = sql.ends_with("ON CONFLICT DO NOTHING");
    if let Some(name) = sql.strip_prefix("SAVEPOINT ") {
        return Ok(Understood::Savepoint(name.to_owned()));
    }
    if let Some(name) = sql.strip_prefix("ROLLBACK TO SAVEPOINT ") {
        return Ok(Understood::RollbackTo(name.to_owned()));
    }
    if sql.starts_with("INSERT INTO ") && sql.contains("inbox (consumer, event_id, source) VALUES") {
        return Ok(Understood::Inbox(inbox_rows(statement.values)?));
    }
    if !sql.starts_with("INSERT INTO ") || !statement.values.len().is_multiple_of(VALUES_PER_ROW) {
        return Err(SqlError::message(format!("the memory backend does not understand {sql:?}")));
    }
    let mut values = statement.values.into_iter();
    let mut events = Vec::new();
    while values.len() > 0 {
        events.push(envelope(&mut values)?);
    }
    Ok(Understood::Insert { events, once })
}

fn inbox_rows(values: Vec<Value>) -> Result<Vec<InboxRow>, SqlError> {
    let mut values = values.into_iter();
    let mut rows = Vec::new();
    while values.len() > 0 {
        rows.push((
            required(text(&mut values)?)?,
            required(text(&mut values)?)?,
            required(text(&mut values)?)?,
        ));
    }
    Ok(rows)
}

/// The next row as an event.
fn envelope(values: &mut std::vec::IntoIter<Value>) -> Result<Envelope, SqlError> {
    let source = required(text(values)?)?;
    let id = required(text(values)?)?;
    let mut envelope = Envelope::new(required(text(values)?)?, Vec::new());
    envelope.source = source;
    envelope.id = id;
    if let Some(topic) = text(values)? {
        envelope.topic = topic;
    }
    envelope.key = text(values)?;
    envelope.subject = text(values)?;
    envelope.version = u32::try_from(required(int(values)?)?).map_err(SqlError::new)?;
    envelope.content_type = required(text(values)?)?;
    envelope.headers = serde_json::from_str(&required(text(values)?)?).map_err(SqlError::new)?;
    envelope.payload = required(bytes(values)?)?;
    envelope.occurred_at = int(values)?.map(Timestamp::from_micros);
    envelope.available = moment(int(values)?, int(values)?);
    envelope.expires = moment(int(values)?, int(values)?);
    Ok(envelope)
}

fn moment(at: Option<i64>, after: Option<i64>) -> Option<Moment> {
    let after = after.map(|micros| Moment::In(std::time::Duration::from_micros(micros.unsigned_abs())));
    at.map(|micros| Moment::At(Timestamp::from_micros(micros))).or(after)
}

fn required<T>(value: Option<T>) -> Result<T, SqlError> {
    value.ok_or_else(|| SqlError::message("a column that must have a value is null"))
}

fn other_type() -> SqlError {
    SqlError::message("a value has another type than its column")
}

fn text(values: &mut std::vec::IntoIter<Value>) -> Result<Option<String>, SqlError> {
    match values.next() {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(other_type()),
    }
}

fn int(values: &mut std::vec::IntoIter<Value>) -> Result<Option<i64>, SqlError> {
    match values.next() {
        Some(Value::Int(int)) => Ok(int),
        _ => Err(other_type()),
    }
}

fn bytes(values: &mut std::vec::IntoIter<Value>) -> Result<Option<Vec<u8>>, SqlError> {
    match values.next() {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(other_type()),
    }
}
