//! Retention of what consumers remember, in small steps of a transaction each.

use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::change::Step;
use super::prune::STEP_ROWS_MAX;
use crate::store::postgres::error::Db;
use crate::store::postgres::value::{Stamp, args};

/// Where a prune begins: at the inbox. The idempotency records come after it.
pub(super) const FIRST: i64 = 0;
const RECORDS: i64 = 1;

/// Removes the next old rows of the inbox, then old idempotency records.
pub(super) async fn prune_step(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    at: i64,
    before: Timestamp,
) -> Db<Step> {
    let (text, after) =
        if at == FIRST { (&sql.inbox_prune, Some(RECORDS)) } else { (&sql.dedup_prune, None) };
    let gone = tx.execute_typed(text, &args![Stamp(before), STEP_ROWS_MAX]).await?;
    let next = if gone == STEP_ROWS_MAX.unsigned_abs() { Some(at) } else { after };
    Ok(Step { matched: gone, changed: gone, next })
}

/// Counts what would go.
pub(super) async fn count(client: &Client, sql: &PostgresSql, before: Timestamp) -> Db<u64> {
    let mut matched = 0;
    for text in [&sql.inbox_count, &sql.dedup_count] {
        let count: i64 = client.query_typed_one(text, &args![Stamp(before)]).await?.try_get(0)?;
        matched += count.unsigned_abs();
    }
    Ok(matched)
}
