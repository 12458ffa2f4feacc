//! Places in the log.

use posthaste_core::Result;
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::Client;

use super::cursor::StoredPlace;
use super::error::{Db, explain};
use super::rows;
use super::tick::Tick;
use super::value::args;

/// The place before the oldest event, and the highest number ever given.
pub(super) async fn ends(client: &Client, sql: &PostgresSql) -> Db<(i64, i64)> {
    let row = client.query_typed_one(&sql.log_ends, &[]).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// The number just before the first event taken in at or after this time.
///
/// Halves the log instead of asking an index: the times grow with the numbers, but for what a clock that is set back does,
/// and an index would cost every insert.
pub(super) async fn before(client: &Client, sql: &PostgresSql, time: Timestamp) -> Db<i64> {
    let (mut low, mut high) = ends(client, sql).await?;
    // Everything up to `low` is earlier, everything beyond `high` is not.
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let found = client.query_typed_opt(&sql.log_at_or_after, &args![middle]).await?;
        let found = found.map(|row| Ok((row.try_get::<_, i64>(0)?, rows::time(&row, 1)?))).transpose()?;
        match found {
            Some((seq, created_at)) if seq <= high && created_at < time => low = seq,
            // Later, or a stretch without events.
            _ => high = middle - 1,
        }
    }
    Ok(low)
}

/// The place just before the first event taken in at or after this time: what a tick of now sees, up to that number. What
/// commits after the tick is not passed, whatever its number.
pub(super) async fn place_before(client: &Client, sql: &PostgresSql, time: Timestamp) -> Result<StoredPlace> {
    let tick = Tick::now(client, sql).await?;
    let position = before(client, sql, time).await.map_err(explain)?;
    Ok(StoredPlace { tick_a: 0, tick_b: Some(tick.id), position })
}
