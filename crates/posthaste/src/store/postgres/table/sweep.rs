//! Taking back rows whose lease has ended.

use posthaste_core::Result;
use posthaste_core::table::meters;

use super::super::pool::Connection;
use super::super::value::args;
use super::claim::millis;
use super::{Driving, told};
use crate::store::TableOptions;

/// Takes back every row whose lease has ended, a bounded number at a time, until there is none.
pub(super) async fn sweep(client: &Connection, driving: &Driving, options: &TableOptions) -> Result<()> {
    let (cursor, sql) = (&driving.cursor, &driving.sql);
    let (lease, rows) = (millis(cursor.lane.lease), i64::from(options.sweep_rows.max(1)));
    let budget = i64::from(options.attempts_max.max(1));
    let table = sql.shape().profile.table.to_string();
    let (mut swept, mut dead) = (0, 0);
    loop {
        let answered = client.query_typed(&sql.sweep, &args![lease, rows, budget]).await;
        let answered = answered.map_err(|error| told(error, &table))?;
        swept += answered.len() as u64;
        dead += answered.iter().filter(|row| row.try_get(0).unwrap_or(false)).count() as u64;
        if (answered.len() as i64) < rows {
            break;
        }
    }
    if swept > 0 {
        // They are due, and their time lies before the place.
        cursor.look_whole();
        meters::count_swept(cursor.lane.name.as_str(), swept, dead);
        tracing::warn!(
            table,
            rows = swept,
            dead,
            "leases had ended without an answer; their rows are pending again"
        );
    }
    Ok(())
}
