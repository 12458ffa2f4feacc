//! Recording what became of claimed rows. Every statement is guarded by the state and by the tokens of the caller's claims:
//! whoever lost a row changes nothing.

use super::super::text::{self, also_set};
use super::super::{Column, Kind, Shape};
use super::{address, cast, event_columns, id_array, is_among, scalar_type, token_array};

fn unlocked(shape: &Shape) -> String {
    text::unlocked(shape, "now()")
}

fn update(shape: &Shape) -> String {
    format!("UPDATE {} AS t SET", shape.profile.table.quoted())
}

/// Rows with these ids (`$1`) that are held under one of these tokens (`$2`).
fn held(shape: &Shape) -> String {
    format!("t.{} = ANY ({}) AND {}", shape.needed(Column::Id), id_array(shape, "$1"), guard(shape, "$2"))
}

fn guard(shape: &Shape, tokens: &str) -> String {
    format!(
        "t.{} = {} AND t.{} = ANY ({})",
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy),
        token_array(shape, tokens)
    )
}

pub(super) fn delivered(shape: &Shape) -> String {
    let (status, state) = (shape.needed(Column::Status), shape.profile.states.delivered.literal());
    let at = also_set(shape, Column::DeliveredAt, "now()");
    format!("{} {status} = {state}, {}{at} WHERE {}", update(shape), unlocked(shape), held(shape))
}

pub(super) fn released(shape: &Shape) -> String {
    let (status, state) = (shape.needed(Column::Status), shape.profile.states.pending.literal());
    format!("{} {status} = {state}, {} WHERE {}", update(shape), unlocked(shape), held(shape))
}

pub(super) fn released_claims(shape: &Shape) -> String {
    let (status, state) = (shape.needed(Column::Status), shape.profile.states.pending.literal());
    format!("{} {status} = {state}, {} WHERE {}", update(shape), unlocked(shape), guard(shape, "$1"))
}

/// A budget (`$3`) says when a row is dead.
pub(super) fn abandoned(shape: &Shape) -> String {
    let (status, state) = (shape.needed(Column::Status), dead_if_spent(shape, "$3::int8"));
    let attempts = shape.needed(Column::Attempts);
    let error = also_set(shape, Column::LastError, &error_text(shape, text::UNANSWERED));
    format!(
        "{} {status} = {state}, {attempts} = t.{attempts} + 1{error}, {} WHERE {}",
        update(shape),
        unlocked(shape),
        held(shape)
    )
}

pub(super) fn renewed(shape: &Shape) -> String {
    let locked_at = shape.needed(Column::LockedAt);
    let touched = also_set(shape, Column::UpdatedAt, "now()");
    format!("{} {locked_at} = now(){touched} WHERE {}", update(shape), held(shape))
}

/// Tried again later; without an error it was no attempt.
pub(super) fn retry(shape: &Shape) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let (states, available) = (&shape.profile.states, shape.needed(Column::AvailableAt));
    let due = "now() + s.after * interval '1 millisecond'";
    let (state, due) = match shape.quoted(Column::MaxAttempts) {
        Some(most) => {
            let dies = format!("s.error IS NOT NULL AND t.{attempts} + 1 >= t.{most}");
            // What is dead is due no more: a redrive in steps would take a time that comes while it runs for its own work.
            let due = format!("CASE WHEN {dies} THEN t.{available} ELSE {due} END");
            (either(shape, &dies, &states.dead.literal(), &states.pending.literal()), due)
        }
        None => (states.pending.literal(), due.to_owned()),
    };
    let said = error_text(shape, "s.error");
    let last = shape.quoted(Column::LastError).map(|last| format!("coalesce({said}, t.{last})"));
    let error = also_set(shape, Column::LastError, last.as_deref().unwrap_or_default());
    let counted = "CASE WHEN s.error IS NULL THEN 0 ELSE 1 END";
    format!(
        "{} {status} = {state}, {attempts} = t.{attempts} + {counted}, {available} = {due}{error}, {}
FROM unnest($1::text[], $3::int8[], $4::text[]) AS s (id, after, error)
WHERE {}",
        update(shape),
        unlocked(shape),
        one_of_held(shape)
    )
}

pub(super) fn dead(shape: &Shape) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let available = shape.needed(Column::AvailableAt);
    let (state, later) = match shape.quoted(Column::MaxAttempts) {
        // The row allows more than the policy: it is tried on, an hour apart.
        Some(most) => {
            let goes_on = format!("s.spent AND t.{attempts} + 1 < t.{most}");
            let later = format!(
                ", {available} = CASE WHEN {goes_on} THEN now() + interval '1 hour' ELSE t.{available} END"
            );
            (either(shape, &goes_on, &states.pending.literal(), &states.dead.literal()), later)
        }
        None => (states.dead.literal(), String::new()),
    };
    let error = also_set(shape, Column::LastError, &error_text(shape, "s.error"));
    format!(
        "{} {status} = {state}, {attempts} = t.{attempts} + 1{later}{error}, {}
FROM unnest($1::text[], $3::text[], $4::bool[]) AS s (id, error, spent)
WHERE {}",
        update(shape),
        unlocked(shape),
        one_of_held(shape)
    )
}

/// The row of `s`, if it is held under one of these tokens (`$2`).
fn one_of_held(shape: &Shape) -> String {
    let id = cast(shape, Column::Id, "s.id");
    format!("t.{} = {id} AND {}", shape.needed(Column::Id), guard(shape, "$2"))
}

/// What an operator took to bury it, under this token (`$2`), with this error (`$1`).
pub(super) fn buried(shape: &Shape) -> String {
    format!(
        "UPDATE {} AS t SET {} WHERE t.{} = {} AND t.{} = {} AND $1::text IS NOT NULL",
        shape.profile.table.quoted(),
        text::buried(shape, "now()", &error_text(shape, "$1::text")),
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy),
        cast(shape, Column::LockedBy, "$2::text")
    )
}

/// One of two states; the type must be said where a state is more than text.
fn either(shape: &Shape, condition: &str, yes: &str, no: &str) -> String {
    let choice = format!("CASE WHEN {condition} THEN {yes} ELSE {no} END");
    match scalar_type(shape, Column::Status) {
        Some(sql_type) => format!("({choice})::{sql_type}"),
        None => choice,
    }
}

/// Pending, or dead if one attempt more spends the row's own budget, else this one.
fn dead_if_spent(shape: &Shape, budget: &str) -> String {
    let states = &shape.profile.states;
    either(shape, &is_spent(shape, budget), &states.dead.literal(), &states.pending.literal())
}

/// That one attempt more spends the row's own budget, else this one.
fn is_spent(shape: &Shape, budget: &str) -> String {
    let attempts = shape.needed(Column::Attempts);
    match shape.quoted(Column::MaxAttempts) {
        Some(most) => format!("t.{attempts} + 1 >= coalesce(t.{most}, {budget})"),
        None => format!("t.{attempts} + 1 >= {budget}"),
    }
}

/// An error as the column takes it: no longer than it may be.
fn error_text(shape: &Shape, value: &str) -> String {
    match shape.found(Column::LastError).and_then(|found| found.chars_max) {
        Some(chars) => format!("left({value}, {chars})"),
        None => value.to_owned(),
    }
}

/// Leases that have ended for so long (`$1`), the oldest first; a row that is delivering and says not since when counts as one.
fn expired(shape: &Shape) -> String {
    let (table, locked_at) = (shape.profile.table.quoted(), shape.needed(Column::LockedAt));
    // Rows of one claim have one time; to be passed over by their number they need an order.
    format!(
        "FROM {table} AS t WHERE {} ORDER BY t.{locked_at}, t.{}",
        is_expired(shape),
        shape.needed(Column::Id)
    )
}

fn is_expired(shape: &Shape) -> String {
    let locked_at = shape.needed(Column::LockedAt);
    format!(
        "t.{} = {} AND (t.{locked_at} <= now() - $1::int8 * interval '1 millisecond' OR t.{locked_at} IS NULL)",
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal()
    )
}

/// The id of the one that comes after so many (`$2`).
pub(super) fn expired_id(shape: &Shape) -> String {
    format!("SELECT t.{}::text {} LIMIT 1 OFFSET $2::int8", shape.needed(Column::Id), expired(shape))
}

/// At most so many of them (`$2`) after so many (`$4`). They are chosen before they are locked: a lock beside the number to pass over
/// would lock those too, and two sweeps would count past each other's.
pub(super) fn sweep(shape: &Shape) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let state = dead_if_spent(shape, "$3::int8");
    let error = also_set(shape, Column::LastError, &error_text(shape, text::LEASE_EXPIRED));
    format!(
        "WITH chosen AS MATERIALIZED (
    SELECT t.{at} AS at {expired} LIMIT $2::int8 OFFSET $4::int8
), expired AS MATERIALIZED (
    SELECT t.{at} AS at FROM {table} AS t WHERE {among_chosen} AND {is_expired} FOR UPDATE OF t SKIP LOCKED
), swept AS (
    UPDATE {table} AS t SET {status} = {state}, {attempts} = t.{attempts} + 1{error}, {unlocked}
    WHERE {among} AND t.{status} = {delivering}
    RETURNING t.{status} = {dead} AS is_dead, t.{status} = {delivering} AS is_stuck
)
SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM expired), count(*) FILTER (WHERE is_stuck IS NOT TRUE),
    count(*) FILTER (WHERE is_dead) FROM swept",
        at = address(shape),
        among_chosen = is_among(shape, "SELECT at FROM chosen"),
        is_expired = is_expired(shape),
        table = shape.profile.table.quoted(),
        delivering = states.delivering.literal(),
        dead = states.dead.literal(),
        expired = expired(shape),
        unlocked = unlocked(shape),
        among = is_among(shape, "SELECT at FROM expired"),
    )
}

pub(super) fn insert(shape: &Shape, optional: &[Column]) -> String {
    let states = &shape.profile.states;
    let mut names =
        [Column::Id, Column::Type, Column::Payload, Column::AvailableAt].map(|c| shape.needed(c)).to_vec();
    let mut values = vec![
        cast(shape, Column::Id, "$1::text"),
        "$2::text".to_owned(),
        payload_value(shape, "$3"),
        "coalesce($4::timestamptz, now())".to_owned(),
    ];
    for (number, column) in (5..).zip(optional) {
        names.push(shape.needed(*column));
        values.push(match column {
            Column::Version => format!("${number}::int8"),
            Column::OccurredAt => format!("coalesce(${number}::timestamptz, now())"),
            Column::Headers if shape.found(Column::Headers).is_some_and(|found| found.kind == Kind::Json) => {
                format!("${number}::text::json")
            }
            column => cast(shape, *column, &format!("${number}::text")),
        });
    }
    for (column, value) in [
        (Column::Status, states.pending.literal()),
        (Column::Attempts, "0".to_owned()),
        (Column::CreatedAt, "now()".to_owned()),
    ] {
        names.push(shape.needed(column));
        values.push(value);
    }
    let id = shape.needed(Column::Id);
    format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({id}) DO NOTHING",
        shape.profile.table.quoted(),
        names.join(", "),
        values.join(", ")
    )
}

fn payload_value(shape: &Shape, parameter: &str) -> String {
    match shape.found(Column::Payload).map(|found| found.kind) {
        Some(Kind::Bytes) => format!("{parameter}::bytea"),
        Some(Kind::Json) => format!("convert_from({parameter}::bytea, 'UTF8')::json"),
        _ => format!("convert_from({parameter}::bytea, 'UTF8')"),
    }
}

/// The event with this id (`$1`).
pub(super) fn same(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} AS t WHERE t.{} = {}",
        event_columns(shape),
        shape.profile.table.quoted(),
        shape.needed(Column::Id),
        cast(shape, Column::Id, "$1::text")
    )
}
