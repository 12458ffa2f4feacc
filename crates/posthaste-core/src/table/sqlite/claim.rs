//! Claiming: pick, then lease and read.

use super::{columns, due, time};
use crate::table::text::{also_set, tie};
use crate::table::{Column, Shape};

/// Rows to claim, but those that the table would not have claimed (`?3`).
pub(super) fn pick(shape: &Shape, ordered: bool) -> String {
    let headers =
        shape.quoted(Column::Headers).map(|name| format!(" + coalesce(length(CAST(t.{name} AS BLOB)), 0)"));
    let (id, created) = (shape.needed(Column::Id), shape.needed(Column::CreatedAt));
    let unblocked = if ordered { format!(" AND NOT {}", blocked(shape)) } else { String::new() };
    format!(
        "SELECT CAST(t.{id} AS TEXT), coalesce(length(CAST(t.{payload} AS BLOB)), 0) + length(CAST(t.{id} AS BLOB)) + 256{headers}
FROM {table} AS t WHERE t.{status} = {pending} AND typeof(t.{id}) NOT IN ('blob', 'null') AND {due}
  AND CAST(t.{id} AS TEXT) NOT IN (SELECT value FROM json_each(?3)){unblocked}
ORDER BY t.{available}, t.{created}, t.{tie} LIMIT ?2",
        payload = shape.needed(Column::Payload),
        headers = headers.unwrap_or_default(),
        table = shape.profile.table.quoted(),
        status = shape.needed(Column::Status),
        pending = shape.profile.states.pending.literal(),
        due = due(shape, "?1"),
        available = shape.needed(Column::AvailableAt),
        tie = tie(shape),
    )
}

/// That an earlier row of its key holds this one back; see the statement of the same name for Postgres.
pub(super) fn blocked(shape: &Shape) -> String {
    let Some(key) = shape.order_column() else { return "false".to_owned() };
    let (status, created) = (shape.needed(Column::Status), shape.needed(Column::CreatedAt));
    let (attempts, locked_by) = (shape.needed(Column::Attempts), shape.needed(Column::LockedBy));
    let (id, tie) = (shape.needed(Column::Id), tie(shape));
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let holds = if key == Column::Key {
        format!(
            "e.{status} = {delivering} AND (e.{locked_by} IS NULL OR e.{locked_by} NOT IN (SELECT value FROM json_each(?4))
             OR e.{id} IN (SELECT value FROM json_each(?5)))
             OR e.{status} = {pending} AND (e.{attempts} > 0 OR CAST(e.{id} AS TEXT) IN (SELECT value FROM json_each(?3)))"
        )
    } else {
        let available = format!("e.{}", shape.needed(Column::AvailableAt));
        // The claim gives the same parameters whatever the key is, and SQLite wants each of them to be used.
        format!(
            "?4 IS NOT NULL AND ?5 IS NOT NULL
             AND (e.{status} = {delivering} OR e.{attempts} > 0 OR coalesce({} <= ?1, true))",
            time(&available)
        )
    };
    let key = shape.needed(key);
    format!(
        "EXISTS (SELECT 1 FROM {} AS e WHERE e.{key} = t.{key} AND e.{status} IN ({pending}, {delivering})
          AND (e.{created}, e.{tie}) < (t.{created}, t.{tie}) AND ({holds}))",
        shape.profile.table.quoted()
    )
}

pub(super) fn take(shape: &Shape) -> String {
    let touched = also_set(shape, Column::UpdatedAt, "?3");
    // What an UPDATE returns has no alias to be named by.
    let returned = columns(shape).replace("t.\"", "\"");
    format!(
        "UPDATE {} SET {status} = {}, {} = ?2, {} = ?3{touched}
WHERE {} IN (SELECT value FROM json_each(?1)) AND {status} = {} RETURNING {returned}",
        shape.profile.table.quoted(),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy),
        shape.needed(Column::LockedAt),
        shape.needed(Column::Id),
        shape.profile.states.pending.literal(),
        status = shape.needed(Column::Status),
    )
}
