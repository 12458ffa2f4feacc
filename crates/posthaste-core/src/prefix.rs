//! The one place where a configured name becomes part of SQL.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

const PREFIX_BYTES_MAX: usize = 40;

/// What the names of Posthaste's tables begin with: `posthaste_` unless configured.
///
/// # Guarantees
/// Holds only lower-case letters, digits and underscores, and does not begin with a digit, so it can stand in SQL as it
/// is. It cannot be made in any other way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TablePrefix(String);

impl TablePrefix {
    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts this prefix where the text says `{prefix}`.
    pub fn apply(&self, sql: &str) -> String {
        sql.replace("{prefix}", &self.0)
    }
}

impl Default for TablePrefix {
    fn default() -> Self {
        Self("posthaste_".to_owned())
    }
}

impl FromStr for TablePrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        if !begins || !text.bytes().all(fits) || text.len() > PREFIX_BYTES_MAX {
            return Err(Error::config(format!(
                "the table prefix {text:?} cannot be used: it must have 1 to {PREFIX_BYTES_MAX} lower-case letters, \
                 digits and underscores and not begin with a digit"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TablePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = "a".repeat(200);
        let hostile =
            ["", "1a", "a b", "a;b", "a'b", "a\"b", "a\0b", "Ä", "A_", "a--", "a.b", &long, "{prefix}"];
        for name in hostile {
            let error = name.parse::<TablePrefix>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Config, "{name:?}");
        }
        assert_eq!("shop_2_".parse::<TablePrefix>().unwrap().apply("{prefix}events"), "shop_2_events");
    }
}
