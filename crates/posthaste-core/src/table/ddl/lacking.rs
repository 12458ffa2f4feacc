//! What a table that is there lacks: the columns and the indexes that a relay needs, in the table's own
//! types.
//!
//! Nothing that is there is changed. How a column of the table's own must change is its owner's decision, so
//! a comment says it. Rows that are there count as delivered: another program has published them until now,
//! and the relay would send them again.

use super::index::{self, Index, indexes};
use super::{MYSQL, POSTGRES, SQLITE, Words, definition};
use crate::table::shape::misfit;
use crate::table::{Column, Found, Kind, Profile};

/// A table as it is.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// Its columns.
    pub columns: Vec<Found>,
    /// The columns of each of its indexes, in their order.
    pub indexes: Vec<Vec<String>>,
}

/// The SQL that adds what a table on Postgres lacks.
pub fn postgres_lacking_ddl(profile: &Profile, present: &Present) -> String {
    Lacking::of(profile, present, &POSTGRES).text()
}

/// The same for MariaDB and MySQL.
pub fn mysql_lacking_ddl(profile: &Profile, present: &Present) -> String {
    Lacking::of(profile, present, &MYSQL).text().replace('"', "`")
}

/// The same for SQLite.
pub fn sqlite_lacking_ddl(profile: &Profile, present: &Present) -> String {
    Lacking::of(profile, present, &SQLITE).text()
}

/// A time before every other, for a database that adds columns with constant defaults only: such a row is due
/// at once.
const LONG_AGO: &str = "'1970-01-01 00:00:00.000'";

struct Lacking<'a> {
    profile: &'a Profile,
    present: &'a Present,
    words: &'a Words,
    /// What is to be added.
    added: Vec<Column>,
}

impl<'a> Lacking<'a> {
    fn of(profile: &'a Profile, present: &'a Present, words: &'a Words) -> Self {
        let mut lacking = Self { profile, present, words, added: Vec::new() };
        let is_added = |column: &Column| lacking.is_wanted(*column) && lacking.found(*column).is_none();
        lacking.added = profile
            .columns
            .keys()
            .copied()
            .filter(is_added)
            .filter(|column| !is_producers(*column))
            .collect();
        lacking
    }

    /// What every table needs, what a `custom` one names, and what operators want to know: why a row failed,
    /// and when it was delivered.
    fn is_wanted(&self, column: Column) -> bool {
        !self.profile.may_lack(column) || matches!(column, Column::LastError | Column::DeliveredAt)
    }

    fn found(&self, column: Column) -> Option<&'a Found> {
        let name = self.profile.columns.get(&column)?;
        self.present.columns.iter().find(|found| found.name == name.as_str())
    }

    fn quoted(&self, column: Column) -> String {
        self.profile.columns[&column].quoted()
    }

    fn text(&self) -> String {
        let (table, name) = (&self.profile.table, self.profile.name());
        let (columns, indexes, doubts) = (self.columns(), self.indexes(), self.doubts());
        if columns.is_empty() && indexes.is_empty() && doubts.is_empty() {
            return format!(
                "-- The table {table} has every column and every index that the profile {name} needs.\n"
            );
        }
        format!(
            "-- What the table {table} lacks for the profile {name}. Posthaste never changes a table that is not its own: run this\n\
             -- yourself. Producers need not change.\n{doubts}{columns}{indexes}"
        )
    }

    /// What only the owner of the table can decide.
    fn doubts(&self) -> String {
        let missing = self.profile.columns.iter().filter(|(column, _)| {
            is_producers(**column) && self.is_wanted(**column) && self.found(**column).is_none()
        });
        let missing = missing.map(|(column, name)| {
            let key = column.name();
            format!("no column {name}, and producers fill it: name the one that they fill, [store.columns] {key} = \"NAME\"")
        });
        let columns = self.profile.columns.keys();
        let misfits = columns.filter_map(|column| misfit(*column, self.found(*column)?));
        missing.chain(misfits).map(|doubt| format!("-- NOT SOLVED BELOW: {doubt}\n")).collect()
    }

    fn columns(&self) -> String {
        if self.added.is_empty() {
            return String::new();
        }
        let table = self.profile.table.quoted();
        let added: Vec<_> =
            self.added.iter().map(|column| format!("ADD COLUMN {}", self.added(*column))).collect();
        let alter = if self.words.has_free_alter {
            format!("ALTER TABLE {table}\n    {};\n", added.join(",\n    "))
        } else {
            added.iter().map(|one| format!("ALTER TABLE {table} {one};\n")).collect()
        };
        let states = if self.added.contains(&Column::Status) { self.states() } else { String::new() };
        match self.words.has_transactional_ddl {
            true => format!("BEGIN;\n{alter}{states}COMMIT;\n"),
            false => format!("{alter}{states}"),
        }
    }

    /// A column that is added: its name, its type, and its default.
    fn added(&self, column: Column) -> String {
        let (name, is_free) = (self.quoted(column), self.words.has_free_alter);
        let states = &self.profile.states;
        let definition = match column {
            Column::Status if is_free => {
                format!("{} NOT NULL DEFAULT {}", self.words.name, states.delivered.literal())
            }
            Column::CreatedAt | Column::UpdatedAt | Column::AvailableAt => {
                let now = if is_free { self.now() } else { LONG_AGO };
                format!("{} NOT NULL DEFAULT {now}", self.time())
            }
            _ if column.kinds() == [Kind::Time] => self.time().to_owned(),
            _ => definition(self.profile, column, self.words),
        };
        format!("{name} {definition}")
    }

    /// Which rows are to be delivered: those to come, and of those that are there what its owner says was not
    /// published.
    fn states(&self) -> String {
        let (table, status) = (self.profile.table.quoted(), self.quoted(Column::Status));
        let states = &self.profile.states;
        let (pending, delivered) = (states.pending.literal(), states.delivered.literal());
        let published = Some(Column::DeliveredAt).filter(|column| self.found(*column).is_some());
        let published = published.map(|column| self.quoted(column));
        let (first, last) = match self.words.has_free_alter {
            true => (format!("ALTER TABLE {table} ALTER COLUMN {status} SET DEFAULT {pending};\n"), pending),
            false => (String::new(), delivered),
        };
        let is_null = if self.words.has_free_alter { "IS NULL" } else { "IS NOT NULL" };
        match published {
            Some(published) => format!(
                "{first}-- What was not published yet is to be delivered.\n\
                 UPDATE {table} SET {status} = {last} WHERE {published} {is_null};\n"
            ),
            None if self.words.has_free_alter => format!(
                "{first}-- What is in the table now counts as delivered. If it is to be delivered too:\n\
                 -- UPDATE {table} SET {status} = {last};\n"
            ),
            None => format!(
                "-- What is in the table now counts as delivered. Leave this statement out if it is to be delivered too.\n\
                 UPDATE {table} SET {status} = {last};\n"
            ),
        }
    }

    /// The type of the times that the table has, so that all of them are of one kind.
    fn time(&self) -> &'a str {
        let columns = [Column::CreatedAt, Column::DeliveredAt, Column::UpdatedAt, Column::OccurredAt];
        let times = columns.iter().filter_map(|column| self.found(*column));
        let own = times.filter(|found| found.kind == Kind::Time).map(|found| found.sql_type.as_str()).next();
        own.filter(|own| !own.is_empty()).unwrap_or(self.words.time)
    }

    /// The present moment in that type: a `timestamp` of MySQL is in the zone of its connection, unlike a
    /// `datetime`.
    fn now(&self) -> &'static str {
        let is_zoned = std::ptr::eq(self.words, &MYSQL) && self.time().starts_with("timestamp");
        if is_zoned { "current_timestamp(6)" } else { self.words.now }
    }

    /// The indexes that no index of the table replaces.
    fn indexes(&self) -> String {
        let columns: Vec<_> =
            self.profile.columns.keys().map(|column| (*column, self.found(*column))).collect();
        let there: Vec<_> = columns
            .into_iter()
            .filter(|(column, found)| found.is_some() || self.added.contains(column) || is_producers(*column))
            .collect();
        let mut missing = indexes(self.profile, self.words, &there);
        missing.retain(|index| !self.has_index(index));
        if missing.iter().all(Index::is_offered) {
            missing.clear();
        }
        format!("{}{}", self.index_of_ids(), index::text(&missing))
    }

    /// MySQL finds the rows of an outcome by their ids; on the others claims remember where a row is, or ids
    /// are few.
    fn index_of_ids(&self) -> String {
        let id = self.profile.columns[&Column::Id].as_str();
        let is_there =
            self.present.indexes.iter().any(|columns| columns.first().is_some_and(|first| first == id));
        if self.words.has_partial_indexes || is_there || self.found(Column::Id).is_none() {
            return String::new();
        }
        let (table, name) = (self.profile.table.quoted(), self.profile.table.name());
        let id = self.quoted(Column::Id);
        format!("-- Outcomes find their rows by it.\nCREATE UNIQUE INDEX \"{name}_id\" ON {table} ({id});\n")
    }

    /// Whether an index of the table begins as this one does.
    fn has_index(&self, index: &Index) -> bool {
        let status = self.profile.columns[&Column::Status].as_str();
        self.present.indexes.iter().any(|columns| {
            let mut columns = columns.iter().map(String::as_str);
            let first = columns.next();
            let is_of_part = self.words.has_partial_indexes || index.is_of_key;
            (is_of_part && first == Some(&index.first))
                || (first == Some(status) && columns.next() == Some(&index.first))
        })
    }
}

/// Whether producers fill it, so that it cannot be added for them.
fn is_producers(column: Column) -> bool {
    matches!(column, Column::Id | Column::Type | Column::Payload)
}
