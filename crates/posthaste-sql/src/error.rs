//! What a driver said when a statement failed.

use std::error::Error as StdError;
use std::fmt;

/// A driver's failure, with its cause kept.
///
/// The driver's own error is the [`source`](StdError::source); this type adds only what Posthaste must tell apart.
#[derive(Debug)]
pub struct SqlError {
    duplicate: bool,
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl SqlError {
    /// Wraps a driver's error.
    pub fn new(cause: impl StdError + Send + Sync + 'static) -> Self {
        Self { duplicate: false, message: cause.to_string(), cause: Some(Box::new(cause)) }
    }

    /// Wraps a driver's error that says less than it knows.
    #[cfg(feature = "tokio-postgres")]
    pub(crate) fn described(message: String, cause: impl StdError + Send + Sync + 'static) -> Self {
        Self { duplicate: false, message, cause: Some(Box::new(cause)) }
    }

    /// Says what went wrong where there is no driver's error to wrap.
    pub fn message(message: impl Into<String>) -> Self {
        Self { duplicate: false, message: message.into(), cause: None }
    }

    /// Marks this error as a violated unique key: the row is already there.
    #[must_use]
    pub fn as_duplicate(mut self) -> Self {
        self.duplicate = true;
        self
    }

    /// Whether the statement failed because a row with the same unique key exists.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for SqlError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}
