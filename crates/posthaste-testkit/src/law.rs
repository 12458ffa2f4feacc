//! What a law is, and what it can say.

use std::fmt;
use std::pin::Pin;

/// A law on a bench of this kind: its promise as a name, and the function that holds a backend to it.
pub struct Law<B> {
    /// The function's name: the promise.
    pub name: &'static str,
    /// Runs it on a fresh bench.
    pub run: fn(B) -> Pin<Box<dyn Future<Output = LawResult>>>,
}

/// What a law answers.
pub type LawResult = Result<(), Verdict>;

/// Why a law did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The backend breaks it.
    Broken(String),
    /// The backend has not what the law is about, and says so.
    Skipped(String),
}

impl Verdict {
    /// The backend breaks the law: what was seen.
    pub fn broken(seen: impl fmt::Display) -> Self {
        Self::Broken(seen.to_string())
    }

    /// The backend has not what the law is about: why.
    pub fn skipped(why: impl fmt::Display) -> Self {
        Self::Skipped(why.to_string())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(seen) => write!(f, "broken: {seen}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

impl From<posthaste_core::Error> for Verdict {
    fn from(error: posthaste_core::Error) -> Self {
        Self::broken(format_args!("unexpected error ({:?}): {error}", error.kind()))
    }
}

/// Breaks the law unless this holds: `ensure!(held, "what was seen: {seen:?}")`.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($seen:tt)+) => {
        if !$holds {
            return Err($crate::law::Verdict::broken(format!("{} (line {} of {})", format_args!($($seen)+), line!(), file!())));
        }
    };
}

/// Breaks the law unless both are equal: `ensure_eq!(seen, expected, "what was compared")`.
#[macro_export]
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($what:tt)+) => {{
        let (seen, expected) = (&$seen, &$expected);
        $crate::ensure!(*seen == *expected, "{}: expected {expected:?}, saw {seen:?}", format_args!($($what)+));
    }};
}

/// Makes a list of laws from the names of async functions.
#[macro_export]
macro_rules! laws {
    ($($module:ident :: $law:ident),* $(,)?) => {
        &[$($crate::law::Law { name: stringify!($law), run: |bench| Box::pin($module::$law(bench)) }),*]
    };
}
