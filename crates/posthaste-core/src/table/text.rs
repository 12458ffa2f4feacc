//! What statements say in the same words, whatever database they are for.

use super::{Column, RowChange, Shape, StateName};
use crate::admin::EventState;
use crate::pattern::Pattern;

/// How the error of a row begins that an operator gave up: such a row stays dead for everybody else.
const DISCARDED: &str = "'discarded: %'";

/// What is stored of a row that was delivered and is to come again: the target must not take it for a duplicate of itself.
pub const REPLAYED: &str = "REPLAYED";

/// What is stored of a row that was sent when its relay ended.
pub(super) const UNANSWERED: &str = "'UNANSWERED: the relay ended before the target answered'";
/// What is stored of a row whose lease ended.
pub(super) const LEASE_EXPIRED: &str = "'LEASE_EXPIRED: the relay that held it gave no sign of life'";

/// `, name = value` for a column that the table may not have.
pub(super) fn also_set(shape: &Shape, column: Column, value: &str) -> String {
    shape.quoted(column).map(|name| format!(", {name} = {value}")).unwrap_or_default()
}

/// What a row that leaves the hands of a relay has in common with others: no lease.
pub(super) fn unlocked(shape: &Shape, now: &str) -> String {
    let (locked_by, locked_at) = (shape.needed(Column::LockedBy), shape.needed(Column::LockedAt));
    format!("{locked_by} = NULL, {locked_at} = NULL{}", also_set(shape, Column::UpdatedAt, now))
}

/// The columns that an insert fills beside those that every table has.
pub(super) fn insert_columns(shape: &Shape) -> Vec<Column> {
    insertable(|column| shape.has(column))
}

/// Those of them that a table has.
pub(super) fn insertable(has: impl Fn(Column) -> bool) -> Vec<Column> {
    let optional = [
        Column::Key,
        Column::Headers,
        Column::Topic,
        Column::Source,
        Column::Subject,
        Column::ContentType,
        Column::Version,
        Column::OccurredAt,
    ];
    optional.into_iter().filter(|column| has(*column)).collect()
}

/// How a column of an event is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    Text,
    Int,
    Time,
    Payload,
}

/// The columns of an event, in the order in which every driver reads a row.
pub(super) fn event_columns(read: impl Fn(Column, As) -> String) -> String {
    [
        (Column::Id, As::Text),
        (Column::Type, As::Text),
        (Column::Topic, As::Text),
        (Column::Key, As::Text),
        (Column::Headers, As::Text),
        (Column::Payload, As::Payload),
        (Column::Attempts, As::Int),
        (Column::CreatedAt, As::Time),
        (Column::AvailableAt, As::Time),
        (Column::Source, As::Text),
        (Column::Subject, As::Text),
        (Column::ContentType, As::Text),
        (Column::Version, As::Int),
        (Column::OccurredAt, As::Time),
        (Column::Sequence, As::Int),
        (Column::TraceId, As::Text),
        (Column::CorrelationId, As::Text),
        (Column::LastError, As::Text),
    ]
    .map(|(column, kind)| read(column, kind))
    .join(", ")
}

/// Counts the rows by state: fresh, waiting, delivered, dead, the oldest that is fresh, those in a
/// state that the profile does not name, those that were given up, those that are retried and the oldest of these. `due` is the
/// condition that a row's time has come, `created` how its age is read.
pub(super) fn counts(shape: &Shape, due: &str, created: &str) -> String {
    let status = shape.needed(Column::Status);
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let (fresh, retried) = (fresh(shape, due), retried(shape));
    let count = |condition: &str| format!("count(CASE WHEN {condition} THEN 1 END)");
    let is = |state: &StateName| format!("t.{status} = {}", state.literal());
    format!(
        "SELECT {}, {}, {}, {}, min(CASE WHEN {fresh} THEN {created} END), {}, {}, {}, \
         min(CASE WHEN {retried} THEN {created} END) FROM {} AS t",
        count(&fresh),
        count(&format!("t.{status} IN ({pending}, {delivering}) AND NOT ({fresh})")),
        count(&is(&states.delivered)),
        count(&dead(shape)),
        count(&unknown(shape)),
        count(&discarded(shape).unwrap_or_else(|| "1 = 0".to_owned())),
        count(&retried),
        shape.profile.table.quoted()
    )
}

/// Counts at most so many rows that meet a condition: all of them, those that are fresh, those that were given up, the oldest that
/// is fresh, those that are retried and the oldest of these; `due` and `created` as for [`counts`].
pub(super) fn bounded(shape: &Shape, condition: &str, due: &str, created: &str, rows: u32) -> String {
    let names = [Column::Status, Column::Attempts, Column::AvailableAt, Column::CreatedAt, Column::LastError];
    let names: Vec<_> = names.into_iter().filter_map(|column| shape.quoted(column)).collect();
    let columns: Vec<_> = names.iter().map(|name| format!("t.{name}")).collect();
    let (fresh, retried) = (fresh(shape, due), retried(shape));
    let given_up = discarded(shape).unwrap_or_else(|| "1 = 0".to_owned());
    format!(
        "SELECT count(*), count(CASE WHEN {fresh} THEN 1 END), count(CASE WHEN {given_up} THEN 1 END), \
         min(CASE WHEN {fresh} THEN {created} END), count(CASE WHEN {retried} THEN 1 END), \
         min(CASE WHEN {retried} THEN {created} END) \
         FROM (SELECT {} FROM {} AS t WHERE {condition} LIMIT {rows}) AS t",
        columns.join(", "),
        shape.profile.table.quoted()
    )
}

/// The conditions of the states in which a table has few rows, as a rule: pending, delivering, dead.
pub(super) fn small_states(shape: &Shape) -> [String; 3] {
    let states = &shape.profile.states;
    [&states.pending, &states.delivering, &states.dead]
        .map(|state| format!("t.{} = {}", shape.needed(Column::Status), state.literal()))
}

/// That nothing is recorded of a row yet. Claimed and not answered is as good as unread.
fn fresh(shape: &Shape, due: &str) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    format!("t.{attempts} = 0 AND (t.{status} = {pending} AND {due} OR t.{status} = {delivering})")
}

/// That a row has failed and is to come again, or is out for that.
fn retried(shape: &Shape) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    format!("t.{attempts} > 0 AND t.{status} IN ({pending}, {delivering})")
}

/// That a row is in a state; what is behind its key is not told apart from what is fresh.
pub(super) fn in_state(shape: &Shape, state: EventState, due: &str) -> Option<String> {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let is = |state: &StateName| format!("t.{status} = {}", state.literal());
    let pending = is(&states.pending);
    Some(match state {
        EventState::Pending => format!("({pending} OR {})", is(&states.delivering)),
        EventState::Retrying => format!("{pending} AND t.{attempts} > 0"),
        EventState::Scheduled => format!("{pending} AND t.{attempts} = 0 AND NOT {due}"),
        EventState::Delivering => is(&states.delivering),
        EventState::Delivered => is(&states.delivered),
        EventState::Dead => dead(shape),
        EventState::Discarded => return discarded(shape),
        EventState::Unknown => unknown(shape),
        EventState::Behind => return None,
    })
}

/// That a row is in a state that the profile does not name.
pub(super) fn unknown(shape: &Shape) -> String {
    let states = &shape.profile.states;
    let named =
        [&states.pending, &states.delivering, &states.delivered, &states.dead].map(|state| state.literal());
    format!("(t.{} IN ({})) IS NOT TRUE", shape.needed(Column::Status), named.join(", "))
}

/// A topic pattern as a regular expression over `.` and the topic, in what every database understands.
pub fn topic_expression(pattern: &Pattern) -> String {
    let words = pattern.as_str().split('.').map(|word| match word {
        "*" => r"\.[^.]*".to_owned(),
        "#" => r"(\.[^.]*)*".to_owned(),
        word => {
            let escaped = word.chars().flat_map(|c| {
                let escape = r"\+*?()[]{}^$|".contains(c).then_some('\\');
                escape.into_iter().chain([c])
            });
            format!(r"\.{}", escaped.collect::<String>())
        }
    });
    format!("^{}$", words.collect::<String>())
}

/// That a row waits, and no relay has it.
pub(super) fn unclaimed(shape: &Shape) -> String {
    format!("t.{} = {}", shape.needed(Column::Status), shape.profile.states.pending.literal())
}

fn is_dead(shape: &Shape) -> String {
    format!("t.{} = {}", shape.needed(Column::Status), shape.profile.states.dead.literal())
}

/// That a row is dead, and nobody gave it up.
fn dead(shape: &Shape) -> String {
    match shape.quoted(Column::LastError) {
        Some(error) => format!("{} AND coalesce(t.{error}, '') NOT LIKE {DISCARDED}", is_dead(shape)),
        None => is_dead(shape),
    }
}

/// That an operator gave a row up; `None` where a table has no place for why.
fn discarded(shape: &Shape) -> Option<String> {
    let error = shape.quoted(Column::LastError)?;
    Some(format!("{} AND coalesce(t.{error}, '') LIKE {DISCARDED}", is_dead(shape)))
}

/// What a command sets in the rows that it means; `value` is what it was given.
pub(super) fn sets(shape: &Shape, change: RowChange, now: &str, value: &str) -> String {
    let (status, available) = (shape.needed(Column::Status), shape.needed(Column::AvailableAt));
    let states = &shape.profile.states;
    let touched = also_set(shape, Column::UpdatedAt, now);
    match change {
        RowChange::Again => format!(
            "{}{status} = {}, {} = 0, {available} = {now}, {}{}",
            replayed(shape),
            states.pending.literal(),
            shape.needed(Column::Attempts),
            unlocked(shape, now),
            also_set(shape, Column::DeliveredAt, "NULL")
        ),
        RowChange::Bury => format!(
            "{status} = {}, {} = {value}, {} = {now}{touched}",
            states.delivering.literal(),
            shape.needed(Column::LockedBy),
            shape.needed(Column::LockedAt)
        ),
        RowChange::Discard => format!("{} = {value}{touched}", shape.needed(Column::LastError)),
        RowChange::Schedule => format!("{available} = {value}{touched}"),
    }
}

/// What is set in a row that an operator buries. Due since now: a redrive in steps passes over what becomes due while it runs, for
/// that is its own work.
pub(super) fn buried(shape: &Shape, now: &str, error: &str) -> String {
    format!(
        "{} = {}, {} = {now}, {}{}",
        shape.needed(Column::Status),
        shape.profile.states.dead.literal(),
        shape.needed(Column::AvailableAt),
        unlocked(shape, now),
        also_set(shape, Column::LastError, error)
    )
}

/// Leaves a mark in rows that were delivered, which their next claim reads; before their state is another one.
fn replayed(shape: &Shape) -> String {
    let Some(error) = shape.quoted(Column::LastError) else { return String::new() };
    let (status, delivered) = (shape.needed(Column::Status), shape.profile.states.delivered.literal());
    format!("{error} = CASE WHEN {status} = {delivered} THEN '{REPLAYED}' ELSE {error} END, ")
}

/// The column that says since when a row is in a terminal state, or at least in the table.
pub(super) fn since_when(shape: &Shape, since: Column) -> String {
    let at = shape.quoted(since).or_else(|| shape.quoted(Column::UpdatedAt));
    format!("t.{}", at.unwrap_or_else(|| shape.needed(Column::CreatedAt)))
}

/// What tells rows of one moment apart.
pub(super) fn tie(shape: &Shape) -> String {
    shape.quoted(Column::Sequence).unwrap_or_else(|| shape.needed(Column::Id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_pattern_becomes_an_expression() {
        let expression = |text: &str| topic_expression(&text.parse().unwrap());
        assert_eq!(expression("order.placed"), r"^\.order\.placed$");
        assert_eq!(expression("stock.*.eu"), r"^\.stock\.[^.]*\.eu$");
        assert_eq!(expression("stock.#"), r"^\.stock(\.[^.]*)*$");
        assert_eq!(expression("a+b(c)"), r"^\.a\+b\(c\)$");
    }
}
