//! Claiming: pick and lock, lease, read; three statements of one transaction.
//!
//! An `UPDATE` here neither skips what others have locked nor answers rows, and a subquery with a limit cannot be updated from.

use super::{BY_TIME, NOW, as_text, column, due, event_columns, from_text, moment, named, payload};
use crate::table::text::{also_set, tie};
use crate::table::{Column, Shape};

/// Pending rows that are due, in the order of their time: at most so many (`?1`), since a place (`?2`) unless from the start.
///
/// Under `READ COMMITTED` only the rows themselves are locked. Those of others are skipped.
pub(super) fn pick(shape: &Shape, from_start: bool) -> String {
    format!("{} FOR UPDATE SKIP LOCKED", picked(shape, from_start, ""))
}

/// The same in the order of a key. Relays claim one after another, so nothing is locked: a lock would be held on what is only
/// looked at.
pub(super) fn pick_ordered(shape: &Shape, from_start: bool) -> String {
    picked(shape, from_start, &format!(" AND NOT {}", blocked(shape, from_start)))
}

fn picked(shape: &Shape, from_start: bool, unblocked: &str) -> String {
    let available = column(shape, Column::AvailableAt);
    let due = if from_start {
        due(shape)
    } else {
        format!("{available} <= {NOW} AND {available} >= {}", moment("?2"))
    };
    format!(
        "SELECT {}, {} FROM {} AS t {BY_TIME} WHERE {} = {} AND {due}{unblocked} ORDER BY {available}, {}, t.{} LIMIT ?1",
        as_text(shape, Column::Id),
        size(shape),
        shape.profile.table.quoted(),
        column(shape, Column::Status),
        shape.profile.states.pending.literal(),
        column(shape, Column::CreatedAt),
        tie(shape)
    )
}

/// What a row weighs in a window: at least what its envelope does.
fn size(shape: &Shape) -> String {
    let headers = shape.quoted(Column::Headers);
    let headers = headers.map(|name| format!(" + COALESCE(OCTET_LENGTH(t.{name}), 0)")).unwrap_or_default();
    format!("CAST(COALESCE(OCTET_LENGTH({}), 0) + 320{headers} AS SIGNED)", payload(shape))
}

/// That an earlier row of its key holds this one back; see the statement of the same name for Postgres.
fn blocked(shape: &Shape, from_start: bool) -> String {
    let Some(key) = shape.order_column() else { return "FALSE".to_owned() };
    let name = |column: Column| shape.needed(column);
    let (status, created, attempts) = (name(Column::Status), name(Column::CreatedAt), name(Column::Attempts));
    let (available, tie) = (name(Column::AvailableAt), tie(shape));
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let holds = if key == Column::Key {
        let of_earlier = |column: Column| as_text(shape, column).replace("t.\"", "e.\"");
        let (locked_by, id) = (of_earlier(Column::LockedBy), of_earlier(Column::Id));
        let late = if from_start { String::new() } else { format!(" OR e.{available} < {}", moment("?2")) };
        format!(
            "e.{status} = {delivering} AND (e.{} IS NULL OR NOT JSON_CONTAINS(?3, JSON_QUOTE({locked_by})) \
             OR JSON_CONTAINS(?4, JSON_QUOTE({id}))) OR e.{status} = {pending} AND (e.{attempts} > 0{late})",
            name(Column::LockedBy)
        )
    } else {
        format!("e.{status} = {delivering} OR e.{attempts} > 0 OR COALESCE(e.{available} <= {NOW}, TRUE)")
    };
    let key = name(key);
    format!(
        "EXISTS (SELECT 1 FROM {} AS e WHERE e.{key} = t.{key} AND e.{status} IN ({pending}, {delivering}) \
         AND e.{created} <= t.{created} AND (e.{created} < t.{created} OR e.{tie} < t.{tie}) AND ({holds}))",
        shape.profile.table.quoted()
    )
}

/// Leases rows with these ids (`?1`) that are pending under a token (`?2`).
pub(super) fn take(shape: &Shape) -> String {
    format!(
        "UPDATE {} SET {status} = {}, {} = {}, {} = {NOW}{} WHERE {status} = {}",
        named(shape),
        shape.profile.states.delivering.literal(),
        column(shape, Column::LockedBy),
        from_text(shape, Column::LockedBy, "?2"),
        column(shape, Column::LockedAt),
        also_set(shape, Column::UpdatedAt, NOW),
        shape.profile.states.pending.literal(),
        status = column(shape, Column::Status),
    )
}

/// What was leased under this token (`?2`) of these rows (`?1`).
pub(super) fn read(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} WHERE {} = {} AND {} = {}",
        event_columns(shape),
        named(shape),
        column(shape, Column::LockedBy),
        from_text(shape, Column::LockedBy, "?2"),
        column(shape, Column::Status),
        shape.profile.states.delivering.literal()
    )
}
