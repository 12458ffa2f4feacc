//! Publishing into the table, for the command line and for tests; producers write their rows themselves.

use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::sql::StoredEvent;
use posthaste_core::table::{Column, PostgresTableSql};
use posthaste_core::time::{Moment, Timestamp};
use posthaste_core::{Error, Result, crash};
use tokio_postgres::types::Type;

use super::super::pool::{begin, commit};
use super::super::value::{Arg, Stamp, arg, args};
use super::claim::read;
use super::{PostgresTable, told};
use crate::store::table::look::{fits, is_same};

impl PostgresTable {
    pub(super) async fn append(&self, events: Vec<Envelope>) -> Result<Vec<Published>> {
        for event in &events {
            event.check(self.payload_bytes_max)?;
        }
        let mut client = self.connections.get().await?;
        let sql = self.sql(&client).await?;
        events.iter().try_for_each(|event| fits(&sql.insert_columns, event))?;
        let tx = begin(&mut client).await?;
        let mut published = Vec::with_capacity(events.len());
        for event in &events {
            match insert(&tx, &sql, event).await {
                Ok(done) => published.push(done),
                Err(error) => {
                    // Ended here and not left to a drop, so that nothing of it is there when the caller hears of it.
                    tx.rollback().await.map_err(super::explain)?;
                    return Err(error);
                }
            }
        }
        crash::point("publish: before commit");
        commit(tx).await?;
        crash::point("publish: after commit");
        if published.contains(&Published::Now) {
            self.signal.ring();
        }
        Ok(published)
    }
}

async fn insert(
    tx: &deadpool_postgres::Transaction<'_>,
    sql: &PostgresTableSql,
    event: &Envelope,
) -> Result<Published> {
    let table = sql.shape().profile.table.to_string();
    let failed = |error| told(error, &table);
    let available = match event.available {
        Some(Moment::At(at)) => Some(Stamp(at)),
        // Counted on the database's clock.
        Some(Moment::In(span)) => Some(Stamp(now(tx).await.map_err(failed)?.after(span))),
        None => None,
    };
    let headers = StoredEvent::headers_column(&event.headers);
    let (version, occurred) = (i64::from(event.version), event.occurred_at.map(Stamp));
    let source = &event.source;
    let content_type = &event.content_type;
    let mut values: Vec<Arg<'_>> =
        vec![arg(&event.id), arg(&event.event_type), arg(&event.payload), arg(&available)];
    for column in &sql.insert_columns {
        values.push(match column {
            Column::Key => arg(&event.key),
            Column::Headers => arg(&headers),
            Column::Topic => arg(&event.topic),
            Column::Source => arg(source),
            Column::Subject => arg(&event.subject),
            Column::ContentType => arg(content_type),
            Column::Version => arg(&version),
            Column::OccurredAt => arg(&occurred),
            _ => (&None::<String>, Type::TEXT),
        });
    }
    if tx.execute_typed(&sql.insert, &values).await.map_err(failed)? > 0 {
        return Ok(Published::Now);
    }
    let there = tx.query_typed(&sql.same, &args![event.id]).await.map_err(failed)?;
    match there.first().map(read).transpose().map_err(failed)? {
        Some(row) if is_same(row.clone(), event) => Ok(Published::Before),
        _ => Err(Error::conflict(format!("the event {} exists with other contents", event.id))),
    }
}

async fn now(
    tx: &deadpool_postgres::Transaction<'_>,
) -> std::result::Result<Timestamp, tokio_postgres::Error> {
    let row = tx.query_typed("SELECT now()", &[]).await?;
    let stamp = row.first().map(|row| row.try_get::<_, Stamp>(0)).transpose()?;
    Ok(stamp.map(|stamp| stamp.0).unwrap_or_default())
}
