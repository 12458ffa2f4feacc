//! Publishing in a transaction of the store's own.

use std::collections::HashSet;

use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::sql::{PostgresSql, StoredEvent};
use posthaste_core::time::{Moment, micros};
use posthaste_core::{Error, Result};
use tokio_postgres::{Row, Transaction};

use super::error::{Db, explain};
use super::rows;
use super::value::{Stamp, args};

/// Events as the columns of one statement.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<&'a str>,
    sources: Vec<&'a str>,
    types: Vec<&'a str>,
    topics: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    subjects: Vec<Option<&'a str>>,
    versions: Vec<i64>,
    content_types: Vec<&'a str>,
    headers: Vec<String>,
    occurred_at: Vec<Option<Stamp>>,
    available_at: Vec<Option<Stamp>>,
    available_in: Vec<Option<i64>>,
    expires_at: Vec<Option<Stamp>>,
    expires_in: Vec<Option<i64>>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, event: &'a Envelope) {
        let (available_at, available_in) = moment(event.available);
        let (expires_at, expires_in) = moment(event.expires);
        self.ids.push(&event.id);
        self.sources.push(&event.source);
        self.types.push(&event.event_type);
        self.topics.push((event.topic != event.event_type).then_some(event.topic.as_str()));
        self.keys.push(event.key.as_deref());
        self.subjects.push(event.subject.as_deref());
        self.versions.push(i64::from(event.version));
        self.content_types.push(&event.content_type);
        self.headers.push(StoredEvent::headers_column(&event.headers));
        self.occurred_at.push(event.occurred_at.map(Stamp));
        self.available_at.push(available_at);
        self.available_in.push(available_in);
        self.expires_at.push(expires_at);
        self.expires_in.push(expires_in);
        self.payloads.push(&event.payload);
    }
}

/// A time, or how long after the database takes the event in.
fn moment(moment: Option<Moment>) -> (Option<Stamp>, Option<i64>) {
    match moment {
        Some(Moment::At(at)) => (Some(Stamp(at)), None),
        Some(Moment::In(span)) => (None, Some(micros(span).min(SPAN_MICROS_MAX))),
        None => (None, None),
    }
}

/// A hundred thousand years: beyond what anybody means, inside what the database can add to now.
const SPAN_MICROS_MAX: i64 = 3_155_760_000_000_000_000;

/// Appends these events, all or none; an error means that the transaction must end without a commit.
pub(super) async fn publish(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    events: &[Envelope],
) -> Result<Vec<Published>> {
    let mut columns = Columns::default();
    events.iter().for_each(|event| columns.push(event));
    let values = args![
        columns.ids,
        columns.sources,
        columns.types,
        columns.topics,
        columns.keys,
        columns.subjects,
        columns.versions,
        columns.content_types,
        columns.headers,
        columns.occurred_at,
        columns.available_at,
        columns.available_in,
        columns.expires_at,
        columns.expires_in,
        columns.payloads,
    ];
    let inserted = tx.query_typed(&sql.event_insert, &values).await.map_err(explain)?;
    let identity = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let mut new =
        inserted.iter().map(identity).collect::<Db<HashSet<(String, String)>>>().map_err(explain)?;
    let mut published = Vec::with_capacity(events.len());
    for event in events {
        // The first of its identity in this call is the one that was stored.
        if new.remove(&(event.id.clone(), event.source.clone())) {
            published.push(Published::Now);
        } else if is_same(tx, sql, event).await.map_err(explain)? {
            published.push(Published::Before);
        } else {
            return Err(Error::conflict(format!(
                "the event {:?} of source {:?} exists with other contents; nothing of this call was stored",
                event.id, event.source
            )));
        }
    }
    Ok(published)
}

/// Whether the stored event of this identity says the same. Times are not compared, as a second try has other ones; nor
/// is a payload that was erased, as nobody knows any more what it was.
async fn is_same(tx: &Transaction<'_>, sql: &PostgresSql, event: &Envelope) -> Db<bool> {
    let row = tx.query_typed_opt(&sql.event_same, &args![event.id, event.source]).await?;
    let Some(row) = row else { return Ok(false) };
    let stored = rows::event(&row)?;
    let is_erased = stored.payload_bytes.is_none();
    let stored = stored.envelope;
    Ok(stored.event_type == event.event_type
        && stored.topic == event.topic
        && stored.key == event.key
        && stored.subject == event.subject
        && stored.version == event.version
        && stored.content_type == event.content_type
        && stored.headers == event.headers
        && (is_erased || stored.payload == event.payload))
}
