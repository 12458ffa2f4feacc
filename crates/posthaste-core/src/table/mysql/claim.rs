//! Claiming: pick and lock, lease, read; three statements of one transaction.
//!
//! An `UPDATE` here neither skips what others have locked nor answers rows, and a subquery with a limit cannot be updated from.

use super::{
    BY_KEY, BY_TIME, NOW, as_text, column, due, event_columns, from_text, micros, moment, named, payload,
};
use crate::table::text::{also_set, tie};
use crate::table::{Column, Shape};

/// Pending rows that are due, in the order of their time: at most so many (`?1`), since a place (`?2`) unless from the start, but
/// so many that the table would not have claimed (`?3` and on).
///
/// Under `READ COMMITTED` only the rows themselves are locked. Those of others are skipped.
pub(super) fn pick(shape: &Shape, from_start: bool, passed: usize) -> String {
    format!("{} FOR UPDATE SKIP LOCKED", picked(shape, from_start, "", &but_ids(shape, 3, passed)))
}

/// The same for an order by key, after so many (`?3`), without so many that the table would not have claimed (`?4` and on), and
/// those that were never tried of some keys (after them): what it is worth is decided by [`open_of_keys`]. Relays claim one after
/// another, so nothing is locked: a lock would be held on what is only looked at.
pub(super) fn pick_ordered(shape: &Shape, from_start: bool, passed: usize, left_out: usize) -> String {
    let but = but_ids(shape, 4, passed);
    let Some(key) = shape.order_column() else { return picked(shape, from_start, "", &but) };
    let columns = format!(
        ", {}, {}, CAST({} > 0 AS SIGNED), {}",
        as_text(shape, key),
        micros(&column(shape, Column::CreatedAt)),
        column(shape, Column::Attempts),
        micros(&column(shape, Column::AvailableAt))
    );
    let but = if left_out == 0 {
        but
    } else {
        let (keys, key) = (values(shape, key, 4 + passed, left_out), column(shape, key));
        format!(
            "{but} AND ({} > 0 OR {key} IS NULL OR {key} NOT IN ({keys}))",
            column(shape, Column::Attempts)
        )
    };
    format!("{} OFFSET ?3", picked(shape, from_start, &columns, &but))
}

/// Without so many ids, from this number on. They are values, which the server sorts once; a list in JSON it would read for every row.
fn but_ids(shape: &Shape, first: usize, count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    format!(" AND {} NOT IN ({})", column(shape, Column::Id), values(shape, Column::Id, first, count))
}

/// Values for a column, from this number on.
fn values(shape: &Shape, column: Column, first: usize, count: usize) -> String {
    let value = |number: usize| from_text(shape, column, &format!("?{number}"));
    (first..first + count).map(value).collect::<Vec<_>>().join(", ")
}

fn picked(shape: &Shape, from_start: bool, columns: &str, but: &str) -> String {
    let available = column(shape, Column::AvailableAt);
    let due = if from_start {
        due(shape)
    } else {
        format!("{available} <= {NOW} AND {available} >= {}", moment("?2"))
    };
    format!(
        "SELECT {}, {}{columns} FROM {} AS t {BY_TIME} WHERE {} = {} AND {due}{but} ORDER BY {available}, {}, t.{} LIMIT ?1",
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

/// What is open of these keys (`?5` and on) up to a time (`?1`) in its order, as far as it is due or holds later ones of its key
/// back: its id, its key, whether it holds back, since when it is due if it is pending, and when it was
/// made.
///
/// The keys and the time are values and no join: only for values does the server read no more of an index than what lies between
/// them. Looked for row by row, everything that waits of a key would be read for every row of it.
pub(super) fn open_of_keys(shape: &Shape, from_start: bool, keys: usize) -> String {
    let Some(key) = shape.order_column() else { return "SELECT 1 FROM DUAL WHERE FALSE".to_owned() };
    let (status, created) = (column(shape, Column::Status), column(shape, Column::CreatedAt));
    let (pending, delivering) =
        (shape.profile.states.pending.literal(), shape.profile.states.delivering.literal());
    let holds = holds(shape, key, from_start);
    format!(
        "SELECT {}, {}, CAST({holds} AS SIGNED), IF({status} = {pending}, COALESCE({}, 0), NULL), {} FROM {} AS t {BY_KEY} WHERE {} IN ({}) \
         AND {status} IN ({pending}, {delivering}) AND {created} <= {} AND ({holds} OR {status} = {pending} AND {}) \
         ORDER BY {created}, t.{}",
        as_text(shape, Column::Id),
        as_text(shape, key),
        micros(&column(shape, Column::AvailableAt)),
        micros(&created),
        shape.profile.table.quoted(),
        column(shape, key),
        values(shape, key, 5, keys),
        moment("?1"),
        due(shape),
        tie(shape)
    )
}

/// That an open row holds later ones of its key back; see `blocked` for Postgres.
fn holds(shape: &Shape, key: Column, from_start: bool) -> String {
    let (status, available) = (column(shape, Column::Status), column(shape, Column::AvailableAt));
    let attempts = column(shape, Column::Attempts);
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    if key != Column::Key {
        return format!(
            "({status} = {delivering} OR {attempts} > 0 OR COALESCE({available} <= {NOW}, TRUE))"
        );
    }
    let (locked_by, id) = (as_text(shape, Column::LockedBy), as_text(shape, Column::Id));
    let late = if from_start {
        String::new()
    } else {
        format!(" OR COALESCE({available} < {}, TRUE)", moment("?2"))
    };
    format!(
        "({status} = {delivering} AND ({} IS NULL OR NOT JSON_CONTAINS(?3, JSON_QUOTE({locked_by})) \
         OR JSON_CONTAINS(?4, JSON_QUOTE({id}))) OR {status} = {pending} AND ({attempts} > 0{late}))",
        column(shape, Column::LockedBy)
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
