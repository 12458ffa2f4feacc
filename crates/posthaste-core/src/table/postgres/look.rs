//! What operators see and do.

use super::super::{Column, RowChange, Shape, StateName};
use super::{address, cast, event_columns, id_array, is_among, payload, text_or_null, time_or_null};
use crate::table::text;

/// Rows that match: ids (`$1`), type (`$2`), key (`$3`), since (`$4`), until (`$5`), and lie after a place (`$6`, `$7`); failed with a
/// code (`$9`), or a text in what the failure said (`$10`), and have a topic that matches an expression (`$11`).
fn matching(shape: &Shape, which: &str) -> String {
    let (id, created) = (shape.needed(Column::Id), shape.needed(Column::CreatedAt));
    let event_type = shape.needed(Column::Type);
    let key = match shape.quoted(Column::Key) {
        Some(key) => format!("t.{key}::text = $3::text"),
        None => "false".to_owned(),
    };
    let ids = id_array(shape, "$1");
    format!(
        "{which} AND ($1::text[] IS NULL OR t.{id} = ANY ({ids})) AND ($2::text IS NULL OR t.{event_type}::text = $2::text)
  AND ($3::text IS NULL OR {key})
  AND ($4::timestamptz IS NULL OR t.{created} >= $4::timestamptz) AND ($5::timestamptz IS NULL OR t.{created} < $5::timestamptz)
  AND ($6::timestamptz IS NULL OR (t.{created}, {tie}) < ($6::timestamptz, {place}))
  AND ($9::text IS NULL OR {code}) AND ($10::text IS NULL OR {error}) AND ($11::text IS NULL OR '.' || {topic} ~ $11::text)",
        code = failed(shape, |error| format!("starts_with({error}, $9::text || ': ')")),
        error = failed(shape, said),
        topic = topic(shape),
        tie = page_tie(shape),
        place = if shape.has(Column::Sequence) { "nullif($7::text, '')::int8" } else { "$7::text" },
    )
}

/// A condition on the error of a row, which no row meets where there is no column for it.
fn failed(shape: &Shape, condition: impl Fn(&str) -> String) -> String {
    let error = shape.quoted(Column::LastError);
    error.map_or("false".to_owned(), |error| condition(&format!("t.{error}::text")))
}

/// That a failure says the text, after its code. ASCII letters match in either case.
fn said(error: &str) -> String {
    let after = format!("position(': ' in {error})");
    let message = format!("CASE WHEN {after} > 0 THEN substr({error}, {after} + 2) ELSE {error} END");
    format!("position(lower($10::text COLLATE \"C\") in lower(({message}) COLLATE \"C\")) > 0")
}

/// The topic of a row: its type, where it has none of its own.
fn topic(shape: &Shape) -> String {
    let event_type = format!("t.{}::text", shape.needed(Column::Type));
    match shape.quoted(Column::Topic) {
        Some(topic) => format!("coalesce(nullif(t.{topic}::text, ''), {event_type})"),
        None => event_type,
    }
}

/// What tells rows of one moment apart.
fn page_tie(shape: &Shape) -> String {
    match shape.quoted(Column::Sequence) {
        Some(name) => format!("t.{name}::int8"),
        None => format!("t.{}::text", shape.needed(Column::Id)),
    }
}

pub(super) fn find(shape: &Shape, which: &str) -> String {
    format!(
        "SELECT {}, t.{}::text, {}, {}, {}, octet_length({})::int8, now()
FROM {} AS t WHERE {}
ORDER BY t.{} DESC, {} DESC LIMIT $8::int8",
        event_columns(shape),
        shape.needed(Column::Status),
        text_or_null(shape, Column::LastError),
        time_or_null(shape, Column::DeliveredAt),
        time_or_null(shape, Column::UpdatedAt),
        payload(shape),
        shape.profile.table.quoted(),
        matching(shape, which),
        shape.needed(Column::CreatedAt),
        page_tie(shape),
    )
}

pub(super) fn find_count(shape: &Shape, which: &str) -> String {
    format!(
        "SELECT count(*), now() FROM {} AS t WHERE {} AND $8::int8 IS NOT NULL",
        shape.profile.table.quoted(),
        matching(shape, which)
    )
}

/// What the change was given is `$12`.
pub(super) fn change(shape: &Shape, which: &str, change: RowChange) -> String {
    let (table, available) = (shape.profile.table.quoted(), shape.needed(Column::AvailableAt));
    let moment = || "$12::timestamptz".to_owned();
    let (value, also) = match change {
        RowChange::Again => (
            moment(),
            format!(
                "($12::timestamptz IS NULL OR t.{available} IS NULL OR t.{available} < $12::timestamptz OR t.{available} > now())"
            ),
        ),
        RowChange::Schedule => (moment(), format!("t.{available} IS DISTINCT FROM $12::timestamptz")),
        RowChange::Bury => (cast(shape, Column::LockedBy, "$12::text"), "true".to_owned()),
        RowChange::Discard => ("$12::text".to_owned(), "$12::text IS NOT NULL".to_owned()),
    };
    format!(
        "WITH chosen AS MATERIALIZED (SELECT t.{at} AS at FROM {table} AS t WHERE {matching} AND {also}
    ORDER BY t.{created}, {tie} LIMIT $8::int8 FOR UPDATE OF t SKIP LOCKED)
UPDATE {table} AS t SET {sets} WHERE {among}",
        at = address(shape),
        matching = matching(shape, which),
        created = shape.needed(Column::CreatedAt),
        tie = page_tie(shape),
        sets = text::sets(shape, change, "now()", &value),
        among = is_among(shape, "SELECT at FROM chosen"),
    )
}

/// Rows of a terminal state whose time in it, or at least in the table, is over.
fn old(shape: &Shape, state: &StateName, since: Column) -> String {
    let at = text::since_when(shape, since);
    format!(
        "t.{} = {} AND {at} < now() - $1::int8 * interval '1 millisecond'",
        shape.needed(Column::Status),
        state.literal()
    )
}

pub(super) fn prune(shape: &Shape, state: &StateName, since: Column) -> String {
    let table = shape.profile.table.quoted();
    let old = old(shape, state, since);
    let at = address(shape);
    let among = is_among(
        shape,
        &format!("SELECT t.{at} FROM {table} AS t WHERE {old} LIMIT $2::int8 FOR UPDATE OF t SKIP LOCKED"),
    );
    format!("DELETE FROM {table} AS t WHERE {among}")
}

pub(super) fn prune_count(shape: &Shape, state: &StateName, since: Column) -> String {
    format!("SELECT count(*) FROM {} AS t WHERE {}", shape.profile.table.quoted(), old(shape, state, since))
}
