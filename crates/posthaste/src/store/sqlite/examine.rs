//! What goes wrong in practice with a SQLite file, told before it happens.

use posthaste_core::findings::{Finding, Mend, asked};
use rusqlite::Connection;

use super::SqliteStore;
use crate::store::table::examine::ASK_WITHIN;

/// Everything, each question by itself.
pub(super) async fn examine(store: &SqliteStore) -> Vec<Finding> {
    let table = format!("{}events", store.prefix.as_str());
    let mut found =
        asked("journal", ASK_WITHIN, store.read(|connection, _| Ok(vec![journal(connection)?]))).await;
    found.extend(asked("tables", ASK_WITHIN, store.read(move |on, _| tables(on, &table))).await);
    found
}

/// Whether readers and the writer work side by side.
pub(super) fn journal(connection: &Connection) -> rusqlite::Result<Finding> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    Ok(match mode.as_str() {
        "wal" => Finding::ok("journal", "write-ahead: readers and the writer do not wait for one another"),
        "off" | "memory" => Finding::failure(
            "journal",
            format!("{mode}: a process that ends in the middle of a commit breaks the file"),
            Mend::sql("PRAGMA journal_mode = WAL"),
        ),
        _ => Finding::warning(
            "journal",
            format!("{mode}: whoever reads keeps whoever publishes waiting, and the other way round"),
            Mend::sql("PRAGMA journal_mode = WAL"),
        ),
    })
}

/// Whether numbers are never given twice, and nobody changes events on their way in.
fn tables(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Finding>> {
    let counts: bool = connection.query_row(
        "SELECT coalesce(max(upper(sql) LIKE '%AUTOINCREMENT%'), true) FROM sqlite_master WHERE type = 'table' AND name = ?1",
        [table],
        |row| row.get(0),
    )?;
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 ORDER BY name")?;
    let triggers =
        statement.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let mut found = Vec::new();
    found.push(if counts {
        Finding::ok("numbers of events", "none is given twice")
    } else {
        Finding::failure(
            "numbers of events",
            format!("{table} was made anew without AUTOINCREMENT: retention frees the highest number, and the next event is lost"),
            Mend::words("make the table as `posthaste migrate print` shows it, and copy its rows"),
        )
    });
    found.push(if triggers.is_empty() {
        Finding::ok("triggers", "none that change events")
    } else {
        let names = triggers.join(", ");
        let drops = triggers.iter().map(|name| format!("DROP TRIGGER \"{}\"", name.replace('"', "\"\"")));
        Finding::failure(
            "triggers",
            format!("{table} has triggers that are not ours ({names}), which can change events or drop rows"),
            Mend::Sql(drops.collect()),
        )
    });
    Ok(found)
}
