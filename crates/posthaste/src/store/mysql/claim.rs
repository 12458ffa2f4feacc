//! Claiming rows: `SELECT … FOR UPDATE SKIP LOCKED`, `UPDATE` and `SELECT`, in one transaction.
//!
//! MariaDB's `UPDATE` neither skips locked rows nor answers them. One with `ORDER BY … LIMIT` and a token
//! would wait for every other relay, and finding its rows by the token would need an index on `locked_by`.
//! Under `READ COMMITTED` the server locks no gaps, so producers never wait for a claim.
//!
//! In order per key, claims follow a named lock (`GET_LOCK`). Rows that a claim only looks at are not locked,
//! and those that it leases are.

mod order;

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::table::{MysqlTableSql, MysqlText};
use posthaste_core::time::Timestamp;
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;
use tokio::time::{Instant, sleep};

use super::error::{Db, explain, number, refused};
use super::pool::{Connection, Connections};
use super::{get, tried};
use crate::store::table::cursor::Look;
use crate::store::table::driver::Ask;
use crate::store::table::list;
use crate::store::table::row::RawRow;

/// How long to wait until the server has ended a connection.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// `ER_NO_SUCH_THREAD`.
const NO_SUCH_CONNECTION: u16 = 1094;
const ENDED_LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long to wait for another relay's claim in order.
const ORDER_LOCK_SECONDS: u32 = 5;

/// Leases rows and reads them.
pub(super) async fn claim(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Result<Vec<RawRow>> {
    tried!(sql, on, claim_once(on, sql, ask), refused)
}

/// The id of the first row that this claim would take. What it locks is free again with the answer, as no transaction is open.
pub(super) async fn due(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Option<String>> {
    Ok(pick(on, sql, ask).await?.into_iter().next())
}

async fn claim_once(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Vec<RawRow>> {
    if ask.is_ordered {
        return one_after_another(on, sql, ask).await;
    }
    on.begin().await?;
    let rows = take(on, sql, ask).await?;
    on.commit().await?;
    Ok(rows)
}

/// Claims in order come one after another: one that began before another committed would not see what that one holds.
///
/// The lock and the transaction begin and end by one message each: a relay that stands still between them would keep the lock,
/// while one that stands still in a transaction is ended by the server.
async fn one_after_another(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Vec<RawRow>> {
    // Only letters, digits, underscores and a dot are in it.
    let name = format!("SHA1(CONCAT(DATABASE(), ' {}'))", sql.order_lock);
    let got = on.begin_after(&format!("SELECT GET_LOCK({name}, {ORDER_LOCK_SECONDS})")).await?;
    let is_free = got.first().map(|row| get::<Option<i64>>(row, 0)).transpose()?.flatten() == Some(1);
    let taken = if is_free {
        take(on, sql, ask).await
    } else {
        // Somebody else's claim takes its time; this one looks again later.
        ask.cursor.miss();
        Ok(Vec::new())
    };
    let end = if taken.is_ok() { "COMMIT" } else { "ROLLBACK" };
    on.end_with(end, &format!("DO RELEASE_LOCK({name})")).await?;
    taken
}

async fn take(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Vec<RawRow>> {
    let picked = pick(on, sql, ask).await?;
    if picked.is_empty() {
        return Ok(Vec::new());
    }
    let values = [Value::Text(Some(list(&picked))), Value::Text(Some(ask.token.to_string()))];
    on.execute(&sql.take, &values).await?;
    on.query(&sql.read, &values).await?.iter().map(read).collect()
}

/// As many as fit; one always does.
async fn pick(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Vec<String>> {
    if ask.is_ordered {
        return Ok(fitting(order::free(on, sql, ask).await?, ask.room.bytes));
    }
    let passed = padded(ask.passed.iter().map(String::as_str));
    let text = sql.pick(ask.look == Look::Whole, passed.len());
    let mut values = vec![Value::Int(Some(i64::from(ask.room.events))), place(ask)];
    values.extend(passed);
    let rows = on.query(&text, &values).await?;
    let picked = rows.iter().map(|row| Ok((get(row, 0)?, get::<i64>(row, 1)?.unsigned_abs())));
    Ok(fitting(picked.collect::<Db<Vec<_>>>()?, ask.room.bytes))
}

fn fitting(rows: Vec<(String, u64)>, room: u64) -> Vec<String> {
    let (mut picked, mut bytes) = (Vec::new(), 0_u64);
    for (id, weight) in rows {
        bytes = bytes.saturating_add(weight);
        if bytes > room && !picked.is_empty() {
            break;
        }
        picked.push(id);
    }
    picked
}

/// As many values as the next power of two, the last one again and again: statements are kept prepared by their text.
fn padded<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Vec<Value> {
    let count = texts.len();
    let mut values: Vec<Value> = texts.map(|text| Value::Text(Some(text.to_owned()))).collect();
    if let Some(last) = values.last().cloned() {
        values.resize(count.next_power_of_two(), last);
    }
    values
}

/// Where the look begins, in microseconds since 1970.
fn place(ask: Ask<'_>) -> Value {
    Value::Int(Some(match ask.look {
        Look::Since(place) => place.as_micros(),
        Look::Whole => 0,
    }))
}

/// Ends the connection of a claim that was dropped half-way, and waits until the server has: what it was about to commit is
/// then committed or rolled back, and can be found by its token.
pub(super) async fn end(connections: &Connections, kept: &mut Option<Connection>) -> Result<()> {
    let cut = kept.as_ref().filter(|connection| !connection.is_usable());
    let Some(name) = cut.map(|connection| connection.name().to_owned()) else { return Ok(()) };
    let mut on = connections.get().await?;
    let (began, mut is_told) = (Instant::now(), false);
    while let Some(id) = holder(&mut on, &name).await.map_err(explain)? {
        if !is_told {
            match on.say(&format!("KILL CONNECTION {id}")).await {
                Ok(()) => is_told = true,
                // It is gone already.
                Err(error) if number(&error) == Some(NO_SUCH_CONNECTION) => break,
                Err(error) => return Err(explain(error)),
            }
        }
        if began.elapsed() >= ENDED_WITHIN {
            tracing::warn!(
                "the server takes its time to end a connection; what it held waits for its lease to end"
            );
            break;
        }
        sleep(ENDED_LOOK_EVERY).await;
    }
    // Not before: whoever is dropped on the way must be able to do it again.
    *kept = None;
    Ok(())
}

/// Which connection holds the lock of this name, by the server's number.
async fn holder(on: &mut Connection, name: &str) -> Db<Option<i64>> {
    let text = MysqlText { text: "SELECT IS_USED_LOCK(?)".to_owned(), order: vec![0] };
    let rows = on.query(&text, &[Value::Text(Some(name.to_owned()))]).await?;
    rows.first().map_or(Ok(None), |row| get(row, 0))
}

/// Reads the columns of an event.
pub(super) fn read(row: &MySqlRow) -> Db<RawRow> {
    let time =
        |column: usize| Ok::<_, sqlx::Error>(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros));
    Ok(RawRow {
        id: get(row, 0)?,
        event_type: get(row, 1)?,
        topic: get(row, 2)?,
        key: get(row, 3)?,
        headers: get(row, 4)?,
        payload: get(row, 5)?,
        attempts: get::<Option<i64>>(row, 6)?.unwrap_or_default(),
        created_at: time(7)?.unwrap_or_default(),
        available_at: time(8)?,
        source: get(row, 9)?,
        subject: get(row, 10)?,
        content_type: get(row, 11)?,
        version: get(row, 12)?,
        occurred_at: time(13)?,
        sequence: get(row, 14)?,
        trace_id: get(row, 15)?,
        correlation_id: get(row, 16)?,
        last_error: get(row, 17)?,
        wrong: None,
    })
}
