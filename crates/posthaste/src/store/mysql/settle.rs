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
use crate::store::table::driver::Sweep;
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

/// Takes back rows whose lease has ended; answers how many, and how many of them died.
pub(super) async fn sweep(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Result<(u64, u64)> {
    tried!(sql, on, sweep_once(on, sql, &values(sweep)), refused)
}

fn values(sweep: Sweep) -> [Value; 4] {
    let [rows, budget, passed] = [sweep.rows, sweep.budget, sweep.passed].map(i64::from);
    [millis(sweep.lease), rows, budget, passed].map(|int| Value::Int(Some(int)))
}

/// The id of the first row that a sweep would take back.
pub(super) async fn expired(on: &mut Connection, sql: &MysqlTableSql, sweep: Sweep) -> Db<Option<String>> {
    let rows = on.query(&sql.expired, &values(Sweep { rows: 1, ..sweep })).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}

async fn sweep_once(on: &mut Connection, sql: &MysqlTableSql, values: &[Value; 4]) -> Db<(u64, u64)> {
    on.begin().await?;
    let (mut ids, mut dead) = (Vec::new(), 0);
    for row in &on.query(&sql.expired, values).await? {
        ids.push(get::<String>(row, 0)?);
        dead += u64::from(get::<i64>(row, 1)? != 0);
    }
    if !ids.is_empty() {
        on.execute(&sql.sweep, &[Value::Text(Some(list(&ids))), values[2].clone()]).await?;
    }
    on.commit().await?;
    Ok((ids.len() as u64, dead))
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
