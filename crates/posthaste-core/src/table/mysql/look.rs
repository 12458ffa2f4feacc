//! What operators see and do.

use super::{Asked, NOW, as_text, column, event_columns, from_text, list, micros, moment, payload};
use crate::table::text::{sets, since_when};
use crate::table::{Column, RowChange, Shape, StateName};

/// Only what is asked stands in the text: a condition that is switched off by a parameter keeps every index from being used.
fn matching(shape: &Shape, which: &str, asked: Asked) -> String {
    let created = column(shape, Column::CreatedAt);
    let mut all = vec![which.to_owned()];
    if asked.ids {
        all.push(format!(
            "{} IN (SELECT {} FROM {})",
            column(shape, Column::Id),
            from_text(shape, Column::Id, "j.v$"),
            list(shape, Column::Id, "?1", "j")
        ));
    }
    if asked.event_type {
        all.push(same_text(&as_text(shape, Column::Type), "?2"));
    }
    if asked.key {
        all.push(if shape.has(Column::Key) {
            same_text(&as_text(shape, Column::Key), "?3")
        } else {
            "FALSE".to_owned()
        });
    }
    if asked.since {
        all.push(format!("{created} >= {}", moment("?4")));
    }
    if asked.until {
        all.push(format!("{created} < {}", moment("?5")));
    }
    if asked.after {
        let (at, tie) = (moment("?6"), page_tie(shape));
        let place = if shape.has(Column::Sequence) { "CAST(?7 AS SIGNED)" } else { "?7" };
        all.push(format!("({created} < {at} OR {created} = {at} AND {tie} < {place})"));
    }
    all.extend(asked.code.then(|| failed(shape, |error| begins(&error, "?9"))));
    all.extend(asked.error.then(|| failed(shape, |error| said(&error))));
    all.extend(asked.topic.then(|| format!("CONCAT('.', {}) COLLATE utf8mb4_bin REGEXP ?11", topic(shape))));
    all.join(" AND ")
}

/// A condition on the error of a row, which no row meets where there is no column for it.
fn failed(shape: &Shape, condition: impl Fn(String) -> String) -> String {
    if shape.has(Column::LastError) {
        condition(as_text(shape, Column::LastError))
    } else {
        "FALSE".to_owned()
    }
}

/// That an error begins with a code.
fn begins(error: &str, code: &str) -> String {
    same_text(&format!("LEFT({error}, CHAR_LENGTH({code}) + 2)"), &format!("CONCAT({code}, ': ')"))
}

/// That a failure says the text, after its code, in small or capital letters.
fn said(error: &str) -> String {
    let after = format!("LOCATE(': ', {error})");
    let message = format!("IF({after} > 0, SUBSTRING({error}, {after} + 2), {error})");
    format!("LOCATE(LOWER(?10), LOWER({message}) COLLATE utf8mb4_bin) > 0")
}

/// The topic of a row: its type, where it has none of its own.
fn topic(shape: &Shape) -> String {
    let event_type = as_text(shape, Column::Type);
    if shape.has(Column::Topic) {
        format!("COALESCE(NULLIF({}, ''), {event_type})", as_text(shape, Column::Topic))
    } else {
        event_type
    }
}

/// That two texts are the same, byte by byte, whatever the collation of the column says.
fn same_text(text: &str, parameter: &str) -> String {
    format!("CAST({text} AS BINARY) = CAST({parameter} AS BINARY)")
}

/// What tells rows of one moment apart.
fn page_tie(shape: &Shape) -> String {
    match shape.quoted(Column::Sequence) {
        Some(name) => format!("t.{name}"),
        None => as_text(shape, Column::Id),
    }
}

pub(super) fn find(shape: &Shape, which: &str, asked: Asked) -> String {
    let or_null = |of: Column, read: &dyn Fn(Column) -> String| {
        if shape.has(of) { read(of) } else { "NULL".to_owned() }
    };
    format!(
        "SELECT {}, {}, {}, {}, {}, CAST(OCTET_LENGTH({}) AS SIGNED), {} FROM {} AS t WHERE {} \
         ORDER BY {} DESC, {} DESC LIMIT ?8",
        event_columns(shape),
        as_text(shape, Column::Status),
        or_null(Column::LastError, &|of| as_text(shape, of)),
        or_null(Column::DeliveredAt, &|of| micros(&column(shape, of))),
        or_null(Column::UpdatedAt, &|of| micros(&column(shape, of))),
        payload(shape),
        micros(NOW),
        shape.profile.table.quoted(),
        matching(shape, which, asked),
        column(shape, Column::CreatedAt),
        page_tie(shape),
    )
}

pub(super) fn find_count(shape: &Shape, which: &str, asked: Asked) -> String {
    format!(
        "SELECT count(*), {} FROM {} AS t WHERE {}",
        micros(NOW),
        shape.profile.table.quoted(),
        matching(shape, which, asked)
    )
}

/// What the change was given is `?12`.
pub(super) fn change(shape: &Shape, which: &str, asked: Asked, change: RowChange) -> String {
    let (available, moment) = (column(shape, Column::AvailableAt), moment("?12"));
    let token = from_text(shape, Column::LockedBy, "?12");
    let (value, also) = match change {
        RowChange::Again if asked.but_due_since => (
            moment.as_str(),
            format!(" AND ({available} IS NULL OR {available} < {moment} OR {available} > {NOW})"),
        ),
        RowChange::Again => (moment.as_str(), String::new()),
        RowChange::Schedule => (moment.as_str(), format!(" AND NOT ({available} <=> {moment})")),
        RowChange::Bury => (token.as_str(), String::new()),
        RowChange::Discard => ("?12", String::new()),
    };
    format!(
        "UPDATE {} AS t SET {} WHERE {}{also} ORDER BY {}, {} LIMIT ?8",
        shape.profile.table.quoted(),
        sets(shape, change, NOW, value),
        matching(shape, which, asked),
        column(shape, Column::CreatedAt),
        page_tie(shape),
    )
}

/// Rows of a terminal state whose time in it, or at least in the table, is over.
fn old(shape: &Shape, state: &StateName, since: Column) -> String {
    format!(
        "{} = {} AND {} < {NOW} - INTERVAL ?1 * 1000 MICROSECOND",
        column(shape, Column::Status),
        state.literal(),
        since_when(shape, since),
    )
}

pub(super) fn prune(shape: &Shape, state: &StateName, since: Column) -> String {
    // A DELETE of one table has no other name for it.
    let old = old(shape, state, since).replace("t.\"", "\"");
    format!("DELETE FROM {} WHERE {old} LIMIT ?2", shape.profile.table.quoted())
}

pub(super) fn prune_count(shape: &Shape, state: &StateName, since: Column) -> String {
    format!("SELECT count(*) FROM {} AS t WHERE {}", shape.profile.table.quoted(), old(shape, state, since))
}
