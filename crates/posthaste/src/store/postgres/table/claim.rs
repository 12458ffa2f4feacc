//! Claiming rows.

use posthaste_core::Result;
use posthaste_core::table::PostgresTableSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::Row;

use super::super::error::Db;
use super::super::pool::{Connection, begin};
use super::super::rows::maybe_time;
use super::super::value::{Arg, Stamp, args};
use super::{refused, told};
use crate::store::table::cursor::Look;
use crate::store::table::driver::Ask;
use crate::store::table::row::RawRow;

/// To look for earlier rows of a key, the planner would rather read the whole table, as it expects none; and the sum of what it
/// expects makes it compile the statement for longer than it runs.
const BY_SCAN: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off";
/// Where the key has an index: only a plain scan of it leaves a mark at entries of rows that are gone, and the next one passes them.
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
     SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off";

/// Leases rows and reads them, as an UPDATE answers: in the order in which it came by them.
pub(super) async fn claim(
    client: &mut Connection,
    sql: &PostgresTableSql,
    ask: Ask<'_>,
) -> Result<Vec<RawRow>> {
    let failed = |error| told(error, sql);
    let rows = take(client, sql, ask).await?;
    rows.iter().map(read).collect::<Db<_>>().map_err(failed)
}

/// The id of the first row that this claim would take. The server plans it as it likes: it is asked only after a refusal.
pub(super) async fn due(client: &Connection, sql: &PostgresTableSql, ask: Ask<'_>) -> Db<Option<String>> {
    let text = sql.due(ask.is_ordered, ask.look == Look::Whole);
    let rows = client.query_typed(&text, &Values::of(ask).args()).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}

/// What a claim is asked with.
struct Values {
    token: String,
    events: i64,
    bytes: i64,
    place: Stamp,
    mine: Vec<String>,
    slow: Vec<String>,
    passed: Vec<String>,
}

impl Values {
    fn of(ask: Ask<'_>) -> Self {
        let (mine, slow) = if ask.is_ordered { ask.cursor.mine() } else { Default::default() };
        let place = match ask.look {
            Look::Since(place) => place,
            Look::Whole => Timestamp::from_micros(0),
        };
        Self {
            token: ask.token.to_string(),
            events: i64::from(ask.room.events),
            bytes: i64::try_from(ask.room.bytes).unwrap_or(i64::MAX),
            place: Stamp(place),
            mine,
            slow,
            passed: ask.passed.to_vec(),
        }
    }

    fn args(&self) -> [Arg<'_>; 7] {
        args![self.token, self.events, self.bytes, self.place, self.mine, self.slow, self.passed]
    }
}

async fn take(client: &mut Connection, sql: &PostgresTableSql, ask: Ask<'_>) -> Result<Vec<Row>> {
    let values = Values::of(ask);
    let values = values.args();
    let text = match (ask.is_ordered, ask.look) {
        (false, Look::Since(_)) => &sql.claim,
        (false, Look::Whole) => &sql.claim_from_start,
        (true, Look::Since(_)) => &sql.claim_ordered,
        (true, Look::Whole) => &sql.claim_ordered_from_start,
    };
    let failed = |error| refused(error, sql);
    if !ask.is_ordered {
        return client.query_typed(text, &values).await.map_err(failed);
    }
    let tx = begin(client).await?;
    // Sent together: each comes after the one before it, and the last sees what the lock's last holder committed.
    let (told, locked, rows) = tokio::join!(
        tx.batch_execute(if sql.has_order_index { BY_INDEX } else { BY_SCAN }),
        tx.query_typed(&sql.order_lock, &[]),
        tx.query_typed(text, &values)
    );
    told.map_err(failed)?;
    locked.map_err(failed)?;
    let rows = rows.map_err(failed)?;
    // What is checked at the end of a transaction is refused here.
    tx.commit().await.map_err(failed)?;
    Ok(rows)
}

/// Reads the columns of an event.
pub(super) fn read(row: &Row) -> Db<RawRow> {
    Ok(RawRow {
        id: row.try_get(0)?,
        event_type: row.try_get(1)?,
        topic: row.try_get(2)?,
        key: row.try_get(3)?,
        headers: row.try_get(4)?,
        payload: row.try_get(5)?,
        attempts: row.try_get::<_, Option<i64>>(6)?.unwrap_or_default(),
        created_at: maybe_time(row, 7)?.unwrap_or_default(),
        available_at: maybe_time(row, 8)?,
        source: row.try_get(9)?,
        subject: row.try_get(10)?,
        content_type: row.try_get(11)?,
        version: row.try_get(12)?,
        occurred_at: maybe_time(row, 13)?,
        sequence: row.try_get(14)?,
        trace_id: row.try_get(15)?,
        correlation_id: row.try_get(16)?,
        last_error: row.try_get(17)?,
        wrong: None,
    })
}
