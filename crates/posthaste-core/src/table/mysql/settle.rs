//! Recording what became of claimed rows. Every statement is guarded by the state and by the tokens of the caller's claims:
//! whoever lost a row changes nothing.

use super::{NOW, by_id, column, error_text, event_columns, from_text, json_type, list, moment, named};
use crate::table::text::{self, LEASE_EXPIRED, UNANSWERED, also_set, unlocked};
use crate::table::{Column, Kind, Shape, StateName};

/// Rows with these ids (`?1`) that are held under one of these tokens (`?2`) get these values.
fn held(shape: &Shape, values: &str) -> String {
    guarded(shape, &named(shape), values)
}

/// Rows that are joined to what names them get these values, if they are held under one of these tokens (`?2`). The few tokens
/// come last.
fn guarded(shape: &Shape, rows: &str, values: &str) -> String {
    format!(
        "UPDATE {rows} STRAIGHT_JOIN {} ON {} = {} SET {values} WHERE {}",
        list(shape, Column::LockedBy, "?2", "k"),
        column(shape, Column::LockedBy),
        from_text(shape, Column::LockedBy, "k.v$"),
        is_delivering(shape),
    )
}

fn is_delivering(shape: &Shape) -> String {
    format!("{} = {}", column(shape, Column::Status), shape.profile.states.delivering.literal())
}

/// `t.status = …`, and no lease any more.
fn to(shape: &Shape, state: &str) -> String {
    format!("{} = {state}, {}", column(shape, Column::Status), unlocked(shape, NOW))
}

fn to_state(shape: &Shape, state: &StateName) -> String {
    to(shape, &state.literal())
}

/// The last thing that an update says: what stands after it would see the new number.
fn attempt(shape: &Shape, how_many: &str) -> String {
    let attempts = column(shape, Column::Attempts);
    format!(", {attempts} = {attempts} + {how_many}")
}

pub(super) fn delivered(shape: &Shape) -> String {
    let at = also_set(shape, Column::DeliveredAt, NOW);
    held(shape, &format!("{}{at}", to_state(shape, &shape.profile.states.delivered)))
}

pub(super) fn released(shape: &Shape) -> String {
    held(shape, &to_state(shape, &shape.profile.states.pending))
}

/// What an operator took to bury it, with this error (`?3`).
pub(super) fn buried(shape: &Shape) -> String {
    held(shape, &text::buried(shape, NOW, &error_text(shape, "?3")))
}

/// A budget (`?3`) says when a row is dead.
pub(super) fn abandoned(shape: &Shape) -> String {
    let error = also_set(shape, Column::LastError, &error_text(shape, UNANSWERED));
    let state = to(shape, &dead_if_spent(shape, "?3"));
    held(shape, &format!("{state}{error}{}", attempt(shape, "1")))
}

/// Pending, or dead if one attempt more spends the row's own budget, else this one.
fn dead_if_spent(shape: &Shape, budget: &str) -> String {
    let states = &shape.profile.states;
    let (dead, pending) = (states.dead.literal(), states.pending.literal());
    format!("CASE WHEN {} THEN {dead} ELSE {pending} END", is_spent(shape, budget))
}

pub(super) fn renewed(shape: &Shape) -> String {
    let touched = also_set(shape, Column::UpdatedAt, NOW);
    held(shape, &format!("{} = {NOW}{touched}", column(shape, Column::LockedAt)))
}

/// The ids of what these claims (`?1`) hold. It is looked at before it is changed: a change would wait for every row that it
/// has to read to find them.
pub(super) fn held_by(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} STRAIGHT_JOIN {} AS t ON {} = {} WHERE {}",
        super::as_text(shape, Column::Id),
        list(shape, Column::LockedBy, "?1", "k"),
        shape.profile.table.quoted(),
        column(shape, Column::LockedBy),
        from_text(shape, Column::LockedBy, "k.v$"),
        is_delivering(shape)
    )
}

/// Tried again later; without an error it was no attempt.
pub(super) fn retry(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, column(shape, Column::Attempts));
    let available = column(shape, Column::AvailableAt);
    let (pending, due) = (states.pending.literal(), format!("{NOW} + INTERVAL s.after$ * 1000 MICROSECOND"));
    let (state, due) = match shape.quoted(Column::MaxAttempts) {
        Some(most) => {
            let dies = format!("s.error$ IS NOT NULL AND {attempts} + 1 >= t.{most}");
            // What is dead is due no more: a redrive in steps would take a time that comes while it runs for its own work.
            let due = format!("CASE WHEN {dies} THEN {available} ELSE {due} END");
            (format!("CASE WHEN {dies} THEN {} ELSE {pending} END", states.dead.literal()), due)
        }
        None => (pending, due),
    };
    let last = shape.quoted(Column::LastError);
    let last = last.map(|last| format!("COALESCE({}, t.{last})", error_text(shape, "s.error$")));
    let error = also_set(shape, Column::LastError, last.as_deref().unwrap_or_default());
    let values = format!(
        "{}, {available} = {due}{error}{}",
        to(shape, &state),
        attempt(shape, "CASE WHEN s.error$ IS NULL THEN 0 ELSE 1 END")
    );
    guarded(
        shape,
        &outcomes(shape, "after$ bigint PATH '$[1]', error$ text CHARACTER SET utf8mb4 PATH '$[2]'"),
        &values,
    )
}

pub(super) fn dead(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, column(shape, Column::Attempts));
    let available = column(shape, Column::AvailableAt);
    let (state, later) = match shape.quoted(Column::MaxAttempts) {
        // The row allows more than the policy: it is tried on, an hour apart.
        Some(most) => {
            let goes_on = format!("s.spent$ AND {attempts} + 1 < t.{most}");
            let (pending, dead) = (states.pending.literal(), states.dead.literal());
            (
                format!("CASE WHEN {goes_on} THEN {pending} ELSE {dead} END"),
                format!(
                    ", {available} = CASE WHEN {goes_on} THEN {NOW} + INTERVAL 1 HOUR ELSE {available} END"
                ),
            )
        }
        None => (states.dead.literal(), String::new()),
    };
    let error = also_set(shape, Column::LastError, &error_text(shape, "s.error$"));
    let values = format!("{}{later}{error}{}", to(shape, &state), attempt(shape, "1"));
    guarded(
        shape,
        &outcomes(shape, "error$ text CHARACTER SET utf8mb4 PATH '$[1]', spent$ int PATH '$[2]'"),
        &values,
    )
}

/// Rows by an id and more columns of JSON (`?1`).
fn outcomes(shape: &Shape, columns: &str) -> String {
    let from = format!(
        "JSON_TABLE(?1, '$[*]' COLUMNS (id$ {} PATH '$[0]', {columns})) AS s",
        json_type(shape, Column::Id)
    );
    by_id(shape, &from, "s.id$")
}

/// That the attempts of a row are spent with one more: by its own column, else by a budget (`parameter`).
fn is_spent(shape: &Shape, parameter: &str) -> String {
    let budget = shape
        .quoted(Column::MaxAttempts)
        .map_or(parameter.to_owned(), |most| format!("COALESCE(t.{most}, {parameter})"));
    format!("{} + 1 >= {budget}", column(shape, Column::Attempts))
}

/// Leases that have ended, the oldest first, at most so many (`?2`) after so many (`?3`). Nothing is locked: a lock beside the number to
/// pass over would lock those too, and two sweeps would count past each other's.
pub(super) fn expired(shape: &Shape) -> String {
    // Rows of one claim have one time; to be passed over by their number they need an order.
    format!(
        "SELECT {} FROM {} AS t WHERE {} ORDER BY {}, {} LIMIT ?2 OFFSET ?3",
        super::as_text(shape, Column::Id),
        shape.profile.table.quoted(),
        is_expired(shape, "?1"),
        column(shape, Column::LockedAt),
        column(shape, Column::Id)
    )
}

/// That a lease has ended for so long; a row that is delivering and says not since when counts as one.
fn is_expired(shape: &Shape, millis: &str) -> String {
    let locked_at = column(shape, Column::LockedAt);
    format!(
        "{} AND ({locked_at} <= {NOW} - INTERVAL {millis} * 1000 MICROSECOND OR {locked_at} IS NULL)",
        is_delivering(shape)
    )
}

/// Locks those of these rows (`?1`) whose lease has ended for so long (`?2`), and says whether they die by a budget (`?3`).
pub(super) fn lock_expired(shape: &Shape) -> String {
    format!(
        "SELECT {}, {} FROM {} WHERE {} FOR UPDATE SKIP LOCKED",
        super::as_text(shape, Column::Id),
        is_spent(shape, "?3"),
        named(shape),
        is_expired(shape, "?2")
    )
}

/// How many of these rows (`?1`) are still delivering.
pub(super) fn still(shape: &Shape) -> String {
    format!("SELECT COUNT(*) FROM {} WHERE {}", named(shape), is_delivering(shape))
}

pub(super) fn sweep(shape: &Shape) -> String {
    format!(
        "UPDATE {} SET {}{}{} WHERE {}",
        named(shape),
        to(shape, &dead_if_spent(shape, "?2")),
        also_set(shape, Column::LastError, &error_text(shape, LEASE_EXPIRED)),
        attempt(shape, "1"),
        is_delivering(shape)
    )
}

pub(super) fn insert(shape: &Shape, optional: &[Column]) -> String {
    let mut names =
        [Column::Id, Column::Type, Column::Payload, Column::AvailableAt].map(|c| shape.needed(c)).to_vec();
    let mut values = vec![
        from_text(shape, Column::Id, "?1"),
        "?2".to_owned(),
        payload_value(shape, "?3"),
        format!("COALESCE({}, {NOW} + INTERVAL ?5 MICROSECOND, {NOW})", moment("?4")),
    ];
    for (number, column) in (6..).zip(optional) {
        names.push(shape.needed(*column));
        values.push(match column {
            Column::OccurredAt => format!("COALESCE({}, {NOW})", moment(&format!("?{number}"))),
            column => from_text(shape, *column, &format!("?{number}")),
        });
    }
    for (column, value) in [
        (Column::Status, shape.profile.states.pending.literal()),
        (Column::Attempts, "0".to_owned()),
        (Column::CreatedAt, NOW.to_owned()),
    ] {
        names.push(shape.needed(column));
        values.push(value);
    }
    // One that is there fails, and the transaction goes on. IGNORE would also cut what is too long.
    format!(
        "INSERT INTO {} ({}) VALUES ({})",
        shape.profile.table.quoted(),
        names.join(", "),
        values.join(", ")
    )
}

fn payload_value(shape: &Shape, parameter: &str) -> String {
    match shape.found(Column::Payload).map(|found| found.kind) {
        Some(Kind::Bytes) => parameter.to_owned(),
        _ => format!("CONVERT({parameter} USING utf8mb4)"),
    }
}

/// The event with this id (`?1`).
pub(super) fn same(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} AS t WHERE {} = {}",
        event_columns(shape),
        shape.profile.table.quoted(),
        column(shape, Column::Id),
        from_text(shape, Column::Id, "?1")
    )
}
