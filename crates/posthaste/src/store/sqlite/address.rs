//! The part of a store URL after `sqlite:`.

use std::path::PathBuf;

use posthaste_core::{Error, Result};

/// Which file, and what may be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) path: PathBuf,
    pub(super) mode: Mode,
}

/// What may be done with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is looked at.
    Look,
    /// It is written, and must be there.
    Write,
    /// It is written, and made if it is not there.
    Make,
}

impl Address {
    /// Reads `//posthaste.db`, `posthaste.db`, `///abs/path.db`, each with or without `?mode=ro|rw|rwc`.
    pub(super) fn parse(rest: &str, create: bool) -> Result<Self> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path == ":memory:" || path.contains('\0') {
            return Err(Error::config(
                "the store URL names no file; write sqlite://FILE, like sqlite://posthaste.db",
            ));
        }
        let mut mode = if create { Mode::Make } else { Mode::Write };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            mode = match part {
                "mode=ro" => Mode::Look,
                "mode=rw" => Mode::Write,
                "mode=rwc" => Mode::Make,
                _ => {
                    return Err(Error::config(format!(
                        "the store URL ends in {part:?}, which is not understood; mode=ro, mode=rw and mode=rwc are"
                    )));
                }
            };
        }
        Ok(Self { path: PathBuf::from(path), mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_url_names_its_file() {
        let table = [
            ("//posthaste.db", "posthaste.db", Mode::Make),
            ("posthaste.db", "posthaste.db", Mode::Make),
            ("///var/lib/a b.db", "/var/lib/a b.db", Mode::Make),
            ("/var/lib/a.db?mode=ro", "/var/lib/a.db", Mode::Look),
            ("a.db?mode=rw", "a.db", Mode::Write),
        ];
        for (rest, path, mode) in table {
            let expected = Address { path: PathBuf::from(path), mode };
            assert_eq!(Address::parse(rest, true).unwrap(), expected, "{rest}");
        }
        assert_eq!(Address::parse("a.db", false).unwrap().mode, Mode::Write);
    }

    #[test]
    fn nonsense_is_refused() {
        for rest in ["", "//", ":memory:", "a.db?mode=all", "a.db?cache=shared"] {
            assert!(Address::parse(rest, true).is_err(), "{rest}");
        }
    }
}
