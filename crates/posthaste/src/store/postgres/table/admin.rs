//! What operators see and do.

use std::time::Duration;

use posthaste_core::review::AuditEntry;
use posthaste_core::table::{AuditSql, Column, Found, Kind, PostgresTableSql, topic_expression};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Row};

use super::super::admin::review::insert_entry;
use super::super::error::{Db, explain};
use super::super::pool::{Connection, begin, commit};
use super::super::rows::maybe_time;
use super::super::value::{Arg, Stamp, arg, args};
use super::claim::read;
use super::told;
use crate::store::table::driver::{Question, Seen, Terminal, Wish};
use crate::store::table::ledger::Ledger;
use crate::store::table::look::Progress;
use crate::store::table::millis;

/// The first column after those of an event.
const STATUS: usize = 18;

/// A question as the statements take it.
struct Asked {
    which: String,
    ids: Option<Vec<String>>,
    event_type: Option<String>,
    key: Option<String>,
    since: Option<Stamp>,
    until: Option<Stamp>,
    after: Option<Stamp>,
    after_id: String,
    rows: i64,
    code: Option<String>,
    error: Option<String>,
    topic: Option<String>,
}

impl Asked {
    /// `None` where no row can be in the state that is asked for.
    fn of(sql: &PostgresTableSql, question: &Question) -> Option<Self> {
        let which = match question.state {
            _ if question.unclaimed => sql.unclaimed(),
            Some(state) => sql.in_state(state)?,
            None => "true".to_owned(),
        };
        let found = sql.shape().found(Column::Id);
        let is_possible = |id: &&String| found.is_none_or(|found| may_be(found, id));
        let ids = question.ids.iter().filter(is_possible).cloned();
        let (after, after_id) = question.after.clone().unzip();
        Some(Self {
            which,
            ids: (!question.ids.is_empty()).then(|| ids.collect()),
            event_type: question.event_type.clone(),
            key: question.key.clone(),
            since: question.since.map(Stamp),
            until: question.until.map(Stamp),
            after: after.map(Stamp),
            after_id: after_id.unwrap_or_default(),
            rows: i64::from(question.rows),
            code: question.code.clone(),
            error: question.error.clone(),
            topic: question.topic.as_ref().map(topic_expression),
        })
    }

    fn values(&self) -> [Arg<'_>; 11] {
        [
            arg(&self.ids),
            arg(&self.event_type),
            arg(&self.key),
            arg(&self.since),
            arg(&self.until),
            arg(&self.after),
            arg(&self.after_id),
            arg(&self.rows),
            arg(&self.code),
            arg(&self.error),
            arg(&self.topic),
        ]
    }
}

/// Whether a column of ids can hold this text: the server ends a statement with one that it cannot cast.
fn may_be(found: &Found, id: &str) -> bool {
    match (found.kind, found.sql_type.as_str()) {
        (Kind::Uuid, _) => is_uuid(id),
        (Kind::Int, "smallint") => id.parse::<i16>().is_ok(),
        (Kind::Int, "integer") => id.parse::<i32>().is_ok(),
        (Kind::Int, _) => id.parse::<i64>().is_ok(),
        _ => true,
    }
}

fn is_uuid(text: &str) -> bool {
    let hex = text.bytes().filter(|b| *b != b'-');
    text.len() <= 36 && hex.clone().count() == 32 && hex.clone().all(|b| b.is_ascii_hexdigit())
}

pub(super) async fn find(client: &Connection, sql: &PostgresTableSql, question: &Question) -> Db<Vec<Seen>> {
    let Some(asked) = Asked::of(sql, question) else { return Ok(Vec::new()) };
    let rows = client.query_typed(&sql.find(&asked.which), &asked.values()).await?;
    rows.iter().map(seen).collect()
}

pub(super) async fn matched(
    client: &Connection,
    sql: &PostgresTableSql,
    question: &Question,
) -> Db<(u64, Timestamp)> {
    let Some(asked) = Asked::of(sql, question) else { return Ok(Default::default()) };
    let rows = client.query_typed(&sql.find_count(&asked.which), &asked.values()).await?;
    let Some(row) = rows.first() else { return Ok(Default::default()) };
    Ok((row.try_get::<_, i64>(0)?.unsigned_abs(), maybe_time(row, 1)?.unwrap_or_default()))
}

/// Changes rows and leaves a record in one transaction.
pub(super) async fn change(
    client: &mut Connection,
    (sql, audit): (&PostgresTableSql, &AuditSql),
    question: &Question,
    wish: &Wish,
    ledger: &mut Ledger,
) -> Result<u64> {
    let Some(asked) = Asked::of(sql, question) else { return Ok(0) };
    let (moment, error) = (wish.moment().map(Stamp), wish.error());
    let token = wish.token(sql.shape());
    let given = match (&token, &error) {
        (Some(token), _) => arg(token),
        (None, Some(_)) => arg(&error),
        (None, None) => arg(&moment),
    };
    let values = [asked.values().as_slice(), &[given]].concat();
    let change = sql.change(&asked.which, wish.change());
    let burial = token.as_ref().map(|token| args![error, *token]);
    let second = burial.as_ref().map(|values| (sql.buried.as_str(), values.as_slice()));
    step(client, (sql, audit), [Some((change.as_str(), values.as_slice())), second], ledger).await
}

/// Removes rows and leaves a record in one transaction.
pub(super) async fn prune(
    client: &mut Connection,
    (sql, audit): (&PostgresTableSql, &AuditSql),
    (what, age): (Terminal, Duration),
    rows: u32,
    ledger: &mut Ledger,
) -> Result<u64> {
    let delete = match what {
        Terminal::Delivered => &sql.prune_delivered,
        Terminal::Dead => &sql.prune_dead,
    };
    let (age, rows) = (millis(age), i64::from(rows));
    step(client, (sql, audit), [Some((delete, args![age, rows].as_slice())), None], ledger).await
}

/// One step of a command: a statement, which says how many rows it is about, and one that may follow it. Only what is committed is in
/// the ledger.
async fn step(
    client: &mut Connection,
    (sql, audit): (&PostgresTableSql, &AuditSql),
    statements: [Option<(&str, &[Arg<'_>])>; 2],
    ledger: &mut Ledger,
) -> Result<u64> {
    let mut page = ledger.clone();
    let tx = begin(client).await?;
    let mut changed = 0;
    for (text, values) in statements.into_iter().flatten() {
        changed = tx.execute_typed(text, values).await.map_err(|error| told(error, sql))?;
    }
    if let Some(entry) = page.after(changed) {
        write_record(tx.client(), audit, &entry).await?;
    }
    commit(tx).await?;
    *ledger = page;
    Ok(changed)
}

pub(super) async fn count_old(
    client: &Connection,
    sql: &PostgresTableSql,
    what: Terminal,
    age: Duration,
) -> Db<u64> {
    let count = match what {
        Terminal::Delivered => &sql.count_delivered,
        Terminal::Dead => &sql.count_dead,
    };
    number(client, count, &args![millis(age)]).await
}

/// The name of the table for the record of commands, if there is one.
pub(super) async fn record_table(client: &Connection, audit: &AuditSql) -> Db<Option<String>> {
    let rows = client.query_typed(&audit.exists, &[]).await?;
    let is_there = rows.first().map_or(Ok(false), |row| row.try_get(0))?;
    Ok(is_there.then(|| audit.table.clone()))
}

pub(super) async fn write_record(client: &Client, audit: &AuditSql, entry: &AuditEntry) -> Result<()> {
    insert_entry(client, &audit.insert, entry).await.map_err(|error| unwritten(error, audit))
}

/// A command without a record is not carried out.
fn unwritten(error: tokio_postgres::Error, audit: &AuditSql) -> Error {
    let code = error.as_db_error().map(|db| db.code().code());
    if code == Some("42501") {
        let table = &audit.table;
        return Error::config(format!(
            "the record of commands may not be written, and without it nothing is changed: GRANT SELECT, INSERT ON {table}"
        ))
        .because(error);
    }
    explain(error)
}

async fn number(client: &Connection, text: &str, values: &[Arg<'_>]) -> Db<u64> {
    let rows = client.query_typed(text, values).await?;
    rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0)).map(i64::unsigned_abs)
}

fn seen(row: &Row) -> Db<Seen> {
    Ok(Seen {
        raw: read(row)?,
        progress: Progress {
            status: row.try_get(STATUS)?,
            last_error: row.try_get(STATUS + 1)?,
            delivered_at: maybe_time(row, STATUS + 2)?,
            changed_at: maybe_time(row, STATUS + 3)?,
            now: maybe_time(row, STATUS + 5)?.unwrap_or_default(),
        },
        payload_bytes: row.try_get::<_, Option<i64>>(STATUS + 4)?.map(i64::unsigned_abs),
    })
}
