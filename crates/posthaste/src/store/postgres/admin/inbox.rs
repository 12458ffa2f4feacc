//! Retention of what consumers remember, in small steps of a transaction each.

use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::Client;

use super::prune::STEP_ROWS_MAX;
use crate::store::postgres::error::Db;
use crate::store::postgres::value::{Stamp, args};

/// Removes old rows of the inbox and old idempotency records; answers how many.
pub(super) async fn prune(client: &Client, sql: &PostgresSql, before: Timestamp) -> Db<u64> {
    let mut gone = 0;
    for text in [&sql.inbox_prune, &sql.dedup_prune] {
        loop {
            let step = client.execute_typed(text, &args![Stamp(before), STEP_ROWS_MAX]).await?;
            gone += step;
            if step < STEP_ROWS_MAX.unsigned_abs() {
                break;
            }
        }
    }
    Ok(gone)
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
