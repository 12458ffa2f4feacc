//! Recording outcomes, and handing back.

use posthaste_core::store::{Settled, Standing};
use posthaste_core::table::meters;
use posthaste_core::{Error, Result, crash};

use super::super::pool::{Connection, begin, commit};
use super::super::value::args;
use super::{Driving, told};
use crate::store::table::cursor::{Left, Sorted};

/// How many rows were changed.
#[derive(Clone, Copy, Default)]
struct Changed {
    recorded: u64,
    renewed: u64,
}

/// Records outcomes, all or none, and renews what is old.
pub(super) async fn settle(
    client: &mut Connection,
    driving: &Driving,
    outcomes: Vec<Settled>,
) -> Result<Standing> {
    let cursor = &driving.cursor;
    let sorted = cursor.sort(outcomes);
    let changed = if sorted.statements() > 1 {
        let tx = begin(client).await?;
        let changed = record(tx.client(), driving, &sorted).await?;
        crash::point("settle: before commit");
        commit(tx).await?;
        changed
    } else {
        crash::point("settle: before commit");
        record(client, driving, &sorted).await?
    };
    crash::point("settle: after commit");
    cursor.recorded(&sorted);
    let lost = sorted.outcomes() + sorted.unknown - changed.recorded.min(sorted.outcomes());
    if lost > 0 {
        meters::count_lost(cursor.lane.name.as_str(), lost);
        tracing::warn!(
            rows = lost,
            "leases of rows were lost before their outcome came; somebody else has them"
        );
    }
    Ok(sorted.standing(changed.recorded, changed.renewed))
}

async fn record(on: &tokio_postgres::Client, driving: &Driving, sorted: &Sorted) -> Result<Changed> {
    let sql = &driving.sql;
    let failed = |error| told(error, &sql.shape().profile.table.to_string());
    let Sorted { tokens, delivered, retry, dead, released, renewed, .. } = sorted;
    let mut changed = Changed::default();
    if !delivered.is_empty() {
        changed.recorded +=
            on.execute_typed(&sql.delivered, &args![*delivered, *tokens]).await.map_err(failed)?;
    }
    if !retry.ids.is_empty() {
        let values = args![retry.ids, *tokens, retry.after_ms, retry.errors];
        changed.recorded += on.execute_typed(&sql.retry, &values).await.map_err(failed)?;
    }
    if !dead.ids.is_empty() {
        let values = args![dead.ids, *tokens, dead.errors, dead.spent];
        changed.recorded += on.execute_typed(&sql.dead, &values).await.map_err(failed)?;
    }
    if !released.is_empty() {
        changed.recorded +=
            on.execute_typed(&sql.released, &args![*released, *tokens]).await.map_err(failed)?;
    }
    if !renewed.is_empty() {
        changed.renewed = on.execute_typed(&sql.renewed, &args![*renewed, *tokens]).await.map_err(failed)?;
    }
    Ok(changed)
}

/// Hands back everything that a lease still holds. What claims took that were never answered goes back unsent, on their own
/// connection, which comes after them; what was sent and not answered counts as an attempt.
pub(super) async fn hand_back(client: &Connection, driving: &Driving) -> Result<()> {
    let claims = driving.claims.lock().await;
    let Left { ids, tokens, unsure } = driving.cursor.left();
    let sql = &driving.sql;
    let failed =
        |error: tokio_postgres::Error| -> Error { told(error, &sql.shape().profile.table.to_string()) };
    if !unsure.is_empty() {
        let on = claims.as_ref().unwrap_or(client);
        on.execute_typed(&sql.released_claims, &args![unsure]).await.map_err(failed)?;
    }
    if !ids.is_empty() {
        client.execute_typed(&sql.abandoned, &args![ids, tokens]).await.map_err(failed)?;
    }
    driving.cursor.forget();
    Ok(())
}
