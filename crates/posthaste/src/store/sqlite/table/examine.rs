//! What goes wrong in practice with an outbox table of somebody else in a SQLite file.

use posthaste_core::findings::{Finding, asked};
use posthaste_core::lane::LaneSpec;
use posthaste_core::table::{SqliteTableSql, sqlite_table_ddl};
use rusqlite::Connection;

use super::super::examine::journal;
use super::Sqlite;
use crate::store::table::examine::{ASK_WITHIN, Indexes};

/// Everything, each question by itself. What the table lacks is the answer of its status.
pub(super) async fn examine(table: &Sqlite, sql: &SqliteTableSql, lanes: &[LaneSpec]) -> Vec<Finding> {
    let (shape, profile) = (sql.shape(), &sql.shape().profile);
    let name = profile.table.name().to_owned();
    let mut found = asked("indexes", ASK_WITHIN, async {
        let indexes = table.read(move |connection| indexes(connection, &name)).await?;
        Ok(indexes.findings(shape, lanes, &sqlite_table_ddl(profile)))
    })
    .await;
    found.extend(asked("journal", ASK_WITHIN, table.read(|connection| Ok(vec![journal(connection)?]))).await);
    found
}

/// The indexes of a table.
pub(super) fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Indexes> {
    let mut statement = connection.prepare(
        "SELECT l.name, coalesce(i.name, '') FROM pragma_index_list(?1) l, pragma_index_info(l.name) i ORDER BY l.name, i.seqno",
    )?;
    let rows =
        statement.query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let (index, column) = row?;
        match found.last_mut().filter(|(name, _)| *name == index) {
            Some((_, columns)) => columns.push(column),
            None => found.push((index, vec![column])),
        }
    }
    let columns = found.into_iter().map(|(_, columns)| columns).collect();
    Ok(Indexes { columns, may_be_partial: true })
}
