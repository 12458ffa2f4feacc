//! What operators see and do.

use super::{TOPIC_FUNCTION, time};
use crate::table::text::since_when;
use crate::table::{Column, Shape, StateName};

/// What tells rows of one moment apart.
pub(super) fn page_tie(shape: &Shape) -> String {
    match shape.quoted(Column::Sequence) {
        Some(name) => format!("t.{name}"),
        None => format!("CAST(t.{} AS TEXT)", shape.needed(Column::Id)),
    }
}

/// A condition on the error of a row, which no row meets where there is no column for it.
fn failed(shape: &Shape, condition: impl Fn(&str) -> String) -> String {
    let error = shape.quoted(Column::LastError);
    error.map_or("false".to_owned(), |error| condition(&format!("CAST(t.{error} AS TEXT)")))
}

/// That a failure says the text, after its code. ASCII letters match in either case.
fn said(error: &str) -> String {
    let after = format!("instr({error}, ': ')");
    let message = format!("CASE WHEN {after} > 0 THEN substr({error}, {after} + 2) ELSE {error} END");
    format!("instr(lower({message}), lower(?11)) > 0")
}

/// The topic of a row: its type, where it has none of its own.
fn topic(shape: &Shape) -> String {
    let event_type = format!("CAST(t.{} AS TEXT)", shape.needed(Column::Type));
    match shape.quoted(Column::Topic) {
        Some(topic) => format!("coalesce(nullif(CAST(t.{topic} AS TEXT), ''), {event_type})"),
        None => event_type,
    }
}

pub(super) fn matching(shape: &Shape, which: &str) -> String {
    let (id, created) = (shape.needed(Column::Id), time(&format!("t.{}", shape.needed(Column::CreatedAt))));
    let key =
        shape.quoted(Column::Key).map_or("false".to_owned(), |key| format!("CAST(t.{key} AS TEXT) = ?3"));
    format!(
        "{which} AND (?1 IS NULL OR t.{id} IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR t.{} = ?2)
  AND (?3 IS NULL OR {key}) AND (?4 IS NULL OR {created} >= ?4) AND (?5 IS NULL OR {created} < ?5)
  AND (?6 IS NULL OR ({created}, {tie}) < (?6, {place})) AND ?9 IS NOT NULL
  AND (?10 IS NULL OR {code}) AND (?11 IS NULL OR {error}) AND (?12 IS NULL OR {TOPIC_FUNCTION}(?12, {topic}))",
        shape.needed(Column::Type),
        code = failed(shape, |error| format!("substr({error}, 1, length(?10) + 2) = ?10 || ': '")),
        error = failed(shape, said),
        topic = topic(shape),
        tie = page_tie(shape),
        place = if shape.has(Column::Sequence) { "CAST(?7 AS INTEGER)" } else { "?7" },
    )
}

pub(super) fn old(shape: &Shape, state: &StateName, since: Column) -> String {
    format!(
        "FROM {} AS t WHERE t.{} = {} AND {} < ?1",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        state.literal(),
        time(&since_when(shape, since))
    )
}

pub(super) fn prune(shape: &Shape, state: &StateName, since: Column) -> String {
    let id = shape.needed(Column::Id);
    let old = old(shape, state, since);
    format!("DELETE FROM {} WHERE {id} IN (SELECT t.{id} {old} LIMIT ?2)", shape.profile.table.quoted())
}
