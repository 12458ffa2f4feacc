//! What operators see and do.

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::admin::{Actor, Applied};
use posthaste_core::review::{AuditEntry, AuditPicker};
use posthaste_core::table::{Asked, AuditSql, MysqlTableSql, MysqlText, topic_expression};
use posthaste_core::time::Timestamp;
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::claim::read;
use super::dedup::plain;
use super::error::Db;
use super::pool::Connection;
use super::{get, tried};
use crate::store::table::driver::{Question, Seen, Terminal, Wish};
use crate::store::table::ledger::Ledger;
use crate::store::table::look::Progress;
use crate::store::table::{list, millis};

/// The first column after those of an event.
const STATUS: usize = 18;
/// How many records are read together.
const STEP_ENTRIES: usize = 500;

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

/// Changes rows and leaves a record in one transaction.
pub(super) async fn change(
    on: &mut Connection,
    (sql, audit): (&MysqlTableSql, &AuditSql),
    question: &Question,
    wish: &Wish,
    ledger: &mut Ledger,
) -> Result<u64> {
    let Some(which) = which(sql, question) else { return Ok(0) };
    let mut asked = asked(question);
    asked.but_due_since = wish.moment().is_some();
    let text = sql.change(&which, asked, wish.change());
    let token = wish.token(sql.shape());
    let given = match (&token, wish.error()) {
        (Some(token), _) => Value::Text(Some(token.clone())),
        (None, Some(error)) => Value::Text(Some(error.to_owned())),
        (None, None) => Value::Int(wish.moment().map(Timestamp::as_micros)),
    };
    let values: Vec<Value> = values(question).into_iter().chain([given]).collect();
    let burial = token.zip(wish.error()).map(|(token, error)| Burial { sql, token, error });
    tried!(sql, on, step(on, audit, (&text, &values), burial.as_ref(), ledger))
}

/// What follows where rows were taken to be buried.
struct Burial<'a> {
    sql: &'a MysqlTableSql,
    token: String,
    error: &'a str,
}

impl Burial<'_> {
    async fn carry_out(&self, on: &mut Connection) -> Db<()> {
        let tokens = Value::Text(Some(list(std::slice::from_ref(&self.token))));
        let held = on.query(&self.sql.held_by, std::slice::from_ref(&tokens)).await?;
        let held = held.iter().map(|row| get(row, 0)).collect::<Db<Vec<String>>>()?;
        let values = [Value::Text(Some(list(&held))), tokens, Value::Text(Some(self.error.to_owned()))];
        on.execute(&self.sql.buried, &values).await.map(drop)
    }
}

/// Removes rows and leaves a record in one transaction.
pub(super) async fn prune(
    on: &mut Connection,
    (sql, audit): (&MysqlTableSql, &AuditSql),
    (what, age): (Terminal, Duration),
    rows: u32,
    ledger: &mut Ledger,
) -> Result<u64> {
    let delete = match what {
        Terminal::Delivered => &sql.prune_delivered,
        Terminal::Dead => &sql.prune_dead,
    };
    let values = [Value::Int(Some(millis(age))), Value::Int(Some(i64::from(rows)))];
    tried!(sql, on, step(on, audit, (delete, &values), None, ledger))
}

/// One step of a command. Only what is committed is in the ledger.
async fn step(
    on: &mut Connection,
    audit: &AuditSql,
    (text, values): (&MysqlText, &[Value]),
    burial: Option<&Burial<'_>>,
    ledger: &mut Ledger,
) -> Db<u64> {
    let mut page = ledger.clone();
    on.begin().await?;
    let changed = on.execute(text, values).await?;
    if let Some(burial) = burial {
        burial.carry_out(on).await?;
    }
    if let Some(entry) = page.after(changed) {
        write_record(on, audit, &entry).await?;
    }
    on.commit().await?;
    *ledger = page;
    Ok(changed)
}

pub(super) async fn count_old(
    on: &mut Connection,
    sql: &MysqlTableSql,
    what: Terminal,
    age: Duration,
) -> Db<u64> {
    let count = match what {
        Terminal::Delivered => &sql.count_delivered,
        Terminal::Dead => &sql.count_dead,
    };
    number(on, count, &[Value::Int(Some(millis(age)))]).await
}

/// The name of the table for the record of commands, if there is one.
pub(super) async fn record_table(on: &mut Connection, audit: &AuditSql) -> Db<Option<String>> {
    Ok((number(on, &plain(&audit.exists), &[]).await? > 0).then(|| audit.table.clone()))
}

pub(super) async fn write_record(on: &mut Connection, audit: &AuditSql, entry: &AuditEntry) -> Db<()> {
    let count = |count: u64| Value::Int(Some(i64::try_from(count).unwrap_or(i64::MAX)));
    let AuditEntry { actor, command, filter, applied, .. } = entry;
    let texts = [&actor.name, &actor.via, command, filter].map(|text| Value::Text(Some(text.clone())));
    let values: Vec<Value> =
        texts.into_iter().chain([count(applied.matched), count(applied.changed)]).collect();
    on.execute(&plain(&audit.insert), &values).await.map(drop)
}

/// Shows the record to the picker until that has seen enough.
pub(super) async fn pick(on: &mut Connection, audit: &AuditSql, picker: &mut AuditPicker) -> Db<()> {
    loop {
        let values = [picker.below(), STEP_ENTRIES as i64].map(|int| Value::Int(Some(int)));
        let rows = on.query(&plain(&audit.down), &values).await?;
        for row in &rows {
            if picker.see(entry(row)?).is_break() {
                return Ok(());
            }
        }
        if rows.len() != STEP_ENTRIES {
            return Ok(());
        }
    }
}

fn entry(row: &MySqlRow) -> Db<AuditEntry> {
    let count = |column: usize| get::<i64>(row, column).map(|count| count.max(0).unsigned_abs());
    let actor = Actor::new(get::<String>(row, 2)?, get::<String>(row, 3)?);
    let (command, filter): (String, String) = (get(row, 4)?, get(row, 5)?);
    let applied = Applied::new(count(6)?, count(7)?);
    Ok(AuditEntry::new(get(row, 0)?, Timestamp::from_micros(get(row, 1)?), actor, command, filter, applied))
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
    asked.code = question.code.is_some();
    asked.error = question.error.is_some();
    asked.topic = question.topic.is_some();
    asked
}

fn values(question: &Question) -> [Value; 11] {
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
        Value::Text(question.code.clone()),
        Value::Text(question.error.clone()),
        Value::Text(question.topic.as_ref().map(topic_expression)),
    ]
}

fn seen(row: &MySqlRow) -> Db<Seen> {
    let time = |column| Ok::<_, sqlx::Error>(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros));
    Ok(Seen {
        raw: read(row)?,
        progress: Progress {
            status: get(row, STATUS)?,
            last_error: get(row, STATUS + 1)?,
            delivered_at: time(STATUS + 2)?,
            changed_at: time(STATUS + 3)?,
            now: time(STATUS + 5)?.unwrap_or_default(),
        },
        payload_bytes: get::<Option<i64>>(row, STATUS + 4)?.map(i64::unsigned_abs),
    })
}
