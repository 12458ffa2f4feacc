//! What the writer does for the table engine.

use std::time::Duration;

use posthaste_core::lane::Order;
use posthaste_core::store::Room;
use posthaste_core::table::SqliteTableSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, Row};

use crate::store::table::cursor::{Cursor, Left, Sorted, Token, said};
use crate::store::table::row::RawRow;

/// What a claim asks for.
pub(super) struct Ask {
    token: Token,
    room: Room,
    is_ordered: bool,
    mine: String,
    slow: String,
    now: Timestamp,
}

impl Ask {
    pub(super) fn of(cursor: &Cursor, token: &Token, room: Room, now: Timestamp) -> Self {
        let (mine, slow) = cursor.mine();
        Self {
            token: Token::clone(token),
            room,
            is_ordered: cursor.lane.order == Order::PerKey,
            mine: list(&mine),
            slow: list(&slow),
            now,
        }
    }

    /// Leases rows and reads them, in their order.
    pub(super) fn claim(
        &self,
        connection: &Connection,
        sql: &SqliteTableSql,
    ) -> rusqlite::Result<Vec<RawRow>> {
        let now = text(self.now);
        let picked = self.pick(connection, sql, &now)?;
        if picked.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = connection.prepare_cached(&sql.take)?;
        let rows = statement.query_map((list(&picked), &*self.token, &now), read)?;
        let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        if self.is_ordered {
            rows.sort_by(|a, b| (a.place_in_key(), &a.id).cmp(&(b.place_in_key(), &b.id)));
        } else {
            rows.sort_by(|a, b| (a.place(), &a.id).cmp(&(b.place(), &b.id)));
        }
        Ok(rows)
    }

    /// Whether there is nothing to claim.
    pub(super) fn finds_nothing(
        &self,
        connection: &Connection,
        sql: &SqliteTableSql,
    ) -> rusqlite::Result<bool> {
        Ok(self.pick(connection, sql, &text(self.now))?.is_empty())
    }

    /// As many as fit; one always does.
    fn pick(
        &self,
        connection: &Connection,
        sql: &SqliteTableSql,
        now: &str,
    ) -> rusqlite::Result<Vec<String>> {
        let is_ordered = self.is_ordered && sql.shape().order_column().is_some();
        let mut statement =
            connection.prepare_cached(if is_ordered { &sql.pick_ordered } else { &sql.pick })?;
        let events = i64::from(self.room.events);
        let mut rows = if is_ordered {
            statement.query((now, events, &self.mine, &self.slow))?
        } else {
            statement.query((now, events))?
        };
        let (mut picked, mut bytes) = (Vec::new(), 0_u64);
        while let Some(row) = rows.next()? {
            bytes = bytes.saturating_add(row.get::<_, i64>(1)?.unsigned_abs());
            if bytes > self.room.bytes && !picked.is_empty() {
                break;
            }
            picked.push(row.get(0)?);
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
    for ((id, error), spent) in dead.ids.iter().zip(&dead.errors).zip(&dead.spent) {
        recorded += die(connection, sql, (id, &tokens, error, *spent), now)?;
    }
    Ok((recorded, many(&sql.renewed, renewed)?))
}

fn die(
    connection: &Connection,
    sql: &SqliteTableSql,
    (id, tokens, error, spent): (&str, &str, &str, bool),
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let later = text(now.after(Duration::from_secs(3600)));
    let mut statement = connection.prepare_cached(&sql.dead)?;
    Ok(statement.execute((id, tokens, text(now), error, spent, later))? as u64)
}

/// Rows that are no events are dead at once, with the reason.
pub(super) fn set_aside(
    connection: &Connection,
    sql: &SqliteTableSql,
    token: &Token,
    bad: &[(String, String)],
    now: Timestamp,
) -> rusqlite::Result<()> {
    let tokens = list(&[token.to_string()]);
    for (id, reason) in bad {
        die(connection, sql, (id, &tokens, &said(reason), false), now)?;
    }
    Ok(())
}

/// Takes back rows whose lease has ended; answers how many, and how many of them died.
pub(super) fn sweep(
    connection: &Connection,
    sql: &SqliteTableSql,
    lease: Duration,
    rows: u32,
    budget: u32,
    now: Timestamp,
) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection.prepare_cached(&sql.sweep)?;
    let cutoff = text(now.before(lease));
    let dead = statement.query_map((cutoff, rows, budget, text(now)), |row| row.get::<_, bool>(0))?;
    let dead = dead.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok((dead.len() as u64, dead.iter().filter(|dead| **dead).count() as u64))
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
    if !left.ids.is_empty() {
        connection.prepare_cached(&sql.abandoned)?.execute((
            list(&left.ids),
            list(&left.tokens),
            text(now),
        ))?;
    }
    Ok(())
}

/// Reads the columns of an event.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    let time = |column: usize| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row
            .get::<_, Option<i64>>(column)?
            .map(|millis| Timestamp::from_micros(millis.saturating_mul(1_000))))
    };
    Ok(RawRow {
        id: row.get(0)?,
        event_type: row.get(1)?,
        topic: row.get(2)?,
        key: row.get(3)?,
        headers: row.get(4)?,
        payload: row.get(5)?,
        attempts: row.get::<_, Option<i64>>(6)?.unwrap_or_default(),
        created_at: time(7)?.unwrap_or_default(),
        available_at: time(8)?,
        source: row.get(9)?,
        subject: row.get(10)?,
        content_type: row.get(11)?,
        version: row.get(12)?,
        occurred_at: time(13)?,
        sequence: row.get(14)?,
    })
}

/// A list as JSON.
pub(super) fn list(items: &[String]) -> String {
    serde_json::to_string(items).expect("a list of strings is always JSON")
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
