//! SQL as data.

use std::borrow::Cow;

/// Which SQL a transaction speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL 13 or later; placeholders `$1`, `$2`, …
    Postgres,
    /// SQLite 3.37 or later; placeholders `?1`, `?2`, …
    Sqlite,
    /// MariaDB 10.6 or MySQL 8.0, or later; placeholders `?` in their order, and a value that is used twice comes twice.
    Mysql,
}

/// One value of a [`Statement`]; `None` is SQL's NULL.
///
/// Three types are enough: where the database has a richer one (JSON, a time stamp), the statement's text casts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// `bigint`, `INTEGER`
    Int(Option<i64>),
    /// `text`
    Text(Option<String>),
    /// `bytea`, `BLOB`
    Bytes(Option<Vec<u8>>),
}

/// A text with numbered placeholders and the values that belong to them, in order.
///
/// # Guarantees
/// The text holds no user data: values are never spliced in. Every placeholder is cast to its type in the text, so a
/// driver may send the values without asking the server for their types first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The text.
    pub sql: Cow<'static, str>,
    /// The values of `$1`, `$2`, … (`?1`, `?2`, … on SQLite; each `?` in its order on MariaDB).
    pub values: Vec<Value>,
}

impl Statement {
    /// Joins a text and its values.
    pub fn new(sql: impl Into<Cow<'static, str>>, values: Vec<Value>) -> Self {
        Self { sql: sql.into(), values }
    }
}
