//! What operators see and do.

use std::time::Duration;

use posthaste_core::table::{Column, Kind, PostgresTableSql};
use posthaste_core::time::Timestamp;
use tokio_postgres::Row;

use super::super::error::Db;
use super::super::pool::Connection;
use super::super::rows::maybe_time;
use super::super::value::{Arg, Stamp, arg, args};
use super::claim::read;
use crate::store::table::driver::{Counted, Question, Seen, Terminal, Wish};
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
}

impl Asked {
    /// `None` where no row can be in the state that is asked for.
    fn of(sql: &PostgresTableSql, question: &Question) -> Option<Self> {
        let which = match question.state {
            _ if question.unclaimed => sql.unclaimed(),
            Some(state) => sql.in_state(state)?,
            None => "true".to_owned(),
        };
        let has_uuids = sql.shape().found(Column::Id).is_some_and(|found| found.kind == Kind::Uuid);
        let is_possible = |id: &&String| !has_uuids || is_uuid(id);
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
        })
    }

    fn values(&self) -> [Arg<'_>; 8] {
        [
            arg(&self.ids),
            arg(&self.event_type),
            arg(&self.key),
            arg(&self.since),
            arg(&self.until),
            arg(&self.after),
            arg(&self.after_id),
            arg(&self.rows),
        ]
    }
}

fn is_uuid(text: &str) -> bool {
    let hex = text.bytes().filter(|b| *b != b'-');
    text.len() <= 36 && hex.clone().count() == 32 && hex.clone().all(|b| b.is_ascii_hexdigit())
}

pub(super) async fn count(client: &Connection, sql: &PostgresTableSql) -> Db<Counted> {
    let rows = client.query_typed(&sql.counts, &[]).await?;
    rows.first().map_or(Ok(Counted::default()), counted)
}

fn counted(row: &Row) -> Db<Counted> {
    let number = |column| row.try_get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Counted {
        fresh: number(0)?,
        waiting: number(1)?,
        delivered: number(2)?,
        dead: number(3)?,
        oldest_fresh_at: maybe_time(row, 4)?,
        unknown: number(5)?,
        discarded: number(6)?,
    })
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

pub(super) async fn change(
    client: &Connection,
    sql: &PostgresTableSql,
    question: &Question,
    wish: &Wish,
) -> Db<u64> {
    let Some(asked) = Asked::of(sql, question) else { return Ok(0) };
    let (moment, error) = (wish.moment().map(Stamp), wish.error());
    let given = if error.is_some() { arg(&error) } else { arg(&moment) };
    let values = [asked.values().as_slice(), &[given]].concat();
    client.execute_typed(&sql.change(&asked.which, wish.change()), &values).await
}

pub(super) async fn prune(
    client: &Connection,
    sql: &PostgresTableSql,
    what: Terminal,
    age: Duration,
    remove: Option<u32>,
) -> Db<u64> {
    let (count, delete) = match what {
        Terminal::Delivered => (&sql.count_delivered, &sql.prune_delivered),
        Terminal::Dead => (&sql.count_dead, &sql.prune_dead),
    };
    match remove {
        None => number(client, count, &args![millis(age)]).await,
        Some(rows) => client.execute_typed(delete, &args![millis(age), i64::from(rows)]).await,
    }
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
            changed_at: maybe_time(row, STATUS + 3)?,
            now: maybe_time(row, STATUS + 5)?.unwrap_or_default(),
        },
        payload_bytes: row.try_get::<_, Option<i64>>(STATUS + 4)?.map(i64::unsigned_abs),
    })
}
