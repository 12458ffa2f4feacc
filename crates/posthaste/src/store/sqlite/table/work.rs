//! What the writer does for the table engine.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::store::Room;
use posthaste_core::table::SqliteTableSql;
use posthaste_core::time::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::store::table::cursor::{Left, Sorted, Token};
use crate::store::table::driver::{Ask, Sweep, Swept};
use crate::store::table::list;
use crate::store::table::row::RawRow;

/// A claim on its way.
pub(super) struct Claim {
    sql: Arc<SqliteTableSql>,
    token: Token,
    room: Room,
    is_ordered: bool,
    passed: String,
    mine: String,
    slow: String,
    now: String,
}

impl Claim {
    pub(super) fn new(sql: &Arc<SqliteTableSql>, ask: Ask<'_>, now: Timestamp) -> Self {
        let (mine, slow) = if ask.is_ordered { ask.cursor.mine() } else { Default::default() };
        Self {
            sql: Arc::clone(sql),
            token: Token::clone(ask.token),
            room: ask.room,
            is_ordered: ask.is_ordered,
            passed: list(ask.passed),
            mine: list(&mine),
            slow: list(&slow),
            now: text(now),
        }
    }

    /// Leases rows and reads them.
    pub(super) fn take(&self, connection: &Connection) -> rusqlite::Result<Vec<RawRow>> {
        let picked = self.pick(connection)?;
        if picked.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = connection.prepare_cached(&self.sql.take)?;
        let rows = statement.query_map((list(&picked), &*self.token, &self.now), read)?;
        rows.collect()
    }

    /// Whether there is nothing to claim.
    pub(super) fn finds_nothing(&self, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(self.pick(connection)?.is_empty())
    }

    /// The id of the first row that it would take.
    pub(super) fn first(&self, connection: &Connection) -> rusqlite::Result<Option<String>> {
        Ok(self.pick(connection)?.into_iter().next())
    }

    /// As many as fit; one always does.
    fn pick(&self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let text = if self.is_ordered { &self.sql.pick_ordered } else { &self.sql.pick };
        let mut statement = connection.prepare_cached(text)?;
        let events = i64::from(self.room.events);
        let mut rows = if self.is_ordered {
            statement.query((&self.now, events, &self.passed, &self.mine, &self.slow))?
        } else {
            statement.query((&self.now, events, &self.passed))?
        };
        let (mut picked, mut bytes) = (Vec::new(), 0_u64);
        while let Some(row) = rows.next()? {
            bytes = bytes.saturating_add(row.get::<_, i64>(1)?.unsigned_abs());
            if bytes > self.room.bytes && !picked.is_empty() {
                break;
            }
            // What has an id that no text can name cannot be asked for; it stays where it is.
            if let Ok(id) = row.get(0) {
                picked.push(id);
            }
        }
        Ok(picked)
    }
}

/// Records outcomes; answers how many rows were recorded and how many renewed.
pub(super) fn record(
    connection: &Connection,
    sql: &SqliteTableSql,
    sorted: &Sorted,
    now: Timestamp,
) -> rusqlite::Result<(u64, u64)> {
    let Sorted { tokens, delivered, retry, dead, released, renewed, .. } = sorted;
    let (tokens, at) = (list(tokens), text(now));
    let many = |statement: &str, ids: &[String]| -> rusqlite::Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        Ok(connection.prepare_cached(statement)?.execute((list(ids), &tokens, &at))? as u64)
    };
    let mut recorded = many(&sql.delivered, delivered)? + many(&sql.released, released)?;
    for ((id, after_ms), error) in retry.ids.iter().zip(&retry.after_ms).zip(&retry.errors) {
        let due = text(now.after(Duration::from_millis(after_ms.unsigned_abs())));
        recorded += connection.prepare_cached(&sql.retry)?.execute((id, &tokens, &at, due, error))? as u64;
    }
    let later = text(now.after(Duration::from_secs(3600)));
    for ((id, error), spent) in dead.ids.iter().zip(&dead.errors).zip(&dead.spent) {
        let values = (id, &tokens, &at, error, spent, &later);
        recorded += connection.prepare_cached(&sql.dead)?.execute(values)? as u64;
    }
    Ok((recorded, many(&sql.renewed, renewed)?))
}

/// Takes back rows whose lease has ended. What a statement says that it changed, a trigger may have changed back after it; so they are
/// counted before and after.
pub(super) fn sweep(
    connection: &Connection,
    sql: &SqliteTableSql,
    Sweep { lease, rows, passed, budget }: Sweep,
    now: Timestamp,
) -> rusqlite::Result<Swept> {
    let cutoff = text(now.before(lease));
    let count = || -> rusqlite::Result<u64> {
        let count = connection.prepare_cached(&sql.expired)?.query_row([&cutoff], |row| row.get::<_, i64>(0));
        Ok(count?.unsigned_abs())
    };
    let before = count()?;
    let mut statement = connection.prepare_cached(&sql.sweep)?;
    let dead = statement
        .query_map((&cutoff, rows, budget, text(now), passed), |row| row.get::<_, Option<bool>>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let dead = dead.iter().filter(|dead| **dead == Some(true)).count() as u64;
    let looked = before.saturating_sub(u64::from(passed)).min(u64::from(rows));
    let rows = before.saturating_sub(count()?);
    Ok(Swept { looked, rows, dead: dead.min(rows), stuck: looked.saturating_sub(rows) })
}

/// The id of the first row that a sweep would take back.
pub(super) fn expired(
    connection: &Connection,
    sql: &SqliteTableSql,
    sweep: Sweep,
    now: Timestamp,
) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached(&sql.expired_id)?;
    statement.query_row((text(now.before(sweep.lease)), sweep.passed), |row| row.get(0)).optional()
}

/// Hands back what a lease still holds.
pub(super) fn hand_back(
    connection: &Connection,
    sql: &SqliteTableSql,
    left: &Left,
    now: Timestamp,
) -> rusqlite::Result<()> {
    if !left.unsure.is_empty() {
        connection.prepare_cached(&sql.released_claims)?.execute((list(&left.unsure), text(now)))?;
    }
    let tokens = list(&left.tokens);
    if !left.unsent.is_empty() {
        connection.prepare_cached(&sql.released)?.execute((list(&left.unsent), &tokens, text(now)))?;
    }
    if !left.ids.is_empty() {
        let values = (list(&left.ids), &tokens, text(now), left.budget);
        connection.prepare_cached(&sql.abandoned)?.execute(values)?;
    }
    Ok(())
}

/// Reads the columns of an event. Any column may hold anything here: what cannot be read is said of that row, and no other one is
/// kept back by it.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    let mut reading = Reading { row, wrong: None };
    let raw = RawRow {
        id: row.get(0)?,
        event_type: reading.text(1, "type")?,
        topic: reading.text(2, "topic")?,
        key: reading.text(3, "key")?,
        headers: reading.text(4, "headers")?,
        payload: row.get(5)?,
        attempts: reading.number(6, "attempts")?.unwrap_or_default(),
        created_at: maybe_time(row, 7)?.unwrap_or_default(),
        available_at: maybe_time(row, 8)?,
        source: reading.text(9, "source")?,
        subject: reading.text(10, "subject")?,
        content_type: reading.text(11, "content_type")?,
        version: reading.number(12, "version")?,
        occurred_at: maybe_time(row, 13)?,
        sequence: reading.number(14, "sequence")?,
        trace_id: reading.text(15, "trace_id")?,
        correlation_id: reading.text(16, "correlation_id")?,
        // What stands there of the past keeps nobody from being an event.
        last_error: Reading { row, wrong: None }.text(17, "last_error")?,
        wrong: None,
    };
    Ok(RawRow { wrong: reading.wrong, ..raw })
}

/// A row of which anything may be odd.
struct Reading<'a, 'b> {
    row: &'a Row<'b>,
    /// What was first.
    wrong: Option<String>,
}

impl Reading<'_, '_> {
    fn text(&mut self, column: usize, called: &str) -> rusqlite::Result<Option<String>> {
        match self.row.get_ref(column)? {
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => return Ok(Some(text.to_owned())),
                Err(_) => self.is_wrong(called, "text in UTF-8"),
            },
            ValueRef::Null => {}
            _ => self.is_wrong(called, "text"),
        }
        Ok(None)
    }

    fn number(&mut self, column: usize, called: &str) -> rusqlite::Result<Option<i64>> {
        match self.row.get_ref(column)? {
            ValueRef::Integer(number) => return Ok(Some(number)),
            ValueRef::Null => {}
            _ => self.is_wrong(called, "whole number"),
        }
        Ok(None)
    }

    fn is_wrong(&mut self, called: &str, wanted: &str) {
        let code = called.to_ascii_uppercase();
        self.wrong.get_or_insert_with(|| format!("INVALID_{code}: {called} holds no {wanted}"));
    }
}

/// A time in milliseconds, if there is one.
pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    let millis = row.get::<_, Option<i64>>(column)?;
    Ok(millis.map(|millis| Timestamp::from_micros(millis.saturating_mul(1_000))))
}

/// A time as SQLite's own functions write it, in UTC with milliseconds.
pub(super) fn text(at: Timestamp) -> String {
    let whole = at.to_string();
    let (seconds, fraction) =
        whole.trim_end_matches('Z').split_once('.').unwrap_or((whole.trim_end_matches('Z'), ""));
    let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
    format!("{}.{fraction}", seconds.replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_sqlite_writes_them() {
        let connection = Connection::open_in_memory().unwrap();
        for micros in [0, 1_767_225_600_000_000, 1_767_225_600_250_999, 1_767_225_600_050_000] {
            let ours = text(Timestamp::from_micros(micros));
            let theirs: String = connection
                .query_row("SELECT strftime('%Y-%m-%d %H:%M:%f', ?1)", [&ours], |row| row.get(0))
                .unwrap();
            assert_eq!(ours, theirs);
        }
        assert_eq!(text(Timestamp::from_micros(1_767_225_600_250_999)), "2026-01-01 00:00:00.250");
    }
}
