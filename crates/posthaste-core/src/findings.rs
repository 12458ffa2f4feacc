//! What somebody found who looked at a store or a target: in order or not, what was seen, and how to mend it.
//!
//! A look changes nothing, and every question of it has an end ([`asked`]): what cannot be answered is a finding too, and
//! hides no other one.
//!
//! Each store and target examines itself, so a check stands beside the code that it is about. On Postgres the
//! start-up check uses the same list: acquiring a lane stops at the first failure, and the doctor reports all
//! of them. A [`Mend`] is data, so that tests can run exactly what people are told to run.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::{Error, Result, redact};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// In order.
    Ok,
    /// It works, and may go wrong later, or is slower than it could be.
    Warning,
    /// Events are not delivered, or may be lost.
    Failure,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// How something is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mend {
    /// By these statements, each for itself, by a user who may.
    Sql(Vec<String>),
    /// By this command in a shell.
    Command(String),
    /// By somebody who reads this.
    Words(String),
}

impl Mend {
    /// By this statement.
    pub fn sql(statement: impl Into<String>) -> Self {
        Self::Sql(vec![statement.into()])
    }

    /// By this command.
    pub fn command(command: impl Into<String>) -> Self {
        Self::Command(command.into())
    }

    /// As this says.
    pub fn words(words: impl Into<String>) -> Self {
        Self::Words(words.into())
    }
}

/// As it fits at the end of a sentence.
impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(statements) => write!(f, "run {}", statements.join("; ")),
            Self::Command(command) => write!(f, "run `{command}`"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at, in a few words that stay the same.
    pub check: String,
    /// How bad it is.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// How to mend it; nothing where all is well, or where only whoever knows the machine can say.
    pub mend: Option<Mend>,
}

impl Finding {
    /// All is well.
    pub fn ok(check: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, seen: seen.into(), mend: None }
    }

    /// It works for now.
    pub fn warning(check: impl Into<String>, seen: impl Into<String>, mend: Mend) -> Self {
        Self { verdict: Verdict::Warning, mend: Some(mend), ..Self::ok(check, seen) }
    }

    /// It does not work, or loses events.
    pub fn failure(check: impl Into<String>, seen: impl Into<String>, mend: Mend) -> Self {
        Self { verdict: Verdict::Failure, mend: Some(mend), ..Self::ok(check, seen) }
    }

    /// The look itself failed; the error says what to do, where that is known.
    pub fn error(check: impl Into<String>, error: &Error) -> Self {
        Self { verdict: Verdict::Failure, ..Self::ok(check, redact::clean_lines(&error.to_string())) }
    }
}

/// Asks for at most so long. An error is a failure by this name; no answer is a warning, as nobody knows more then.
pub async fn asked(
    check: &str,
    within: Duration,
    question: impl Future<Output = Result<Vec<Finding>>>,
) -> Vec<Finding> {
    match tokio::time::timeout(within, question).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => vec![Finding::error(check, &error)],
        Err(_) => vec![Finding::warning(
            check,
            format!("there was no answer within {within:?}"),
            Mend::words("look whether it is overloaded or somebody holds a lock, and ask again"),
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_is_a_finding() {
        let within = Duration::from_secs(3);
        let found = asked("clock", within, std::future::pending()).await;
        assert_eq!((found[0].check.as_str(), found[0].verdict), ("clock", Verdict::Warning));
        let failed = async { Err(Error::unavailable("password=hunter2 is wrong")) };
        let found = asked("store", within, failed).await;
        assert_eq!(found[0].verdict, Verdict::Failure);
        assert!(!found[0].seen.contains("hunter2"), "{found:?}");
    }

    #[test]
    fn how_to_mend_it_ends_a_sentence() {
        assert_eq!(Mend::Sql(vec!["A".to_owned(), "B".to_owned()]).to_string(), "run A; B");
        assert_eq!(Mend::command("posthaste check").to_string(), "run `posthaste check`");
    }
}
