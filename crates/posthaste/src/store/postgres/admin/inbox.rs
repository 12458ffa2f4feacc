//! Retention of what consumers remember on a server, in small steps of a transaction each.

use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Transaction};

use super::prune::STEP_ROWS_MAX;
use crate::store::log::driver::{Place, Step};
use crate::store::postgres::error::Db;
use crate::store::postgres::value::{Stamp, args};

/// Removes the next old rows of the inbox, then old idempotency records.
pub(super) async fn step(tx: &Transaction<'_>, sql: &PostgresSql, at: &Place, before: Timestamp) -> Db<Step> {
    let is_inbox = *at == Place::First;
    let (text, after) =
        if is_inbox { (&sql.inbox_prune, Some(Place::Rest)) } else { (&sql.dedup_prune, None) };
    let gone = tx.execute_typed(text, &args![Stamp(before), STEP_ROWS_MAX]).await?;
    let next = if gone == STEP_ROWS_MAX.unsigned_abs() { Some(at.clone()) } else { after };
    Ok(Step::changed(gone, next))
}

/// Counts what would go.
pub(super) async fn count(client: &Client, sql: &PostgresSql, before: Timestamp) -> Db<Step> {
    let mut matched = 0;
    for text in [&sql.inbox_count, &sql.dedup_count] {
        let count: i64 = client.query_typed_one(text, &args![Stamp(before)]).await?.try_get(0)?;
        matched += count.unsigned_abs();
    }
    Ok(Step::counted(matched, None))
}
