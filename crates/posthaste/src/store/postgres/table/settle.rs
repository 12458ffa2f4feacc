//! Recording outcomes, handing back and taking back.

use std::pin::pin;

use posthaste_core::table::PostgresTableSql;
use posthaste_core::{Result, crash};
use tokio::time::timeout;

use super::super::error::Db;
use super::super::pool::{ASK_WITHIN, Connection, begin};
use super::super::value::args;
use super::refused;
use crate::store::table::cursor::{Left, Sorted};
use crate::store::table::driver::{Sweep, Swept};
use crate::store::table::millis;
use crate::store::table::refusal::is_refusal;

/// Records outcomes, all or none; answers how many rows were recorded and how many renewed.
pub(super) async fn record(
    client: &mut Connection,
    sql: &PostgresTableSql,
    sorted: &Sorted,
) -> Result<(u64, u64)> {
    let failed = |error| refused(error, sql);
    let changed = if sorted.statements() > 1 {
        let tx = begin(client).await?;
        let changed = by_kind(tx.client(), sql, sorted).await.map_err(failed)?;
        crash::point("settle: before commit");
        // What is checked at the end of a transaction is refused here.
        tx.commit().await.map_err(failed)?;
        changed
    } else {
        crash::point("settle: before commit");
        by_kind(client, sql, sorted).await.map_err(failed)?
    };
    crash::point("settle: after commit");
    Ok(changed)
}

async fn by_kind(on: &tokio_postgres::Client, sql: &PostgresTableSql, sorted: &Sorted) -> Db<(u64, u64)> {
    let Sorted { tokens, delivered, retry, dead, released, renewed, .. } = sorted;
    let (mut recorded, mut again) = (0, 0);
    if !delivered.is_empty() {
        recorded += on.execute_typed(&sql.delivered, &args![*delivered, *tokens]).await?;
    }
    if !retry.ids.is_empty() {
        let values = args![retry.ids, *tokens, retry.after_ms, retry.errors];
        recorded += on.execute_typed(&sql.retry, &values).await?;
    }
    if !dead.ids.is_empty() {
        let values = args![dead.ids, *tokens, dead.errors, dead.spent];
        recorded += on.execute_typed(&sql.dead, &values).await?;
    }
    if !released.is_empty() {
        recorded += on.execute_typed(&sql.released, &args![*released, *tokens]).await?;
    }
    if !renewed.is_empty() {
        again = on.execute_typed(&sql.renewed, &args![*renewed, *tokens]).await?;
    }
    Ok((recorded, again))
}

/// Hands back everything that a lease still holds.
pub(super) async fn hand_back(
    client: &Connection,
    claims: &mut Option<Connection>,
    sql: &PostgresTableSql,
    left: &Left,
) -> Result<()> {
    let Left { ids, unsent, tokens, unsure, budget } = left;
    let failed = |error| refused(error, sql);
    if !unsure.is_empty() && !release_in_turn(claims, sql, unsure).await? {
        client.execute_typed(&sql.released_claims, &args![*unsure]).await.map_err(failed)?;
    }
    if !unsent.is_empty() {
        client.execute_typed(&sql.released, &args![*unsent, *tokens]).await.map_err(failed)?;
    }
    if !ids.is_empty() {
        let budget = i64::from(*budget);
        client.execute_typed(&sql.abandoned, &args![*ids, *tokens, budget]).await.map_err(failed)?;
    }
    Ok(())
}

/// Hands back what unanswered claims took, on their own connection: the server carries that out after them.
///
/// Returns false if that connection cannot do it; then it is closed. Should the server still carry out a
/// claim that was sent on it, the rows of that claim wait until their lease ends.
async fn release_in_turn(
    claims: &mut Option<Connection>,
    sql: &PostgresTableSql,
    unsure: &Vec<String>,
) -> Result<bool> {
    let Some(mut on) = claims.take() else { return Ok(false) };
    // If this future is dropped, the connection is closed and its statement is cancelled.
    on.begin_look();
    let answer = {
        let values = args![*unsure];
        let mut released = pin!(on.execute_typed(&sql.released_claims, &values));
        match timeout(ASK_WITHIN, &mut released).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                // The claim may wait for a lock. Cancelled, it lets its connection answer.
                on.cancel().await;
                timeout(ASK_WITHIN, released).await
            }
        }
    };
    let answer = answer.map(|answer| answer.map_err(|error| refused(error, sql)));
    match answer {
        Ok(answer) if answer.as_ref().err().is_none_or(is_refusal) => {
            on.end_look();
            *claims = Some(on);
            answer.map(|_| true)
        }
        _ => Ok(false),
    }
}

/// Takes back rows whose lease has ended.
pub(super) async fn sweep(client: &Connection, sql: &PostgresTableSql, sweep: Sweep) -> Result<Swept> {
    let [rows, budget, passed] = [sweep.rows, sweep.budget, sweep.passed].map(i64::from);
    let lease = millis(sweep.lease);
    let swept = client.query_typed(&sql.sweep, &args![lease, rows, budget, passed]).await;
    let swept = swept.map_err(|error| refused(error, sql))?;
    let number = |column: usize| -> Result<u64> {
        let number = swept.first().map(|row| row.try_get::<_, i64>(column)).transpose();
        Ok(number.map_err(|error| refused(error, sql))?.unwrap_or_default().unsigned_abs())
    };
    let (locked, rows) = (number(1)?, number(2)?);
    Ok(Swept { looked: number(0)?, rows, dead: number(3)?, stuck: locked.saturating_sub(rows) })
}

/// The id of the first row that a sweep would take back.
pub(super) async fn expired(client: &Connection, sql: &PostgresTableSql, sweep: Sweep) -> Db<Option<String>> {
    let (lease, passed) = (millis(sweep.lease), i64::from(sweep.passed));
    let rows = client.query_typed(&sql.expired_id, &args![lease, passed]).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}
