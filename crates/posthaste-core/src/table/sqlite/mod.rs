//! The statements of the table engine on SQLite, made from a shape.
//!
//! One writer at a time, so nothing is locked and nothing skipped. Lists travel as JSON. Times are text in UTC as `datetime` and
//! `strftime` write them, in whatever precision; statements bring them into one form before they compare them, and get the
//! time from the store's clock.

mod claim;
mod look;
mod settle;

use super::text::{self, As, also_set};
use super::{Column, RowChange, Shape};
use crate::admin::EventState;
use claim::{pick, take};
use look::{matching, old, page_tie, prune};
use settle::{
    abandoned, buried, dead, expired, expired_id, insert, released_claims, renewed, retry, same, settled,
    sweep,
};

/// What a connection must have: a function of a topic pattern and a topic that says whether they match. SQLite itself knows no regular
/// expressions.
pub const TOPIC_FUNCTION: &str = "posthaste_topic_matches";

/// The texts of all statements on one table. Where a parameter is a list, it is a JSON array of text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteTableSql {
    /// The ids and weights of rows to claim: now, rows at most, ids to pass over.
    pub pick: String,
    /// The same in the order of a key: now, rows at most, ids to pass over, own tokens, ids of slow rows.
    pub pick_ordered: String,
    /// Leases these rows and answers them: ids, token, now.
    pub take: String,
    /// Records deliveries: ids, tokens, now.
    pub delivered: String,
    /// Records a failure that is tried again: id, tokens, now, when it is due, error.
    pub retry: String,
    /// Records a death: id, tokens, now, error, whether the budget was spent, in an hour.
    pub dead: String,
    /// Records that an operator buries what was taken for that: tokens, now, error.
    pub buried: String,
    /// Hands back what was not sent: ids, tokens, now.
    pub released: String,
    /// Gives up what was sent and not answered: ids, tokens, now, budget, when it is due. Counts as an attempt.
    pub abandoned: String,
    /// Hands back whatever these claims hold: tokens, now.
    pub released_claims: String,
    /// Renews leases: ids, tokens, now.
    pub renewed: String,
    /// Takes back what was leased before: cutoff, rows at most, budget, now, how many are passed over, when they are due.
    /// Answers whether each is dead.
    pub sweep: String,
    /// How many were leased before: cutoff.
    pub expired: String,
    /// The id of one that was leased before: cutoff, how many are passed over.
    pub expired_id: String,
    /// Counts the rows by state: now.
    pub counts: String,
    /// The lowest and the highest number of a row; fails where rows have none.
    pub ends: String,
    /// Count at most [`COUNTED_MAX`](Self::COUNTED_MAX) rows that are pending, delivering, dead, and in a state that the profile does not
    /// name: now. All, fresh, given up, the oldest that is fresh.
    pub few: [String; 4],
    /// The same among rows above a number: now, that.
    pub recent: [String; 4],
    /// Adds an event: id, type, payload, when it is available, now, and the columns of
    /// [`insert_columns`](Self::insert_columns).
    pub insert: String,
    /// Which columns an insert has values for after its first five.
    pub insert_columns: Vec<Column>,
    /// The event with this id.
    pub same: String,
    /// Removes delivered rows: cutoff, rows at most.
    pub prune_delivered: String,
    /// Removes dead rows: cutoff, rows at most.
    pub prune_dead: String,
    /// Counts what the two would remove: cutoff.
    pub count_delivered: String,
    /// Counts dead ones.
    pub count_dead: String,
    shape: Shape,
}

impl SqliteTableSql {
    /// The statements for a table of this shape.
    pub fn new(shape: Shape) -> Self {
        let s = &shape;
        let insert_columns = text::insert_columns(s);
        let states = &s.profile.states;
        Self {
            pick: pick(s, false),
            pick_ordered: pick(s, true),
            take: take(s),
            delivered: settled(s, &states.delivered, &also_set(s, Column::DeliveredAt, "?3")),
            retry: retry(s),
            dead: dead(s),
            buried: buried(s),
            released: settled(s, &states.pending, ""),
            abandoned: abandoned(s),
            released_claims: released_claims(s),
            renewed: renewed(s),
            sweep: sweep(s),
            expired: format!("SELECT count(*) {}", expired(s)),
            expired_id: expired_id(s),
            counts: text::counts(s, &due(s, "?1"), &millis(&format!("t.{}", s.needed(Column::CreatedAt)))),
            ends: format!(
                "SELECT (SELECT min(rowid) FROM {table}), (SELECT max(rowid) FROM {table})",
                table = s.profile.table.quoted()
            ),
            few: few(s, ""),
            recent: few(s, " AND t.rowid > ?2"),
            insert: insert(s, &insert_columns),
            insert_columns,
            same: same(s),
            prune_delivered: prune(s, &states.delivered, Column::DeliveredAt),
            prune_dead: prune(s, &states.dead, Column::UpdatedAt),
            count_delivered: format!("SELECT count(*) {}", old(s, &states.delivered, Column::DeliveredAt)),
            count_dead: format!("SELECT count(*) {}", old(s, &states.dead, Column::UpdatedAt)),
            shape,
        }
    }

    /// So many rows of a state are counted at most. Of more nothing tells how many they are: a count that stands still there must be
    /// larger than what usually waits.
    pub const COUNTED_MAX: u32 = 20_001;

    /// The shape that these statements are for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Finds rows, the newest first: ids or NULL, type, key, since, until, the place after which to go on (time, id), rows at
    /// most, now, code, text in the error, topic pattern.
    pub fn find(&self, which: &str) -> String {
        let s = &self.shape;
        let time = |of: Column| s.quoted(of).map_or("NULL".to_owned(), |name| millis(&format!("t.{name}")));
        format!(
            "SELECT {}, t.{}, {}, {}, {}, length(CAST(t.{} AS BLOB)) FROM {} AS t WHERE {}
ORDER BY t.{} DESC, {} DESC LIMIT ?8",
            columns(s),
            s.needed(Column::Status),
            or_null(s, Column::LastError),
            time(Column::DeliveredAt),
            time(Column::UpdatedAt),
            s.needed(Column::Payload),
            s.profile.table.quoted(),
            matching(s, which),
            s.needed(Column::CreatedAt),
            page_tie(s)
        )
    }

    /// Counts the rows that match; parameters as [`find`](Self::find).
    pub fn find_count(&self, which: &str) -> String {
        let s = &self.shape;
        format!(
            "SELECT count(*) FROM {} AS t WHERE {} AND ?8 IS NOT NULL",
            s.profile.table.quoted(),
            matching(s, which)
        )
    }

    /// Changes rows, the earliest first; parameters as [`find`](Self::find), then what the change was given: a moment, an error or a token.
    pub fn change(&self, which: &str, change: RowChange) -> String {
        let s = &self.shape;
        let id = s.needed(Column::Id);
        let due = time(&format!("t.{}", s.needed(Column::AvailableAt)));
        let also = match change {
            RowChange::Again => format!("(?13 IS NULL OR {due} IS NULL OR {due} < ?13 OR {due} > ?9)"),
            RowChange::Schedule => format!("{due} IS NOT ?13"),
            RowChange::Bury | RowChange::Discard => "?13 IS NOT NULL".to_owned(),
        };
        format!(
            "UPDATE {table} AS u SET {} WHERE u.{id} IN (SELECT t.{id} FROM {table} AS t WHERE {} AND {also}
    ORDER BY {}, {} LIMIT ?8)",
            text::sets(s, change, "?9", "?13"),
            matching(s, which),
            time(&format!("t.{}", s.needed(Column::CreatedAt))),
            page_tie(s),
            table = s.profile.table.quoted(),
        )
    }

    /// The condition that rows wait and no relay has them.
    pub fn unclaimed(&self) -> String {
        text::unclaimed(&self.shape)
    }

    /// The condition that rows are in this state, by the parameter `?9` as now; `None` where a table cannot tell it.
    pub fn in_state(&self, state: EventState) -> Option<String> {
        text::in_state(&self.shape, state, &due(&self.shape, "?9"))
    }
}

fn few(shape: &Shape, above: &str) -> [String; 4] {
    let [pending, delivering, dead] = text::small_states(shape);
    let created = millis(&format!("t.{}", shape.needed(Column::CreatedAt)));
    [pending, delivering, dead, text::unknown(shape)].map(|condition| {
        let meant = format!("{condition}{above}");
        text::bounded(shape, &meant, &due(shape, "?1"), &created, SqliteTableSql::COUNTED_MAX)
    })
}

/// A time in one form.
fn time(column: &str) -> String {
    format!("strftime('%Y-%m-%d %H:%M:%f', {column})")
}

/// A time as milliseconds since 1970.
fn millis(column: &str) -> String {
    format!(
        "CAST(strftime('%s', {column}) AS INTEGER) * 1000 + CAST(substr(strftime('%f', {column}), 4) AS INTEGER)"
    )
}

fn or_null(shape: &Shape, column: Column) -> String {
    shape.quoted(column).map_or("NULL".to_owned(), |name| format!("t.{name}"))
}

fn due(shape: &Shape, now: &str) -> String {
    let available = format!("t.{}", shape.needed(Column::AvailableAt));
    format!("coalesce({} <= {now}, true)", time(&available))
}

/// The columns of an event, in the order in which a row is read.
fn columns(shape: &Shape) -> String {
    text::event_columns(|column, read| match (shape.quoted(column), read) {
        (None, _) => "NULL".to_owned(),
        (Some(name), As::Text) => format!("CAST(t.{name} AS TEXT)"),
        (Some(name), As::Payload) => format!("CAST(t.{name} AS BLOB)"),
        (Some(name), As::Time) => millis(&format!("t.{name}")),
        (Some(name), As::Int) => format!("t.{name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Profile;
    use crate::table::shape::tests::reference;

    /// A table may have nothing but what a relay needs; SQLite refuses a statement that does not use its last
    /// parameter.
    #[test]
    fn every_statement_uses_its_last_parameter_whatever_columns_there_are() {
        let profile = Profile::named("custom").unwrap();
        let sql = SqliteTableSql::new(Shape::of(profile, &reference(), true).unwrap());
        for (statement, last) in [
            (&sql.take, "?3"),
            (&sql.delivered, "?3"),
            (&sql.released, "?3"),
            (&sql.renewed, "?3"),
            (&sql.retry, "?5"),
            (&sql.dead, "?6"),
            (&sql.buried, "?3"),
            (&sql.abandoned, "?4"),
            (&sql.released_claims, "?2"),
            (&sql.sweep, "?5"),
            (&sql.prune_delivered, "?2"),
            (&sql.count_dead, "?1"),
        ] {
            assert!(statement.contains(last), "{last}: {statement}");
        }
    }
}
