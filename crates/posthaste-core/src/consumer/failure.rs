//! What a handler answers when it could not handle an event.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::classify;
use crate::Error;
use crate::broker::Reason;

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why an event was not handled, and what is to become of it.
///
/// Any error becomes one with `?`: the event is then tried again, as the consumer's retry policy says, unless the error says that
/// this is vain. The named ways:
///
/// ```
/// # use posthaste_core::consumer::Failure;
/// # use std::time::Duration;
/// # fn example(stock: u32, open: bool) -> Result<(), Failure> {
/// let quantity: u32 = "12".parse()?;                                  // any error: tried again, mostly
/// if quantity == 0 {
///     return Err(Failure::reject("an order of nothing").code("empty"));   // dead now, with the reason
/// }
/// if !open {
///     return Err(Failure::later(Duration::from_secs(60)));             // waits, and no attempt is counted
/// }
/// # Ok(()) }
/// ```
///
/// It takes any error by `From`, so it is no `std::error::Error` itself.
#[derive(Debug)]
pub struct Failure {
    class: Class,
    code: Cow<'static, str>,
    cause: BoxError,
    retry_after: Option<Duration>,
}

/// What is to become of an event that was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// It is tried again as the retry policy says, and is dead when that gives up.
    Retry,
    /// It is dead now.
    Reject,
    /// It is tried again after this time, and the attempt does not count.
    Later(Duration),
}

impl Failure {
    /// Tried again as the retry policy says; what `?` makes of any error.
    pub fn retry(cause: impl Into<BoxError>) -> Self {
        Self { class: Class::Retry, code: Cow::Borrowed("error"), cause: cause.into(), retry_after: None }
    }

    /// Dead now: the same event would fail again.
    pub fn reject(cause: impl Into<BoxError>) -> Self {
        Self { class: Class::Reject, code: Cow::Borrowed("rejected"), ..Self::retry(cause) }
    }

    /// Tried again after this time; the attempt does not count.
    pub fn later(after: Duration) -> Self {
        Self { class: Class::Later(after), code: Cow::Borrowed("later"), ..Self::retry("not yet") }
    }

    /// Somebody answered with this HTTP status: what the server could not do (5xx) and what came too soon is tried again, what it
    /// will not do is dead.
    pub fn status(status: u16, cause: impl Into<BoxError>) -> Self {
        let (class, code) = classify::of_status(status);
        Self { class, code: Cow::Borrowed(code), ..Self::retry(cause) }
    }

    /// Names it with a stable word, by which dead letters are grouped.
    #[must_use]
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = code.into();
        self
    }

    /// Not to be tried again before this time has passed; the retry policy honours it as a lower bound.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// What is to become of the event.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The stable word for it.
    pub fn code_str(&self) -> &str {
        &self.code
    }

    /// What went wrong.
    pub fn cause(&self) -> &(dyn StdError + 'static) {
        self.cause.as_ref()
    }

    /// The cause as this type of error, if it is one; for [`classify`](super::Consumer::classify).
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    pub(crate) fn asked_pause(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Why it is dead, cleaned for storing and showing.
    pub(crate) fn reason(&self) -> Reason {
        Reason::new(self.code.clone(), crate::redact::clean(&self.to_string()))
    }

    /// Why it is dead although it might be tried again: others of its key have waited long enough.
    pub(crate) fn reason_after_holding(&self, hold_max: Duration) -> Reason {
        let reason = self.reason();
        let message = format!(
            "its key has waited for {hold_max:?}, which is enough; the last failure: {}",
            reason.message
        );
        Reason::new(reason.code, crate::redact::clean(&message))
    }

    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::retry(format!("the handler panicked: {}", said.unwrap_or("no message"))).code("panic")
    }

    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self::retry(format!("the handler did not end within {limit:?}")).code("timeout")
    }

    pub(crate) fn undecodable(error: Error) -> Self {
        Self::reject(error).code("undecodable")
    }

    pub(crate) fn unhandled(event_type: &str) -> Self {
        Self::reject(format!("no handler takes events of type {event_type:?}")).code("unhandled")
    }

    pub(crate) fn crashed(times: u32) -> Self {
        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        let said = format!(
            "the process that handled this event alone ended {times} without an answer: it was killed, or it crashed; find out why before it is redriven"
        );
        Self::reject(said).code("crash")
    }

    /// The database or another store of ours failed: the handler's work is undone.
    pub(crate) fn database(doing: &str, error: posthaste_sql::SqlError) -> Self {
        Self::retry(Error::from(error).during(doing)).code("database")
    }
}

/// The cause, and what caused that.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.cause.to_string();
        for error in classify::causes(self.cause.as_ref()).skip(1) {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
        }
        f.write_str(&text)
    }
}

/// Classified by what it is and what caused it: connections that break, time that is over, databases that are busy and whatever
/// nobody knows are tried again; what is not allowed, what has the wrong values and what was cancelled is dead. The documentation
/// on handling events has the table.
impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let cause = error.into();
        let (class, code) = classify::classify(cause.as_ref());
        Self { class, code: Cow::Borrowed(code), ..Self::retry(cause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_is_tried_again_and_our_own_say_when_that_is_vain() {
        let parse = "x".parse::<u32>().unwrap_err();
        assert_eq!(Failure::from(parse).class(), Class::Retry);
        assert_eq!(Failure::from(Error::unavailable("away")).class(), Class::Retry);
        assert_eq!(Failure::from(Error::too_large("much")).class(), Class::Reject);
        assert_eq!(Failure::from("words").class(), Class::Retry);
    }

    #[test]
    fn a_reason_keeps_no_secrets_and_tells_the_cause_once() {
        let cause = std::io::Error::other("password=hunter2 refused");
        let failure = Failure::retry(Error::unavailable("the bank is away").because(cause)).code("bank");
        assert_eq!(failure.reason(), Reason::new("bank", "the bank is away: password=*** refused"));
    }
}
