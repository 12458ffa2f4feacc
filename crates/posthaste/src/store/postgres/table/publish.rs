//! Publishing into the table, for the command line and for tests; producers write their rows themselves.

use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::sql::StoredEvent;
use posthaste_core::table::{Column, PostgresTableSql};
use posthaste_core::time::{Moment, Timestamp};
use posthaste_core::{Result, crash};
use tokio_postgres::types::Type;

use super::super::error::{Db, explain};
use super::super::pool::{Connection, begin, commit};
use super::super::value::{Arg, Stamp, arg, args};
use super::claim::read;
use super::told;
use crate::store::table::look::published_before;

/// Adds events in one transaction.
pub(super) async fn insert(
    client: &mut Connection,
    sql: &PostgresTableSql,
    events: &[Envelope],
) -> Result<Vec<Published>> {
    let tx = begin(client).await?;
    let mut published = Vec::with_capacity(events.len());
    for event in events {
        match insert_one(&tx, sql, event).await {
            Ok(done) => published.push(done),
            Err(error) => {
                // Ended here and not left to a drop, so that nothing of it is there when the caller hears of it.
                tx.rollback().await.map_err(explain)?;
                return Err(error);
            }
        }
    }
    crash::point("publish: before commit");
    commit(tx).await?;
    crash::point("publish: after commit");
    Ok(published)
}

async fn insert_one(
    tx: &deadpool_postgres::Transaction<'_>,
    sql: &PostgresTableSql,
    event: &Envelope,
) -> Result<Published> {
    let failed = |error| told(error, sql);
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
    published_before(there.first().map(read).transpose().map_err(failed)?, event)
}

async fn now(tx: &deadpool_postgres::Transaction<'_>) -> Db<Timestamp> {
    let row = tx.query_typed("SELECT now()", &[]).await?;
    let stamp = row.first().map(|row| row.try_get::<_, Stamp>(0)).transpose()?;
    Ok(stamp.map(|stamp| stamp.0).unwrap_or_default())
}
