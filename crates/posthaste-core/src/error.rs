//! One error type: who must act, what we were doing, and the cause.

use std::error::Error as StdError;
use std::fmt;

/// What an operation of Posthaste answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nobody: the other side is away or busy. Try again later.
    Unavailable,
    /// Nobody: somebody else was faster, or the same id exists with other contents. Look again, then decide.
    Conflict,
    /// The caller: something is over its limit.
    TooLarge,
    /// The caller: the input is wrong and will stay wrong.
    Rejected,
    /// Whoever deploys: a setting, a right, a schema.
    Config,
    /// Whoever operates: stored data is not what it must be.
    Corrupt,
    /// The caller: what was asked for is not there.
    NotFound,
}

/// A failure: its [`kind`](Error::kind), a sentence that fits after "failed to", and the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind; the message is lower case and says what to do where that is known.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// The other side is away or busy.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The input is wrong.
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rejected, message)
    }

    /// Something is over its limit.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// A setting, a right or a schema is wrong.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// Somebody else was faster, or contents differ.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Stored data is not what it must be.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// What was asked for is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Keeps what caused this.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Puts what we were doing in front: `claim from lane "main": connection refused`.
    #[must_use]
    pub fn during(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// Who must act.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Conflict)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !self.message.contains(&text) {
                write!(f, ": {text}")?;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

impl From<posthaste_sql::SqlError> for Error {
    fn from(error: posthaste_sql::SqlError) -> Self {
        let kind = if error.is_duplicate() { ErrorKind::Conflict } else { ErrorKind::Unavailable };
        Self::new(kind, error.to_string()).because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_we_did_and_its_cause_once() {
        let cause = std::io::Error::other("connection refused");
        let error = Error::unavailable("the store is away").because(cause).during("claim from lane \"main\"");
        assert_eq!(error.to_string(), "claim from lane \"main\": the store is away: connection refused");
        assert!(error.retryable());
    }
}
