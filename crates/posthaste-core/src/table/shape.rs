//! A profile compared with the table that is really there.

use std::collections::BTreeMap;

use super::{Column, ColumnName, Kind, Profile};
use crate::Error;

/// A column that a table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Its type, as the database writes it in SQL.
    pub sql_type: String,
    /// Whether it may hold nothing.
    pub nullable: bool,
    /// How many characters it takes, where that is limited.
    pub chars_max: Option<u32>,
}

/// A table that can be relayed: everything that the statements need to know.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The profile that it fits.
    pub profile: Profile,
    /// Whether a row's physical address names it: not so where a table has partitions.
    pub has_addresses: bool,
    columns: BTreeMap<Column, Found>,
}

/// The shortest token: a UUID.
const TOKEN_CHARS_MIN: u32 = 36;

impl Shape {
    /// Compares a profile with what is there.
    ///
    /// # Errors
    /// Every mistake: what is missing, and what has another type than it must. [`not_ready`] makes one error
    /// of them.
    pub fn of(profile: Profile, found: &[Found], has_addresses: bool) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut columns = BTreeMap::new();
        for (&column, name) in &profile.columns {
            match found.iter().find(|found| found.name == name.as_str()) {
                None if profile.may_lack(column) => {}
                None => problems.push(missing(column, name)),
                Some(found) => {
                    problems.extend(misfit(column, found));
                    columns.insert(column, found.clone());
                }
            }
        }
        if problems.is_empty() { Ok(Self { profile, has_addresses, columns }) } else { Err(problems) }
    }

    /// What is there for this purpose.
    pub fn found(&self, column: Column) -> Option<&Found> {
        self.columns.get(&column)
    }

    /// Whether the table has a column for this purpose.
    pub fn has(&self, column: Column) -> bool {
        self.columns.contains_key(&column)
    }

    /// The column's name in quotes, if the table has it.
    pub fn quoted(&self, column: Column) -> Option<String> {
        self.has(column).then(|| self.profile.columns[&column].quoted())
    }

    /// The name in quotes of a column that every table has.
    pub fn needed(&self, column: Column) -> String {
        self.profile.columns[&column].quoted()
    }

    /// The column by which events are ordered: the ordering key, else the key.
    pub fn order_column(&self) -> Option<Column> {
        [Column::OrderingKey, Column::Key].into_iter().find(|column| self.has(*column))
    }

    /// A token of a claim as the table takes it: who, as far as there is room for it, and what makes it unique.
    pub fn token(&self, relay: &str, unique: &str) -> String {
        let Some(found) = self.found(Column::LockedBy) else { return unique.to_owned() };
        if found.kind == Kind::Uuid {
            return unique.to_owned();
        }
        let room = found.chars_max.map_or(128, |chars| chars as usize).saturating_sub(unique.len() + 1);
        let name: String = relay.chars().filter(|c| !c.is_control()).take(room).collect();
        if name.is_empty() { unique.to_owned() } else { format!("{name}/{unique}") }
    }
}

/// What a problem begins with that a new column solves.
const NO_COLUMN: &str = "no column ";

fn missing(column: Column, name: &ColumnName) -> String {
    format!("{NO_COLUMN}{name} (store.columns.{}: {})", column.name(), column.kinds()[0].name())
}

/// Everything that is wrong with a table as one error: a list, and at its end what to do about it.
pub fn not_ready(profile: &Profile, problems: &[String]) -> Error {
    let (table, name) = (&profile.table, profile.name());
    let list: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    let lacks = problems.iter().any(|problem| problem.starts_with(NO_COLUMN));
    let remedy = if lacks {
        format!(
            "\n  posthaste migrate print --profile {name} --table {table} --store URL prints the SQL that adds what is missing; \
             columns that have another name are named in [store.columns]"
        )
    } else {
        String::new()
    };
    Error::config(format!("the table {table} is not as the profile {name} needs it:{list}{remedy}"))
}

/// What is wrong with a column that is there.
pub(super) fn misfit(column: Column, found: &Found) -> Option<String> {
    let Found { name, kind, sql_type, chars_max, .. } = found;
    if !column.kinds().contains(kind) {
        let wanted: Vec<_> = column.kinds().iter().map(|kind| kind.name()).collect();
        return Some(format!(
            "the column {name} has the type {sql_type}; it must be {} (store.columns.{})",
            wanted.join(" or "),
            column.name()
        ));
    }
    if let Some(when) = is_emptied(column).filter(|_| !found.nullable) {
        return Some(format!(
            "the column {name} is NOT NULL, but must hold nothing {when}: let it be NULL (on Postgres ALTER TABLE … ALTER COLUMN \
             {name} DROP NOT NULL), or name another one (store.columns.{})",
            column.name()
        ));
    }
    let is_narrow = column == Column::LockedBy && chars_max.is_some_and(|chars| chars < TOKEN_CHARS_MIN);
    is_narrow.then(|| {
        format!("the column {name} takes fewer than {TOKEN_CHARS_MIN} characters, and a claim's token needs as many")
    })
}

/// When a column must be able to hold nothing.
fn is_emptied(column: Column) -> Option<&'static str> {
    match column {
        Column::LockedBy | Column::LockedAt => Some("while no relay has the row"),
        Column::DeliveredAt => Some("until the row is delivered, and again when it is replayed"),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The reference table as Postgres describes it.
    pub(in crate::table) fn reference() -> Vec<Found> {
        let column = |name: &str, kind, sql_type: &str, nullable| Found {
            name: name.to_owned(),
            kind,
            sql_type: sql_type.to_owned(),
            nullable,
            chars_max: None,
        };
        vec![
            column("event_id", Kind::Uuid, "uuid", false),
            column("event_type", Kind::Text, "text", false),
            column("partition_key", Kind::Text, "text", true),
            column("payload", Kind::Bytes, "bytea", false),
            column("headers", Kind::Json, "jsonb", false),
            column("status", Kind::Text, "text", false),
            column("attempts", Kind::Int, "integer", false),
            column("last_error", Kind::Text, "text", true),
            column("available_at", Kind::Time, "timestamp with time zone", false),
            column("locked_by", Kind::Text, "text", true),
            column("locked_at", Kind::Time, "timestamp with time zone", true),
            column("delivered_at", Kind::Time, "timestamp with time zone", true),
            column("created_at", Kind::Time, "timestamp with time zone", false),
            column("updated_at", Kind::Time, "timestamp with time zone", false),
        ]
    }

    #[test]
    fn the_reference_table_fits_and_what_it_has_not_is_not_used() {
        let shape = Shape::of(Profile::open_outbox(), &reference(), true).unwrap();
        assert!(!shape.has(Column::OrderingKey));
        assert_eq!(shape.order_column(), Some(Column::Key));
        assert_eq!(shape.token("relay-1", "u"), "relay-1/u");
    }

    #[test]
    fn every_mistake_is_reported_at_once_with_its_column() {
        let mut found = reference();
        found.retain(|found| found.name != "locked_at");
        found.iter_mut().for_each(|found| {
            if found.name == "attempts" {
                (found.kind, found.sql_type) = (Kind::Text, "text".to_owned());
            }
            if found.name == "locked_by" {
                found.chars_max = Some(20);
            }
        });
        let problems = Shape::of(Profile::open_outbox(), &found, true).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.contains("no column locked_at")), "{problems:?}");
        assert!(
            problems.iter().any(|problem| problem.contains("attempts has the type text")),
            "{problems:?}"
        );
    }

    #[test]
    fn what_is_wrong_with_a_table_is_a_list_with_its_remedy_once() {
        let found = reference();
        let found: Vec<_> = found.into_iter().filter(|found| !found.name.starts_with("locked")).collect();
        let problems = Shape::of(Profile::open_outbox(), &found, true).unwrap_err();
        let error = not_ready(&Profile::open_outbox(), &problems).to_string();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines.len(), 4, "{error}");
        assert_eq!(lines[0], "the table openoutbox_events is not as the profile open-outbox needs it:");
        assert_eq!(lines[1], "  no column locked_by (store.columns.locked_by: text)");
        assert_eq!(error.matches("migrate print").count(), 1, "{error}");
        let forbidden = not_ready(&Profile::open_outbox(), &["GRANT it".to_owned()]).to_string();
        assert!(!forbidden.contains("migrate print"), "{forbidden}");
    }

    #[test]
    fn a_lease_and_the_time_of_a_delivery_can_be_taken_back() {
        for name in ["locked_by", "locked_at", "delivered_at"] {
            let mut found = reference();
            found.iter_mut().filter(|found| found.name == name).for_each(|found| found.nullable = false);
            let problems = Shape::of(Profile::open_outbox(), &found, true).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains(&format!("the column {name} is NOT NULL")), "{problems:?}");
        }
    }

    #[test]
    fn a_custom_table_must_have_every_column_that_is_named() {
        let custom = Profile::named("custom").unwrap().with(Column::Topic, ColumnName::fixed("route"));
        let problems = Shape::of(custom, &reference(), true).unwrap_err();
        assert!(problems[0].contains("no column route"), "{problems:?}");
    }

    #[test]
    fn a_token_fits_its_column() {
        let unique = "0123456789012345678901234567890123456";
        let mut found = reference();
        let locked_by = found.iter_mut().find(|found| found.name == "locked_by").unwrap();
        locked_by.chars_max = Some(40);
        let shape = Shape::of(Profile::open_outbox(), &found, true).unwrap();
        assert_eq!(shape.token("a-long-name", unique), format!("a-/{unique}"));
        found.iter_mut().find(|found| found.name == "locked_by").unwrap().kind = Kind::Uuid;
        let shape = Shape::of(Profile::open_outbox(), &found, true).unwrap();
        assert_eq!(shape.token("a-long-name", unique), unique);
    }
}
