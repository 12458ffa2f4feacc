//! Publishing in the caller's own transaction, on a connection of which nothing is known but its database.

use posthaste_sql::{Statement, Value};

use super::{MysqlText, NOW, moment};
use crate::envelope::Envelope;
use crate::table::{Column, Profile, fits, insert_values, text};
use crate::{Error, Result};

/// Rows per statement: few sizes, so that few texts are ever prepared.
const CHUNKS: [usize; 3] = [100, 10, 1];
/// What a statement may weigh: half of what a server takes that nobody has told otherwise.
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The values of a row before those of its other columns.
const FIRST: usize = 5;

/// Adds events to the table of a profile.
#[derive(Clone, Debug)]
pub struct MysqlInsert {
    table: String,
    id: String,
    names: String,
    /// The values of the last columns, the same in every row.
    last: String,
    columns: Vec<Column>,
}

impl MysqlInsert {
    /// Into the table of this profile: it must have every column that the profile names.
    pub fn new(profile: &Profile) -> Self {
        let columns = text::insertable(|column| profile.columns.contains_key(&column));
        let first = [Column::Id, Column::Type, Column::Payload, Column::AvailableAt];
        let last = [Column::CreatedAt, Column::Status, Column::Attempts];
        let names = first.iter().chain(&columns).chain(&last).map(|column| profile.columns[column].quoted());
        let names = names.collect::<Vec<_>>().join(", ");
        // Not in the words of the standard: the connection's mode is the caller's.
        let plain = |text: String| text.replace('"', "`");
        Self {
            table: plain(profile.table.quoted()),
            id: plain(profile.columns[&Column::Id].quoted()),
            names: plain(names),
            last: format!("{NOW}, {}, 0", profile.states.pending.literal()),
            columns,
        }
    }

    /// Whether the table has a column for everything that these events have.
    ///
    /// # Errors
    /// `Rejected` with what would be lost.
    pub fn check(&self, event: &Envelope) -> Result<()> {
        fits(&self.columns, event).map_err(|error: Error| error.during("publish"))
    }

    /// Statements for these events in their order; those that are published once have one of their own each.
    pub fn statements(&self, events: Vec<(bool, Envelope)>) -> Vec<Statement> {
        let (mut statements, mut rest) = (Vec::new(), events.as_slice());
        while let Some((once, _)) = rest.first() {
            let size = if *once { 1 } else { chunk(rest) };
            let (some, later) = rest.split_at(size);
            statements.push(self.statement(some, *once));
            rest = later;
        }
        statements
    }

    fn statement(&self, events: &[(bool, Envelope)], once: bool) -> Statement {
        let values: Vec<Value> =
            events.iter().flat_map(|(_, event)| insert_values(&self.columns, event)).collect();
        let text = MysqlText::of(&self.text(events.len(), once));
        let values = text.order.iter().map(|number| values[*number].clone()).collect();
        Statement::new(text.text, values)
    }

    fn text(&self, rows: usize, once: bool) -> String {
        let row = |index: usize| {
            let first = index * (FIRST + self.columns.len());
            let value = |number: usize| format!("?{}", first + number);
            let mut all = vec![
                value(1),
                value(2),
                value(3),
                format!("COALESCE({}, {NOW} + INTERVAL {} MICROSECOND, {NOW})", moment(&value(4)), value(5)),
            ];
            all.extend(self.columns.iter().enumerate().map(|(index, column)| {
                let value = value(FIRST + 1 + index);
                if *column == Column::OccurredAt {
                    format!("COALESCE({}, {NOW})", moment(&value))
                } else {
                    value
                }
            }));
            format!("{}, {}", all.join(", "), self.last)
        };
        let Self { table, id, names, .. } = self;
        if once {
            // Not IGNORE, which also cuts what is too long; and no UPDATE, whose count tells old from new by a setting of the
            // connection.
            return format!(
                "INSERT INTO {table} ({names}) SELECT {} FROM DUAL \
                 WHERE NOT EXISTS (SELECT 1 FROM {table} AS there WHERE there.{id} = ?1 LOCK IN SHARE MODE)",
                row(0)
            );
        }
        let rows: Vec<_> = (0..rows).map(|index| format!("({})", row(index))).collect();
        format!("INSERT INTO {table} ({names}) VALUES {}", rows.join(", "))
    }
}

/// How many of the first events go into one statement.
fn chunk(events: &[(bool, Envelope)]) -> usize {
    let mut bytes = 0;
    let fit = events.iter().take_while(|(once, event)| {
        bytes += event.payload.len();
        !once && bytes <= CHUNK_BYTES_MAX
    });
    let fit = fit.count();
    CHUNKS.into_iter().find(|size| *size <= fit).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_by_number_and_bytes_and_mode() {
        let insert = MysqlInsert::new(&Profile::open_outbox());
        let small = |once| (once, Envelope::new("t", "x"));
        let sizes = |events| insert.statements(events).iter().map(|s| s.values.len() / 7).collect::<Vec<_>>();
        assert_eq!(sizes((0..112).map(|_| small(false)).collect()), [100, 10, 1, 1]);
        let large = || (false, Envelope::new("t", vec![0; 5 * 1024 * 1024]));
        assert_eq!(sizes(vec![large(), large()]).len(), 2);
        let once = insert.statements(vec![small(true), small(true)]);
        assert_eq!(once.len(), 2);
        assert!(once[0].sql.contains("NOT EXISTS"), "{}", once[0].sql);
    }

    #[test]
    fn nothing_is_assumed_of_the_connection() {
        let statements =
            MysqlInsert::new(&Profile::open_outbox()).statements(vec![(false, Envelope::new("t", "x"))]);
        assert!(!statements[0].sql.contains('"'), "{}", statements[0].sql);
        assert_eq!(statements[0].sql.matches('?').count(), statements[0].values.len());
    }
}
