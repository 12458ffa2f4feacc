//! Recording what became of claimed rows, guarded by their state and the tokens of the caller's claims.

use super::{columns, time};
use crate::table::text::{self, LEASE_EXPIRED, UNANSWERED, also_set, unlocked};
use crate::table::{Column, Shape, StateName};

pub(super) fn guard(shape: &Shape, tokens: &str) -> String {
    format!(
        "{} = {} AND {} IN (SELECT value FROM json_each({tokens}))",
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy)
    )
}

pub(super) fn held(shape: &Shape) -> String {
    format!("{} IN (SELECT value FROM json_each(?1)) AND {}", shape.needed(Column::Id), guard(shape, "?2"))
}

/// Rows with these ids (`?1`) held under these tokens (`?2`) go to a state, now (`?3`).
pub(super) fn settled(shape: &Shape, state: &StateName, also: &str) -> String {
    to(shape, &state.literal(), also)
}

/// SQLite wants each parameter to be used, also where the table has no column for the time.
fn to(shape: &Shape, state: &str, also: &str) -> String {
    format!(
        "UPDATE {} SET {} = {state}, {}{also} WHERE {} AND ?3 IS NOT NULL",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        unlocked(shape, "?3"),
        held(shape)
    )
}

fn attempt(shape: &Shape) -> String {
    let attempts = shape.needed(Column::Attempts);
    format!(", {attempts} = {attempts} + 1")
}

/// Rows with these ids (`?1`) held under these tokens (`?2`) are given up, now (`?3`); a budget (`?4`) says which are dead.
pub(super) fn abandoned(shape: &Shape) -> String {
    let error = also_set(shape, Column::LastError, UNANSWERED);
    let also = format!("{}{error}", attempt(shape));
    to(shape, &dead_if_spent(shape, "?4"), &also)
}

/// Pending, or dead if one attempt more spends the row's own budget, else this one.
fn dead_if_spent(shape: &Shape, budget: &str) -> String {
    let states = &shape.profile.states;
    let (dead, pending) = (states.dead.literal(), states.pending.literal());
    format!("CASE WHEN {} THEN {dead} ELSE {pending} END", is_spent(shape, budget))
}

/// That one attempt more spends the row's own budget, else this one.
fn is_spent(shape: &Shape, budget: &str) -> String {
    let attempts = shape.needed(Column::Attempts);
    let budget = shape
        .quoted(Column::MaxAttempts)
        .map_or(budget.to_owned(), |most| format!("coalesce({most}, {budget})"));
    format!("{attempts} + 1 >= {budget}")
}

pub(super) fn released_claims(shape: &Shape) -> String {
    format!(
        "UPDATE {} SET {} = {}, {} WHERE {} AND ?2 IS NOT NULL",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        shape.profile.states.pending.literal(),
        unlocked(shape, "?2"),
        guard(shape, "?1")
    )
}

pub(super) fn renewed(shape: &Shape) -> String {
    let touched = also_set(shape, Column::UpdatedAt, "?3");
    format!(
        "UPDATE {} SET {} = ?3{touched} WHERE {}",
        shape.profile.table.quoted(),
        shape.needed(Column::LockedAt),
        held(shape)
    )
}

/// Tried again later; without an error it was no attempt.
pub(super) fn retry(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, shape.needed(Column::Attempts));
    let (pending, available) = (states.pending.literal(), shape.needed(Column::AvailableAt));
    let (state, due) = match shape.quoted(Column::MaxAttempts) {
        Some(most) => {
            let dies = format!("?5 IS NOT NULL AND {attempts} + 1 >= {most}");
            // What is dead is due no more: a redrive in steps would take a time that comes while it runs for its own work.
            let due = format!("CASE WHEN {dies} THEN {available} ELSE ?4 END");
            (format!("CASE WHEN {dies} THEN {} ELSE {pending} END", states.dead.literal()), due)
        }
        None => (pending, "?4".to_owned()),
    };
    let last = shape.quoted(Column::LastError).map(|last| format!("coalesce(?5, {last})"));
    format!(
        "UPDATE {} SET {} = {state}, {available} = {due}, {attempts} = {attempts} + (?5 IS NOT NULL){}, {} WHERE {} = ?1 AND {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        also_set(shape, Column::LastError, last.as_deref().unwrap_or_default()),
        unlocked(shape, "?3"),
        shape.needed(Column::Id),
        guard(shape, "?2")
    )
}

pub(super) fn dead(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, shape.needed(Column::Attempts));
    let available = shape.needed(Column::AvailableAt);
    // The row may allow more than the policy: it is tried on, an hour apart. Without such a column the two are not used.
    let goes_on = match shape.quoted(Column::MaxAttempts) {
        Some(most) => format!("?5 AND {attempts} + 1 < {most}"),
        None => "?5 AND false".to_owned(),
    };
    format!(
        "UPDATE {} SET {} = CASE WHEN {goes_on} THEN {} ELSE {} END,
    {available} = CASE WHEN {goes_on} THEN ?6 ELSE {available} END{}{}, {} WHERE {} = ?1 AND {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        states.pending.literal(),
        states.dead.literal(),
        attempt(shape),
        also_set(shape, Column::LastError, "?4"),
        unlocked(shape, "?3"),
        shape.needed(Column::Id),
        guard(shape, "?2")
    )
}

/// What an operator took to bury it, under these tokens (`?1`), now (`?2`), with this error (`?3`).
pub(super) fn buried(shape: &Shape) -> String {
    format!(
        "UPDATE {} SET {} WHERE {} AND ?3 IS NOT NULL",
        shape.profile.table.quoted(),
        text::buried(shape, "?2", "?3"),
        guard(shape, "?1")
    )
}

/// Rows that were leased before a moment (`?1`), the oldest first: at most so many (`?2`) after so many (`?5`) are taken back, by a
/// budget (`?3`), now (`?4`).
pub(super) fn sweep(shape: &Shape) -> String {
    let (id, status, locked_at) =
        (shape.needed(Column::Id), shape.needed(Column::Status), shape.needed(Column::LockedAt));
    let error = also_set(shape, Column::LastError, LEASE_EXPIRED);
    format!(
        "UPDATE {table} SET {status} = {}{}{error}, {}
WHERE {id} IN (SELECT t.{id} {} ORDER BY t.{locked_at}, t.{id} LIMIT ?2 OFFSET ?5)
RETURNING {status} = {dead}",
        dead_if_spent(shape, "?3"),
        attempt(shape),
        unlocked(shape, "?4"),
        expired(shape),
        table = shape.profile.table.quoted(),
        dead = shape.profile.states.dead.literal(),
    )
}

/// The id of the one that comes after so many (`?2`).
pub(super) fn expired_id(shape: &Shape) -> String {
    let (id, locked_at) = (shape.needed(Column::Id), shape.needed(Column::LockedAt));
    format!("SELECT CAST(t.{id} AS TEXT) {} ORDER BY t.{locked_at}, t.{id} LIMIT 1 OFFSET ?2", expired(shape))
}

/// Rows that were leased before a moment (`?1`), or say not since when.
pub(super) fn expired(shape: &Shape) -> String {
    format!(
        "FROM {} AS t WHERE t.{} = {} AND coalesce({} <= ?1, true)",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        time(&format!("t.{}", shape.needed(Column::LockedAt)))
    )
}

pub(super) fn insert(shape: &Shape, optional: &[Column]) -> String {
    let fixed = [
        Column::Id,
        Column::Type,
        Column::Payload,
        Column::AvailableAt,
        Column::CreatedAt,
        Column::Status,
        Column::Attempts,
    ];
    let mut names: Vec<_> = fixed.map(|column| shape.needed(column)).to_vec();
    let mut values: Vec<_> =
        ["?1", "?2", "?3", "coalesce(?4, ?5)", "?5", &shape.profile.states.pending.literal(), "0"]
            .map(str::to_owned)
            .to_vec();
    for (number, column) in (6..).zip(optional) {
        names.push(shape.needed(*column));
        values.push(if *column == Column::OccurredAt {
            format!("coalesce(?{number}, ?5)")
        } else {
            format!("?{number}")
        });
    }
    let id = shape.needed(Column::Id);
    format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({id}) DO NOTHING",
        shape.profile.table.quoted(),
        names.join(", "),
        values.join(", ")
    )
}

pub(super) fn same(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} AS t WHERE t.{} = ?1",
        columns(shape),
        shape.profile.table.quoted(),
        shape.needed(Column::Id)
    )
}
