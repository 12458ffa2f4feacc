//! What operators see and do.

use posthaste_core::table::{AuditSql, SqliteTableSql};
use posthaste_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::super::admin::review::insert_entry;
use super::work::{maybe_time, read, text};
use crate::store::table::driver::{Question, Seen, Terminal, Wish};
use crate::store::table::ledger::Ledger;
use crate::store::table::list;
use crate::store::table::look::Progress;

/// The first column after those of an event.
const STATUS: usize = 18;

/// A question as the statements take it.
pub(super) struct Asked {
    which: String,
    values: [Value; 12],
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
            optional(question.code.clone()),
            optional(question.error.clone()),
            optional(question.topic.as_ref().map(ToString::to_string)),
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

    /// Changes rows and leaves a record; answers how many, and what is in the ledger then.
    pub(super) fn change(
        self,
        connection: &Connection,
        (sql, audit): (&SqliteTableSql, &AuditSql),
        wish: &Wish,
        ledger: Ledger,
    ) -> rusqlite::Result<(u64, Ledger)> {
        let token = wish.token(sql.shape());
        let given = token.clone().or_else(|| wish.error().map(str::to_owned));
        let given = given.or_else(|| wish.moment().map(text));
        let values = self.values.into_iter().chain([given.map_or(Value::Null, Value::from)]);
        let changed =
            connection.execute(&sql.change(&self.which, wish.change()), params_from_iter(values))?;
        if let Some(token) = token {
            connection.execute(&sql.buried, (list(&[token]), text(self.now), wish.error()))?;
        }
        written(connection, audit, changed as u64, ledger, self.now)
    }
}

/// Leaves in the record what a step says that changed so many.
fn written(
    connection: &Connection,
    audit: &AuditSql,
    changed: u64,
    mut ledger: Ledger,
    now: Timestamp,
) -> rusqlite::Result<(u64, Ledger)> {
    if let Some(entry) = ledger.after(changed) {
        insert_entry(connection, &audit.insert, &entry, now)?;
    }
    Ok((changed, ledger))
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

/// Removes old rows and leaves a record; answers how many, and what is in the ledger then.
pub(super) fn prune(
    connection: &Connection,
    (sql, audit): (&SqliteTableSql, &AuditSql),
    (what, cutoff): (Terminal, Timestamp),
    rows: u32,
    (ledger, now): (Ledger, Timestamp),
) -> rusqlite::Result<(u64, Ledger)> {
    let delete = match what {
        Terminal::Delivered => &sql.prune_delivered,
        Terminal::Dead => &sql.prune_dead,
    };
    let removed = connection.execute(delete, (text(cutoff), rows))?;
    written(connection, audit, removed as u64, ledger, now)
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
            delivered_at: maybe_time(row, STATUS + 2)?,
            changed_at: maybe_time(row, STATUS + 3)?,
            now,
        },
        payload_bytes: row.get::<_, Option<i64>>(STATUS + 4)?.map(i64::unsigned_abs),
    })
}
