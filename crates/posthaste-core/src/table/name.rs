//! The one place where configured names of a foreign table become part of SQL.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// What Postgres takes for a name, and less than what MariaDB takes.
const NAME_BYTES_MAX: usize = 63;
const STATE_BYTES_MAX: usize = 64;

/// The name of a column: 1 to 63 letters, digits and underscores.
///
/// # Guarantees
/// Holds nothing that could end a quoted name, and cannot be made in any other way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnName(String);

impl ColumnName {
    /// The name as it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in quotes, as Postgres and SQLite take it.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }

    /// For names in the source: a test reads them all.
    pub(super) fn fixed(text: &'static str) -> Self {
        text.parse().expect("names of built-in profiles are names")
    }
}

impl FromStr for ColumnName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if !is_name(text) {
            return Err(Error::config(format!(
                "the name {text:?} cannot be used: it must have 1 to {NAME_BYTES_MAX} letters, digits and underscores"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(fits)
}

/// The name of a table, with or without its schema: `openoutbox_events`, `shop.outbox`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    schema: Option<ColumnName>,
    name: ColumnName,
}

impl TableName {
    /// The schema, where one is named.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_ref().map(ColumnName::as_str)
    }

    /// The name without its schema.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The whole name in quotes, as Postgres and SQLite take it.
    pub fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(), self.name.quoted()),
            None => self.name.quoted(),
        }
    }

    pub(super) fn fixed(text: &'static str) -> Self {
        Self { schema: None, name: ColumnName::fixed(text) }
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema.parse()?), name),
            None => (None, text),
        };
        Ok(Self { schema, name: name.parse()? })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        self.name.fmt(f)
    }
}

/// The word for a state: 1 to 64 letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateName(String);

impl StateName {
    /// The word as it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The word in quotes: it stands in SQL as it is, so that indexes on part of a table are found.
    pub fn literal(&self) -> String {
        format!("'{}'", self.0)
    }

    pub(super) fn fixed(text: &'static str) -> Self {
        text.parse().expect("states of built-in profiles are words")
    }
}

impl FromStr for StateName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > STATE_BYTES_MAX || !text.bytes().all(fits) {
            return Err(Error::config(format!(
                "the state {text:?} cannot be used: it must have 1 to {STATE_BYTES_MAX} letters, digits, '_' and '-'"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = "a".repeat(STATE_BYTES_MAX.max(NAME_BYTES_MAX) + 1);
        for name in ["", "a b", "a\"b", "a;b", "a'b", "a\0b", "Ä", "a--", "a)b", &long] {
            assert!(name.parse::<ColumnName>().is_err(), "{name:?}");
            assert!(name.parse::<StateName>().is_err() || name == "a--", "{name:?}");
            assert!(format!("s.{name}").parse::<TableName>().is_err(), "{name:?}");
        }
        assert!("a.b.c".parse::<TableName>().is_err());
        assert!(".b".parse::<TableName>().is_err());
    }

    #[test]
    fn names_are_quoted_part_by_part() {
        assert_eq!("shop.Outbox_2".parse::<TableName>().unwrap().quoted(), "\"shop\".\"Outbox_2\"");
        assert_eq!("2_outbox".parse::<TableName>().unwrap().quoted(), "\"2_outbox\"");
        assert_eq!("in-flight".parse::<StateName>().unwrap().literal(), "'in-flight'");
    }
}
