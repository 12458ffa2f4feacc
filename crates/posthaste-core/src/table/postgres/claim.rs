//! Claiming: pick, lock, lease and read in one statement.

use super::super::text::also_set;
use super::super::{Column, Shape};
use super::{address, cast, event_columns, id_array, is_among, payload, token_array};

/// Whether rows come in the order of their key, and how earlier rows of a key are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordered {
    Not,
    /// The key has an index: for each row by itself. Left to the planner, everything that is pending would be read in every claim.
    ByIndex,
    /// The key has none: as the planner likes, which then is to read the whole table once.
    ByScan,
}

/// Pending rows that are due, in the order of their time, as many as fit into events (`$2`) and bytes (`$3`), leased under a
/// token (`$1`), but those that the table would not have claimed (`$7`).
///
/// What others have locked is skipped. With `from_start` the whole of what is pending is looked at, otherwise what is due
/// since a place (`$4`): entries of rows that were pending once stay at the head of the index for as long as any snapshot may
/// need them, and would all be passed over in every claim.
pub(super) fn claim(shape: &Shape, ordered: Ordered, from_start: bool) -> String {
    let Parts { table, status, available, created, states, .. } = Parts::of(shape);
    let tie = tie(shape, ordered);
    let tie_column = tie.as_ref().map(|tie| format!(", t.{tie} AS tie")).unwrap_or_default();
    let picked_order = if tie.is_some() { "available, created, tie" } else { "available, created" };
    let picked = picked(shape, ordered, from_start);
    let size = size(shape);
    let at = address(shape);
    let among = is_among(shape, "SELECT at FROM fitting");
    let token = cast(shape, Column::LockedBy, "$1::text");
    let touched = also_set(shape, Column::UpdatedAt, "now()");
    let (locked_by, locked_at) = (shape.needed(Column::LockedBy), shape.needed(Column::LockedAt));
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let columns = event_columns(shape);
    format!(
        "WITH picked AS MATERIALIZED (
    SELECT t.{at} AS at, {size} AS size, t.{available} AS available, t.{created} AS created{tie_column}
    {picked} LIMIT $2::int8 FOR UPDATE OF t SKIP LOCKED
), fitting AS (
    SELECT at FROM (
        SELECT at, sum(size) OVER so_far AS total, row_number() OVER so_far AS n FROM picked
        WINDOW so_far AS (ORDER BY {picked_order} ROWS UNBOUNDED PRECEDING)) AS counted
    WHERE total <= $3::int8 OR n = 1
)
UPDATE {table} AS t SET {status} = {delivering}, {locked_by} = {token}, {locked_at} = now(){touched}
WHERE {among} AND t.{status} = {pending}
RETURNING {columns}"
    )
}

/// The id of the first row that a claim with the same parameters would take; nothing is locked.
pub(super) fn due(shape: &Shape, ordered: Ordered, from_start: bool) -> String {
    let (id, picked) = (shape.needed(Column::Id), picked(shape, ordered, from_start));
    format!("SELECT t.{id}::text {picked} LIMIT 1")
}

/// What a claim picks from, in its order.
fn picked(shape: &Shape, ordered: Ordered, from_start: bool) -> String {
    let Parts { table, status, available, created, states, .. } = Parts::of(shape);
    let available_is_null = shape.found(Column::AvailableAt).is_some_and(|found| found.nullable);
    let due = match (from_start, available_is_null) {
        (true, true) => format!("(t.{available} <= now() OR t.{available} IS NULL)"),
        (true, false) => format!("t.{available} <= now()"),
        (false, _) => format!("t.{available} <= now() AND t.{available} >= $4::timestamptz"),
    };
    let nulls = if available_is_null { " NULLS FIRST" } else { "" };
    let tie = tie(shape, ordered).map(|tie| format!(", t.{tie}")).unwrap_or_default();
    let unblocked = match ordered {
        Ordered::Not => String::new(),
        ordered => format!(" AND NOT {}", blocked(shape, ordered, from_start)),
    };
    format!(
        "FROM {table} AS t
    WHERE t.{status} = {} AND {due} AND t.{} <> ALL ({}){unblocked}
    ORDER BY t.{available}{nulls}, t.{created}{tie}",
        states.pending.literal(),
        shape.needed(Column::Id),
        id_array(shape, "$7")
    )
}

/// Rows of one transaction have one time. Where their order matters it is that of the ids; elsewhere the index gives it for nothing.
fn tie(shape: &Shape, ordered: Ordered) -> Option<String> {
    let by_id = (ordered != Ordered::Not).then(|| shape.needed(Column::Id));
    shape.quoted(Column::Sequence).or(by_id)
}

/// What a row weighs in a window: at least what its envelope does.
fn size(shape: &Shape) -> String {
    let headers =
        shape.quoted(Column::Headers).map(|name| format!(" + coalesce(octet_length(t.{name}::text), 0)"));
    let id = shape.needed(Column::Id);
    let headers = headers.unwrap_or_default();
    format!("coalesce(octet_length({}), 0)::int8 + octet_length(t.{id}::text) + 256{headers}", payload(shape))
}

/// That an earlier row of its key holds this one back.
///
/// An earlier row that failed does, and one that somebody else has in hand, or that this relay waits for too long (`$6`). One
/// that this relay holds under a token of its own (`$5`) does not: the relay sends the rows of a key one after another. Nor
/// does one that was never tried: it is due earlier, or at the same time with a lower tie, and so is claimed earlier; unless it came so
/// late that its time lies before the place, or the table would not have it claimed (`$7`). Where the key that orders is not the one
/// that the relay sees, every earlier row holds back.
fn blocked(shape: &Shape, ordered: Ordered, from_start: bool) -> String {
    let Some(key) = shape.order_column() else { return "false".to_owned() };
    let Parts { table, status, available, created, states, .. } = Parts::of(shape);
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let (attempts, locked_by) = (shape.needed(Column::Attempts), shape.needed(Column::LockedBy));
    let id = shape.needed(Column::Id);
    let tie = shape.quoted(Column::Sequence).unwrap_or_else(|| id.clone());
    let holds = if key == Column::Key {
        let (mine, slow, passed) = (token_array(shape, "$5"), id_array(shape, "$6"), id_array(shape, "$7"));
        let late = format!(" OR coalesce(e.{available} < $4::timestamptz, true)");
        let late = if from_start { String::new() } else { late };
        format!(
            "e.{status} = {delivering} AND (e.{locked_by} IS NULL OR e.{locked_by} <> ALL ({mine}) OR e.{id} = ANY ({slow})) \
             OR e.{status} = {pending} AND (e.{attempts} > 0 OR e.{id} = ANY ({passed}){late})"
        )
    } else {
        format!("e.{status} = {delivering} OR e.{attempts} > 0 OR coalesce(e.{available} <= now(), true)")
    };
    let key = shape.needed(key);
    // A query with an offset is never made a join of.
    let for_each = if ordered == Ordered::ByIndex { " OFFSET 0" } else { "" };
    format!(
        "EXISTS (SELECT FROM {table} AS e
        WHERE e.{key} = t.{key} AND e.{status} IN ({pending}, {delivering})
          AND (e.{created}, e.{tie}) < (t.{created}, t.{tie}) AND ({holds}){for_each})"
    )
}

/// Claims in order come one after another: one that began before another committed would not see what that one holds.
pub(super) fn order_lock(shape: &Shape) -> String {
    let name = shape.profile.table.quoted();
    // The name is a validated one in quotes; the first number tells our locks from those of others. One key of 64 bits: the
    // number of a table may have more bits than a signed one of 32 has.
    format!("SELECT pg_advisory_xact_lock((7070::int8 << 32) | '{name}'::regclass::oid::int8)")
}

struct Parts<'a> {
    table: String,
    status: String,
    available: String,
    created: String,
    states: &'a super::super::States,
}

impl<'a> Parts<'a> {
    fn of(shape: &'a Shape) -> Self {
        Self {
            table: shape.profile.table.quoted(),
            status: shape.needed(Column::Status),
            available: shape.needed(Column::AvailableAt),
            created: shape.needed(Column::CreatedAt),
            states: &shape.profile.states,
        }
    }
}
