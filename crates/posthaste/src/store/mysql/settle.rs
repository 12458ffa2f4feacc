//! Recording outcomes, handing back, taking back and publishing.

use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;
use posthaste_core::table::{MysqlTableSql, MysqlText, insert_values};
use posthaste_core::{Result, crash};
use posthaste_sql::Value;
use serde_json::json;

use super::claim::read;
use super::error::{Db, is_duplicate, refused, told};
use super::pool::Connection;
use super::{get, tried};
use crate::store::table::cursor::{Left, Sorted};
use crate::store::table::driver::{Sweep, Swept};
use crate::store::table::look::published_before;
use crate::store::table::{list, millis};

/// Records outcomes, all or none; answers how many rows were recorded and how many renewed.
pub(super) async fn record(on: &mut Connection, sql: &MysqlTableSql, sorted: &Sorted) -> Result<(u64, u64)> {
    tried!(sql, on, record_once(on, sql, sorted), refused)
}

async fn record_once(on: &mut Connection, sql: &MysqlTableSql, sorted: &Sorted) -> Db<(u64, u64)> {
    let is_several = sorted.statements() > 1;
    if is_several {
        on.begin().await?;
    }
    let tokens = Value::Text(Some(list(&sorted.tokens)));
    let (mut recorded, mut renewed) = (0, 0);
    for (text, rows) in by_kind(sql, sorted) {
        let changed = on.execute(text, &[Value::Text(Some(rows)), tokens.clone()]).await?;
        *(if text == &sql.renewed { &mut renewed } else { &mut recorded }) += changed;
    }
    crash::point("settle: before commit");
    if is_several {
        on.commit().await?;
    }
    crash::point("settle: after commit");
    Ok((recorded, renewed))
}

/// The statements that outcomes need, with their rows.
fn by_kind<'a>(sql: &'a MysqlTableSql, sorted: &Sorted) -> Vec<(&'a MysqlText, String)> {
    let Sorted { delivered, retry, dead, released, renewed, .. } = sorted;
    let failures = retry.ids.iter().zip(&retry.after_ms).zip(&retry.errors);
    let failures: Vec<_> = failures.map(|((id, after), error)| json!([id, after, error])).collect();
    let deaths = dead.ids.iter().zip(&dead.errors).zip(&dead.spent);
    let deaths: Vec<_> = deaths.map(|((id, error), spent)| json!([id, error, i32::from(*spent)])).collect();
    [
        (&sql.delivered, delivered.len(), list(delivered)),
        (&sql.retry, failures.len(), json!(failures).to_string()),
        (&sql.dead, deaths.len(), json!(deaths).to_string()),
        (&sql.released, released.len(), list(released)),
        (&sql.renewed, renewed.len(), list(renewed)),
    ]
    .into_iter()
    .filter(|(_, rows, _)| *rows > 0)
    .map(|(text, _, rows)| (text, rows))
    .collect()
}

/// Hands back everything that a lease still holds.
pub(super) async fn hand_back(on: &mut Connection, sql: &MysqlTableSql, left: &Left) -> Result<()> {
    tried!(sql, on, hand_back_once(on, sql, left), refused)
}

async fn hand_back_once(on: &mut Connection, sql: &MysqlTableSql, left: &Left) -> Db<()> {
    let text = |items: &[String]| Value::Text(Some(list(items)));
    if !left.unsure.is_empty() {
        let held = on.query(&sql.held_by, &[text(&left.unsure)]).await?;
        let held = held.iter().map(|row| get(row, 0)).collect::<Db<Vec<String>>>()?;
        on.execute(&sql.released, &[text(&held), text(&left.unsure)]).await?;
    }
    if !left.unsent.is_empty() {
        on.execute(&sql.released, &[text(&left.unsent), text(&left.tokens)]).await?;
    }
    if !left.ids.is_empty() {
        let budget = Value::Int(Some(i64::from(left.budget)));
        on.execute(&sql.abandoned, &[text(&left.ids), text(&left.tokens), budget]).await?;
    }
    Ok(())
}

/// Takes back rows whose lease has ended.
pub(super) async fn sweep(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Result<Swept> {
    tried!(sql, on, sweep_once(on, sql, sweep), refused)
}

/// The id of the first row that a sweep would take back.
pub(super) async fn expired(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Db<Option<String>> {
    Ok(all_expired(on, sql, Sweep { rows: 1, ..sweep }).await?.into_iter().next())
}

async fn all_expired(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Db<Vec<String>> {
    let values = [millis(sweep.lease), i64::from(sweep.rows), i64::from(sweep.passed)];
    let rows = on.query(&sql.expired, &values.map(|int| Value::Int(Some(int)))).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

async fn sweep_once(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Db<Swept> {
    let chosen = all_expired(on, sql, sweep).await?;
    let mut swept = Swept { looked: chosen.len() as u64, ..Swept::default() };
    if chosen.is_empty() {
        return Ok(swept);
    }
    let [lease, budget] = [millis(sweep.lease), i64::from(sweep.budget)].map(|int| Value::Int(Some(int)));
    on.begin().await?;
    let (mut ids, mut dead) = (Vec::new(), 0);
    for row in
        &on.query(&sql.lock_expired, &[Value::Text(Some(list(&chosen))), lease, budget.clone()]).await?
    {
        ids.push(get::<String>(row, 0)?);
        dead += u64::from(get::<i64>(row, 1)? != 0);
    }
    if !ids.is_empty() {
        let locked = Value::Text(Some(list(&ids)));
        on.execute(&sql.sweep, &[locked.clone(), budget]).await?;
        // A trigger may have taken it back.
        let still = on.query(&sql.still, &[locked]).await?;
        swept.stuck = still.first().map_or(Ok(0), |row| get::<i64>(row, 0))?.unsigned_abs();
    }
    on.commit().await?;
    swept.rows = (ids.len() as u64).saturating_sub(swept.stuck);
    swept.dead = swept.rows.min(dead);
    Ok(swept)
}

/// Adds events in one transaction.
pub(super) async fn insert(
    on: &mut Connection,
    sql: &MysqlTableSql,
    events: &[Envelope],
) -> Result<Vec<Published>> {
    on.begin().await.map_err(|error| told(error, sql))?;
    let mut published = Vec::with_capacity(events.len());
    for event in events {
        match insert_one(on, sql, event).await {
            Ok(done) => published.push(done),
            Err(error) => {
                // Ended here and not left to a drop, so that nothing of it is there when the caller hears of it.
                on.undo().await;
                return Err(error);
            }
        }
    }
    crash::point("publish: before commit");
    on.commit().await.map_err(|error| told(error, sql))?;
    crash::point("publish: after commit");
    Ok(published)
}

async fn insert_one(on: &mut Connection, sql: &MysqlTableSql, event: &Envelope) -> Result<Published> {
    match on.execute(&sql.insert, &insert_values(&sql.insert_columns, event)).await {
        Ok(_) => return Ok(Published::Now),
        Err(error) if is_duplicate(&error) => {}
        Err(error) => return Err(told(error, sql)),
    }
    let failed = |error| told(error, sql);
    let there = on.query(&sql.same, &[Value::Text(Some(event.id.clone()))]).await.map_err(failed)?;
    let there = there.first().map(read).transpose().map_err(failed)?;
    published_before(there, event)
}
