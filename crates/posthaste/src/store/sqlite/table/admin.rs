//! What operators see and do.

use posthaste_core::table::SqliteTableSql;
use posthaste_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::work::{maybe_time, read, text};
use crate::store::table::driver::{Counted, Question, Seen, Terminal, Wish};
use crate::store::table::list;
use crate::store::table::look::Progress;

/// The first column after those of an event.
const STATUS: usize = 18;

pub(super) fn count(
    connection: &Connection,
    sql: &SqliteTableSql,
    now: Timestamp,
) -> rusqlite::Result<Counted> {
    connection.prepare_cached(&sql.counts)?.query_row([text(now)], |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(Counted {
            fresh: number(0)?,
            waiting: number(1)?,
            delivered: number(2)?,
            dead: number(3)?,
            oldest_fresh_at: maybe_time(row, 4)?,
            unknown: number(5)?,
            discarded: number(6)?,
        })
    })
}

/// A question as the statements take it.
pub(super) struct Asked {
    which: String,
    values: [Value; 9],
    now: Timestamp,
}

impl Asked {
    /// `None` where no row can be in the state that is asked for.
    pub(super) fn of(sql: &SqliteTableSql, question: &Question, now: Timestamp) -> Option<Self> {
        let which = match question.state {
            _ if question.unclaimed => sql.unclaimed(),
            Some(state) => sql.in_state(state)?,
            None => "true".to_owned(),
        };
        let optional = |text: Option<String>| text.map_or(Value::Null, Value::from);
        let (after, tie) = question.after.clone().unzip();
        let values = [
            optional((!question.ids.is_empty()).then(|| list(&question.ids))),
            optional(question.event_type.clone()),
            optional(question.key.clone()),
            optional(question.since.map(text)),
            optional(question.until.map(text)),
            optional(after.map(text)),
            Value::from(tie.unwrap_or_default()),
            Value::from(i64::from(question.rows)),
            Value::from(text(now)),
        ];
        Some(Self { which, values, now })
    }

    pub(super) fn find(self, connection: &Connection, sql: &SqliteTableSql) -> rusqlite::Result<Vec<Seen>> {
        let Self { which, values, now, .. } = self;
        let mut statement = connection.prepare(&sql.find(&which))?;
        let rows = statement.query_map(params_from_iter(values), |row| seen(row, now))?;
        rows.collect()
    }

    pub(super) fn count(self, connection: &Connection, sql: &SqliteTableSql) -> rusqlite::Result<u64> {
        let text = sql.find_count(&self.which);
        connection.query_row(&text, params_from_iter(self.values), number)
    }

    pub(super) fn change(
        self,
        connection: &Connection,
        sql: &SqliteTableSql,
        wish: &Wish,
    ) -> rusqlite::Result<u64> {
        let given = wish.error().map(str::to_owned).or_else(|| wish.moment().map(text));
        let values = self.values.into_iter().chain([given.map_or(Value::Null, Value::from)]);
        let changed =
            connection.execute(&sql.change(&self.which, wish.change()), params_from_iter(values))?;
        Ok(changed as u64)
    }
}

pub(super) fn count_old(
    connection: &Connection,
    sql: &SqliteTableSql,
    what: Terminal,
    cutoff: Timestamp,
) -> rusqlite::Result<u64> {
    let count = match what {
        Terminal::Delivered => &sql.count_delivered,
        Terminal::Dead => &sql.count_dead,
    };
    connection.query_row(count, [text(cutoff)], number)
}

pub(super) fn prune(
    connection: &Connection,
    sql: &SqliteTableSql,
    what: Terminal,
    cutoff: Timestamp,
    rows: u32,
) -> rusqlite::Result<u64> {
    let delete = match what {
        Terminal::Delivered => &sql.prune_delivered,
        Terminal::Dead => &sql.prune_dead,
    };
    Ok(connection.execute(delete, (text(cutoff), rows))? as u64)
}

fn number(row: &Row<'_>) -> rusqlite::Result<u64> {
    row.get::<_, i64>(0).map(i64::unsigned_abs)
}

fn seen(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Seen> {
    Ok(Seen {
        raw: read(row)?,
        progress: Progress {
            status: row.get(STATUS)?,
            last_error: row.get(STATUS + 1)?,
            changed_at: maybe_time(row, STATUS + 2)?,
            now,
        },
        payload_bytes: row.get::<_, Option<i64>>(STATUS + 3)?.map(i64::unsigned_abs),
    })
}
