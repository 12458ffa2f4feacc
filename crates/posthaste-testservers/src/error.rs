//! What can go wrong here, told apart by who must act.

use std::{fmt, io};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a task ended early.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Somebody asked us to end (Ctrl-C, SIGTERM, SIGHUP). Nobody has to act.
    Interrupted,
    /// This machine does not have it and cannot get it: not installed, and no root or no apt. Trials are skipped.
    Unavailable(String),
    /// Something that should work did not.
    Failed(String),
}

impl Error {
    /// Something that should work did not; `message` says what.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Unavailable(message) | Self::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// Adds what we were doing to an error of the operating system.
pub trait Doing<T> {
    /// Turns the error into one that reads `failed to {what}: {cause}`.
    fn doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|cause| Error::Failed(format!("failed to {what}: {cause}")))
    }
}
