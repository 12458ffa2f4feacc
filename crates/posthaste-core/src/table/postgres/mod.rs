//! The statements of the table engine on Postgres, made from a shape.
//!
//! Every value travels as a parameter; only validated names, states and the types of the table's own columns stand in the
//! text. States stand there as literals because an index on part of a table is only found by them.

mod claim;
mod look;
mod settle;

use self::claim::Ordered;
use super::text::{self, As};
use super::{Column, Kind, RowChange, Shape};

/// What the relay asks the catalog about a table: its columns, and what this user may do with them.
const COLUMNS: &str = include_str!("columns.sql");
/// What is known of a table without reading it.
const SIZE: &str = include_str!("size.sql");
const SHARES: &str = include_str!("shares.sql");
const INDEXED: &str = include_str!("indexed.sql");

/// The texts of all statements on one table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresTableSql {
    /// Claims from a remembered place on: token, events, bytes, place, own tokens, ids of slow rows, ids to pass over.
    pub claim: String,
    /// Claims from the beginning, with the same parameters.
    pub claim_from_start: String,
    /// The same two in the order of a key.
    pub claim_ordered: String,
    /// From the beginning.
    pub claim_ordered_from_start: String,
    /// Lets only one relay claim in order at a time: taken before a claim and held to its commit.
    pub order_lock: String,
    /// Records deliveries: ids, tokens.
    pub delivered: String,
    /// Records failures that are tried again: ids, tokens, pauses in milliseconds, errors.
    pub retry: String,
    /// Records deaths: ids, tokens, errors, whether the budget was spent.
    pub dead: String,
    /// Records that an operator buries what was taken for that: error, token.
    pub buried: String,
    /// Hands back what was not sent: ids, tokens.
    pub released: String,
    /// Gives up what was sent and not answered: ids, tokens, budget. Counts as an attempt.
    pub abandoned: String,
    /// Hands back whatever these claims hold: tokens.
    pub released_claims: String,
    /// Renews leases: ids, tokens.
    pub renewed: String,
    /// Takes back what is leased for too long: milliseconds, rows at most, budget, how many are passed over. Answers how many were there,
    /// how many nobody else had locked, how many of those are delivering no more, and how many are dead.
    pub sweep: String,
    /// The id of one that is leased for too long: milliseconds, how many are passed over.
    pub expired_id: String,
    /// Counts the rows by state.
    pub counts: String,
    /// Count at most [`COUNTED_MAX`](Self::COUNTED_MAX) rows that are pending, delivering and dead: all, fresh, given up, the oldest that
    /// is fresh.
    pub few: [String; 3],
    /// Adds an event; see [`PostgresTableSql::insert_columns`].
    pub insert: String,
    /// The event with this id.
    pub same: String,
    /// Which columns an insert has values for, in their order after id, type, payload and available_at.
    pub insert_columns: Vec<Column>,
    /// Removes delivered rows: age in milliseconds, rows at most.
    pub prune_delivered: String,
    /// Removes dead rows: age in milliseconds, rows at most.
    pub prune_dead: String,
    /// Counts what the two would remove: age in milliseconds.
    pub count_delivered: String,
    /// Counts dead ones.
    pub count_dead: String,
    /// Whether open rows are found by an index that begins with the column that orders.
    pub has_order_index: bool,
    shape: Shape,
}

impl PostgresTableSql {
    /// The statements for a table of this shape; `has_order_index`: whether open rows are found by an index that begins with the
    /// column that orders.
    pub fn new(shape: Shape, has_order_index: bool) -> Self {
        let s = &shape;
        let order = if has_order_index { Ordered::ByIndex } else { Ordered::ByScan };
        let insert_columns = text::insert_columns(s);
        Self {
            claim: claim::claim(s, Ordered::Not, false),
            claim_from_start: claim::claim(s, Ordered::Not, true),
            claim_ordered: claim::claim(s, order, false),
            claim_ordered_from_start: claim::claim(s, order, true),
            order_lock: claim::order_lock(s),
            delivered: settle::delivered(s),
            retry: settle::retry(s),
            dead: settle::dead(s),
            buried: settle::buried(s),
            released: settle::released(s),
            abandoned: settle::abandoned(s),
            released_claims: settle::released_claims(s),
            renewed: settle::renewed(s),
            sweep: settle::sweep(s),
            expired_id: settle::expired_id(s),
            counts: text::counts(s, &due(s), &format!("t.{}", s.needed(Column::CreatedAt))),
            few: text::small_states(s).map(|state| {
                let created = format!("t.{}", s.needed(Column::CreatedAt));
                text::bounded(s, &state, &due(s), &created, Self::COUNTED_MAX)
            }),
            insert: settle::insert(s, &insert_columns),
            same: settle::same(s),
            insert_columns,
            prune_delivered: look::prune(s, &s.profile.states.delivered, Column::DeliveredAt),
            prune_dead: look::prune(s, &s.profile.states.dead, Column::UpdatedAt),
            count_delivered: look::prune_count(s, &s.profile.states.delivered, Column::DeliveredAt),
            count_dead: look::prune_count(s, &s.profile.states.dead, Column::UpdatedAt),
            has_order_index,
            shape,
        }
    }

    /// So many rows of a state are counted at most.
    pub const COUNTED_MAX: u32 = 10_001;

    /// Asks how large a table is: its quoted name. Answers bytes, and about how many rows those are.
    pub fn size() -> &'static str {
        SIZE
    }

    /// Asks which share of a table's rows has which value: its quoted name, a column.
    pub fn shares() -> &'static str {
        SHARES
    }

    /// Asks whether rows are found by an index: the table's quoted name, a column, values of it.
    pub fn indexed() -> &'static str {
        INDEXED
    }

    /// Asks the catalog about a table: its quoted name, the names of the two states of open rows.
    pub fn columns() -> &'static str {
        COLUMNS
    }

    /// The id of the first row that a claim of this kind would take, with the same parameters.
    pub fn due(&self, is_ordered: bool, from_start: bool) -> String {
        let by_key = if self.has_order_index { Ordered::ByIndex } else { Ordered::ByScan };
        claim::due(&self.shape, if is_ordered { by_key } else { Ordered::Not }, from_start)
    }

    /// The shape that these statements are for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Finds rows, the newest first: ids, type, key, since, until, the place after which to go on (time, id), rows at most,
    /// code, text in the error, expression for the topic.
    pub fn find(&self, which: &str) -> String {
        look::find(&self.shape, which)
    }

    /// Counts the rows that the parameters of [`find`](Self::find) match, and says what time it is.
    pub fn find_count(&self, which: &str) -> String {
        look::find_count(&self.shape, which)
    }

    /// Changes rows, the earliest first; parameters as [`find`](Self::find), then what the change was given: a moment, an error or a token.
    pub fn change(&self, which: &str, change: RowChange) -> String {
        look::change(&self.shape, which, change)
    }

    /// The condition that rows wait and no relay has them.
    pub fn unclaimed(&self) -> String {
        text::unclaimed(&self.shape)
    }

    /// The condition that rows are in this state; `None` where a table cannot tell it.
    pub fn in_state(&self, state: crate::admin::EventState) -> Option<String> {
        text::in_state(&self.shape, state, &due(&self.shape))
    }
}

/// That a row's time has come.
fn due(shape: &Shape) -> String {
    format!("coalesce(t.{} <= now(), true)", shape.needed(Column::AvailableAt))
}

/// The type of an id in an array parameter that is sent as text.
fn id_array(shape: &Shape, parameter: &str) -> String {
    cast_array(shape, Column::Id, parameter)
}

/// Tokens in an array parameter that is sent as text.
fn token_array(shape: &Shape, parameter: &str) -> String {
    cast_array(shape, Column::LockedBy, parameter)
}

fn cast_array(shape: &Shape, column: Column, parameter: &str) -> String {
    match scalar_type(shape, column) {
        Some(sql_type) => format!("{parameter}::text[]::{sql_type}[]"),
        None => format!("{parameter}::text[]"),
    }
}

fn cast(shape: &Shape, column: Column, value: &str) -> String {
    match scalar_type(shape, column) {
        Some(sql_type) => format!("{value}::{sql_type}"),
        None => value.to_owned(),
    }
}

/// The type to cast text to; none where the column holds text itself.
fn scalar_type(shape: &Shape, column: Column) -> Option<&str> {
    let found = shape.found(column)?;
    matches!(found.kind, Kind::Uuid | Kind::Int | Kind::Enum).then_some(found.sql_type.as_str())
}

/// A column as text, or nothing where the table has none.
fn text_or_null(shape: &Shape, column: Column) -> String {
    shape.quoted(column).map_or("NULL::text".to_owned(), |name| format!("t.{name}::text"))
}

fn time_or_null(shape: &Shape, column: Column) -> String {
    shape.quoted(column).map_or("NULL::timestamptz".to_owned(), |name| format!("t.{name}"))
}

fn int_or_null(shape: &Shape, column: Column) -> String {
    shape.quoted(column).map_or("NULL::int8".to_owned(), |name| format!("t.{name}::int8"))
}

/// The payload as bytes.
fn payload(shape: &Shape) -> String {
    let name = shape.needed(Column::Payload);
    match shape.found(Column::Payload).map(|found| found.kind) {
        Some(Kind::Bytes) => format!("t.{name}"),
        _ => format!("convert_to(t.{name}::text, 'UTF8')"),
    }
}

/// The columns of an event, in the order in which a row is read.
fn event_columns(shape: &Shape) -> String {
    text::event_columns(|column, read| match read {
        As::Text => text_or_null(shape, column),
        As::Int => int_or_null(shape, column),
        As::Time => time_or_null(shape, column),
        As::Payload => payload(shape),
    })
}

/// What a row is addressed by within one statement.
fn address(shape: &Shape) -> String {
    if shape.has_addresses { "ctid".to_owned() } else { shape.needed(Column::Id) }
}

/// The condition that a row is among those of a subquery of addresses.
fn is_among(shape: &Shape, addresses: &str) -> String {
    if shape.has_addresses {
        // An array, so that the rows are fetched by their address and no plan can look for them in any other way.
        format!("t.ctid = ANY (ARRAY({addresses}))")
    } else {
        format!("t.{} IN ({addresses})", shape.needed(Column::Id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::super::shape::tests::reference;
    use super::*;

    #[test]
    fn the_reference_table_needs_no_more_than_it_has() {
        let sql = PostgresTableSql::new(Shape::of(Profile::open_outbox(), &reference(), true).unwrap(), true);
        for absent in ["ordering_key", "max_attempts", "\"topic\""] {
            let all = [&sql.claim, &sql.retry, &sql.insert, &sql.sweep].map(String::as_str).concat();
            assert!(!all.contains(absent), "{absent}");
        }
        assert!(sql.claim.contains("FOR UPDATE OF t SKIP LOCKED"), "{}", sql.claim);
        assert!(sql.delivered.contains("$1::text[]::uuid[]"), "{}", sql.delivered);
    }

    #[test]
    fn whatever_is_said_of_a_failure_fits_into_its_column() {
        let mut found = reference();
        let error = found.iter_mut().find(|column| column.name == "last_error").unwrap();
        error.chars_max = Some(20);
        let sql = PostgresTableSql::new(Shape::of(Profile::open_outbox(), &found, true).unwrap(), true);
        for text in [&sql.retry, &sql.dead, &sql.abandoned, &sql.sweep] {
            assert!(text.contains("left(") && text.contains(", 20)"), "{text}");
        }
    }

    #[test]
    fn a_table_with_partitions_is_not_addressed_by_place() {
        let sql =
            PostgresTableSql::new(Shape::of(Profile::open_outbox(), &reference(), false).unwrap(), true);
        for text in [&sql.claim, &sql.sweep, &sql.prune_delivered] {
            assert!(!text.contains("ctid"), "{text}");
        }
    }
}
