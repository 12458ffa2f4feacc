//! The statement that publishes: its text for each dialect, and its values.

use std::collections::HashMap;

use posthaste_sql::{Dialect, Statement, Value};

use crate::envelope::Envelope;
use crate::prefix::TablePrefix;
use crate::time::{Moment, micros};

/// Rows per statement. Few sizes, so that few texts are ever prepared; the largest stays below SQLite's 32,766 and
/// Postgres' 65,535 placeholders.
const CHUNKS: [usize; 4] = [1000, 100, 10, 1];
const VALUES_PER_ROW: usize = 15;
const _: () =
    assert!(CHUNKS[0] * VALUES_PER_ROW < 32_766, "the largest chunk must fit into SQLite's placeholders");

const HEAD: &str = "INSERT INTO {prefix}events (source, event_id, event_type, topic, key, subject, schema_version, \
                    content_type, headers, payload, occurred_at, available_at, expires_at) VALUES ";
const ONCE: &str = " ON CONFLICT DO NOTHING";

/// One row on SQLite. Times are integer microseconds; the clock is SQLite's own, read with functions that every version has.
const SQLITE_ROW: &str = "(@1, @2, @3, @4, @5, @6, @7, @8, @9, @10, coalesce(@11, @now), coalesce(@12, @now + @13), coalesce(@14, @now + @15))";
const SQLITE_NOW: &str =
    "(CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000)";

/// One row on Postgres. Every placeholder is cast, so that drivers may send types without asking the server.
const POSTGRES_ROW: &str = "(@1::text, @2::text, @3::text, @4::text, @5::text, @6::text, @7::bigint::integer, @8::text, \
     @9::text::jsonb, @10::bytea, coalesce('epoch'::timestamptz + @11::bigint * interval '1 microsecond', now()), \
     coalesce('epoch'::timestamptz + @12::bigint * interval '1 microsecond', now() + @13::bigint * interval '1 microsecond'), \
     coalesce('epoch'::timestamptz + @14::bigint * interval '1 microsecond', now() + @15::bigint * interval '1 microsecond'))";

/// Every text this outbox can need, made once.
pub(super) struct Insert {
    texts: HashMap<(Dialect, usize, bool), std::sync::Arc<str>>,
}

impl Insert {
    pub(super) fn into_tables(prefix: &TablePrefix) -> Self {
        let mut texts = HashMap::new();
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            for (rows, once) in CHUNKS.iter().flat_map(|&rows| [(rows, false), (rows, true)]) {
                texts.insert((dialect, rows, once), text(prefix, dialect, rows, once).into());
            }
        }
        Self { texts }
    }

    /// Statements for these events in their order; each has one of the few sizes and one mode.
    pub(super) fn statements(&self, dialect: Dialect, events: Vec<(bool, Envelope)>) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut events = events.into_iter().peekable();
        while let Some(&(once, _)) = events.peek() {
            let mut run = Vec::new();
            while let Some((_, envelope)) = events.next_if(|(mode, _)| *mode == once) {
                run.push(envelope);
            }
            while !run.is_empty() {
                let size = CHUNKS.into_iter().find(|&size| size <= run.len()).unwrap_or(1);
                let rest = run.split_off(size);
                statements.push(self.statement(dialect, once, run));
                run = rest;
            }
        }
        statements
    }

    /// One statement; `events` has one of the sizes in [`CHUNKS`].
    pub(super) fn statement(&self, dialect: Dialect, once: bool, events: Vec<Envelope>) -> Statement {
        let text = &self.texts[&(dialect, events.len(), once)];
        let values = events.into_iter().flat_map(values).collect();
        Statement::new(text.to_string(), values)
    }
}

fn text(prefix: &TablePrefix, dialect: Dialect, rows: usize, once: bool) -> String {
    let (row, sign) = match dialect {
        Dialect::Postgres => (POSTGRES_ROW.to_owned(), '$'),
        _ => (SQLITE_ROW.replace("@now", SQLITE_NOW), '?'),
    };
    let rows: Vec<_> = (0..rows).map(|index| numbered(&row, sign, index * VALUES_PER_ROW)).collect();
    format!("{}{}{}", prefix.apply(HEAD), rows.join(", "), if once { ONCE } else { "" })
}

/// `@3` of the row that begins at 30 becomes `$33`.
fn numbered(row: &str, sign: char, first: usize) -> String {
    let mut out = String::with_capacity(row.len() + VALUES_PER_ROW * 4);
    let mut parts = row.split('@');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = part[..digits].parse().expect("the templates hold a number after each @");
        out.push(sign);
        out.push_str(&(first + number).to_string());
        out.push_str(&part[digits..]);
    }
    out
}

fn values(envelope: Envelope) -> [Value; VALUES_PER_ROW] {
    let (available_at, available_in) = moment(envelope.available);
    let (expires_at, expires_in) = moment(envelope.expires);
    // An empty topic column means "as the type": the usual case costs no bytes.
    let topic = (envelope.topic != envelope.event_type).then_some(envelope.topic);
    let headers = if envelope.headers.is_empty() {
        "{}".to_owned()
    } else {
        serde_json::to_string(&envelope.headers).expect("a map of strings is JSON")
    };
    [
        Value::Text(Some(envelope.source)),
        Value::Text(Some(envelope.id)),
        Value::Text(Some(envelope.event_type)),
        Value::Text(topic),
        Value::Text(envelope.key),
        Value::Text(envelope.subject),
        Value::Int(Some(i64::from(envelope.version))),
        Value::Text(Some(envelope.content_type)),
        Value::Text(Some(headers)),
        Value::Bytes(Some(envelope.payload)),
        Value::Int(envelope.occurred_at.map(|at| at.as_micros())),
        available_at,
        available_in,
        expires_at,
        expires_in,
    ]
}

fn moment(moment: Option<Moment>) -> (Value, Value) {
    match moment {
        Some(Moment::At(at)) => (Value::Int(Some(at.as_micros())), Value::Int(None)),
        Some(Moment::In(span)) => (Value::Int(None), Value::Int(Some(micros(span)))),
        None => (Value::Int(None), Value::Int(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: usize) -> Vec<(bool, Envelope)> {
        (0..count).map(|n| (false, Envelope::new("t", n.to_string()))).collect()
    }

    #[test]
    fn many_events_take_few_statements_of_few_sizes_in_their_order() {
        let insert = Insert::into_tables(&TablePrefix::default());
        let statements = insert.statements(Dialect::Sqlite, events(2_123));
        let sizes: Vec<_> = statements.iter().map(|s| s.values.len() / VALUES_PER_ROW).collect();
        assert_eq!(sizes, [1000, 1000, 100, 10, 10, 1, 1, 1]);
        let payloads =
            statements.iter().flat_map(|s| s.values.chunks(VALUES_PER_ROW)).map(|row| row[9].clone());
        let expected = (0..2_123).map(|n: usize| Value::Bytes(Some(n.to_string().into_bytes())));
        assert!(payloads.eq(expected));
    }

    #[test]
    fn rows_are_numbered_through() {
        let sql = text(&TablePrefix::default(), Dialect::Postgres, 10, true);
        assert!(sql.contains("$150::bigint") && !sql.contains('@') && sql.ends_with("DO NOTHING"), "{sql}");
    }

    #[test]
    fn the_mode_of_an_event_splits_a_batch() {
        let insert = Insert::into_tables(&TablePrefix::default());
        let mut mixed = events(3);
        mixed[1].0 = true;
        let statements = insert.statements(Dialect::Sqlite, mixed);
        let once: Vec<_> = statements.iter().map(|s| s.sql.ends_with(ONCE)).collect();
        assert_eq!(once, [false, true, false]);
    }
}
