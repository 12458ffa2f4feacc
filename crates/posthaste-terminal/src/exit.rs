//! How the process ends: exit codes are API.

use std::fmt;

use posthaste_core::{Error, ErrorKind};

/// What the process answers to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done, or stopped when asked to.
    Ok = 0,
    /// Anything that has no code of its own.
    Other = 1,
    /// The command line, or what was handed in by it, is wrong.
    Usage = 2,
    /// The configuration, a right or the schema is wrong.
    Config = 3,
    /// The store cannot be reached.
    Store = 4,
    /// A target cannot be reached.
    Target = 5,
    /// Nothing matched what was to be shown or changed. An empty list is an answer, and no failure.
    Nothing = 6,
    /// It was done, and what was waited for did not come: events died again, or it took too long.
    Unfinished = 7,
}

/// Why a verb failed: a sentence that fits after `error: failed to`, and the exit code.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    /// A failure with this code; the message says what failed and what to do next.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// The configuration is wrong.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Code::Config, message)
    }

    /// Anything else.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(Code::Other, message)
    }

    /// Nothing matched.
    pub fn nothing(message: impl Into<String>) -> Self {
        Self::new(Code::Nothing, message)
    }

    /// Whoever read our stdout has seen enough: an end without a word, and no failure.
    pub fn quiet() -> Self {
        Self::new(Code::Ok, String::new())
    }

    /// Whether nothing is to be said about it.
    pub fn is_quiet(&self) -> bool {
        self.message.is_empty()
    }

    /// A target answered this error.
    pub fn target(error: &Error) -> Self {
        let code = if error.kind() == ErrorKind::Unavailable { Code::Target } else { code_of(error.kind()) };
        Self::new(code, error.to_string())
    }

    /// Puts what we were doing in front.
    #[must_use]
    pub fn during(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// Adds what else may help.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }

    /// The exit code.
    pub fn code(&self) -> Code {
        self.code
    }
}

/// An error of the store, or of what was handed to it.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(code_of(error.kind()), error.to_string())
    }
}

fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Unavailable => Code::Store,
        ErrorKind::Config => Code::Config,
        ErrorKind::Rejected | ErrorKind::TooLarge => Code::Usage,
        ErrorKind::NotFound => Code::Nothing,
        _ => Code::Other,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_target_is_told_from_one_of_the_store() {
        let away = || Error::unavailable("connection refused");
        assert_eq!(Failure::from(away()).code(), Code::Store);
        assert_eq!(Failure::target(&away()).code(), Code::Target);
        assert_eq!(Failure::target(&Error::config("no such scheme")).code(), Code::Config);
    }
}
