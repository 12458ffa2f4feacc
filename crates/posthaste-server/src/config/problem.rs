//! What is wrong with a configuration, and where it stands.

use std::fmt;

use super::tree::Origin;

/// One mistake: where it stands, and a sentence that says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    origin: String,
    message: String,
}

impl Problem {
    pub(super) fn at(origin: &Origin, message: String) -> Self {
        Self { origin: origin.to_string(), message }
    }

    pub(super) fn new(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin: origin.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
