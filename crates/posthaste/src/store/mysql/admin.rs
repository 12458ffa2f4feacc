//! What operators see and do.

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::table::{Asked, MysqlTableSql, MysqlText};
use posthaste_core::time::Timestamp;
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::claim::read;
use super::error::{Db, told};
use super::pool::Connection;
use super::{get, tried};
use crate::store::table::driver::{Counted, Question, Seen, Terminal, Wish};
use crate::store::table::look::Progress;
use crate::store::table::{list, millis};

/// The first column after those of an event.
const STATUS: usize = 18;

pub(super) async fn count(on: &mut Connection, sql: &MysqlTableSql) -> Db<Counted> {
    let rows = on.query(&sql.counts, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let number = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    Ok(Counted {
        fresh: number(0)?,
        waiting: number(1)?,
        delivered: number(2)?,
        dead: number(3)?,
        oldest_fresh_at: get::<Option<i64>>(row, 4)?.map(Timestamp::from_micros),
        unknown: number(5)?,
        discarded: number(6)?,
    })
}

pub(super) async fn find(on: &mut Connection, sql: &MysqlTableSql, question: &Question) -> Db<Vec<Seen>> {
    let Some(which) = which(sql, question) else { return Ok(Vec::new()) };
    let rows = on.query(&sql.find(&which, asked(question)), &values(question)).await?;
    rows.iter().map(seen).collect()
}

pub(super) async fn matched(
    on: &mut Connection,
    sql: &MysqlTableSql,
    question: &Question,
) -> Db<(u64, Timestamp)> {
    let Some(which) = which(sql, question) else { return Ok(Default::default()) };
    let rows = on.query(&sql.find_count(&which, asked(question)), &values(question)).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok((get::<i64>(row, 0)?.unsigned_abs(), Timestamp::from_micros(get(row, 1)?)))
}

pub(super) async fn change(
    on: &mut Connection,
    sql: &MysqlTableSql,
    question: &Question,
    wish: &Wish,
) -> Result<u64> {
    let Some(which) = which(sql, question) else { return Ok(0) };
    let mut asked = asked(question);
    asked.but_due_since = wish.moment().is_some();
    let text = sql.change(&which, asked, wish.change());
    let given = match wish.error() {
        Some(error) => Value::Text(Some(error.to_owned())),
        None => Value::Int(wish.moment().map(Timestamp::as_micros)),
    };
    let values: Vec<Value> = values(question).into_iter().chain([given]).collect();
    tried!(sql, on, on.execute(&text, &values))
}

pub(super) async fn prune(
    on: &mut Connection,
    sql: &MysqlTableSql,
    what: Terminal,
    age: Duration,
    remove: Option<u32>,
) -> Result<u64> {
    let age = Value::Int(Some(millis(age)));
    let (count, delete) = match what {
        Terminal::Delivered => (&sql.count_delivered, &sql.prune_delivered),
        Terminal::Dead => (&sql.count_dead, &sql.prune_dead),
    };
    match remove {
        None => number(on, count, &[age]).await.map_err(|error| told(error, sql)),
        Some(rows) => {
            let values = [age, Value::Int(Some(i64::from(rows)))];
            tried!(sql, on, on.execute(delete, &values))
        }
    }
}

async fn number(on: &mut Connection, text: &MysqlText, values: &[Value]) -> Db<u64> {
    let rows = on.query(text, values).await?;
    get::<i64>(rows.first().ok_or(sqlx::Error::RowNotFound)?, 0).map(i64::unsigned_abs)
}

/// The condition of the question's state; `None` where no row can be in it.
fn which(sql: &MysqlTableSql, question: &Question) -> Option<String> {
    match question.state {
        _ if question.unclaimed => Some(sql.unclaimed()),
        Some(state) => sql.in_state(state),
        None => Some("TRUE".to_owned()),
    }
}

fn asked(question: &Question) -> Asked {
    let mut asked = Asked::default();
    asked.ids = !question.ids.is_empty();
    asked.event_type = question.event_type.is_some();
    asked.key = question.key.is_some();
    asked.since = question.since.is_some();
    asked.until = question.until.is_some();
    asked.after = question.after.is_some();
    asked
}

fn values(question: &Question) -> [Value; 8] {
    let micros = |at: Option<Timestamp>| Value::Int(at.map(Timestamp::as_micros));
    let (after, tie) = question.after.clone().unzip();
    [
        Value::Text(Some(list(&question.ids))),
        Value::Text(question.event_type.clone()),
        Value::Text(question.key.clone()),
        micros(question.since),
        micros(question.until),
        micros(after),
        Value::Text(tie),
        Value::Int(Some(i64::from(question.rows))),
    ]
}

fn seen(row: &MySqlRow) -> Db<Seen> {
    let time = |column| Ok::<_, sqlx::Error>(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros));
    Ok(Seen {
        raw: read(row)?,
        progress: Progress {
            status: get(row, STATUS)?,
            last_error: get(row, STATUS + 1)?,
            changed_at: time(STATUS + 2)?,
            now: time(STATUS + 4)?.unwrap_or_default(),
        },
        payload_bytes: get::<Option<i64>>(row, STATUS + 3)?.map(i64::unsigned_abs),
    })
}
