//! What an error means that a handler passed on with `?`: whether the same event could pass another time, and its code.
//!
//! The error and what caused it are asked in turn, and the first that says something decides. Whoever says nothing is tried
//! again: a retry too many costs little, and an event that is dead too early costs somebody's attention.
//!
//! Types and codes decide, never the text of an error.

use std::error::Error as StdError;
use std::io;

use posthaste_sql::Fault;

use super::failure::Class;
use crate::{Error, ErrorKind};

/// How many causes are asked; an error may be its own cause.
const CAUSES_MAX: usize = 16;

const UNKNOWN: (Class, &str) = (Class::Retry, "error");

/// What this error means.
pub(super) fn classify(error: &(dyn StdError + 'static)) -> (Class, &'static str) {
    causes(error).find_map(told).unwrap_or(UNKNOWN)
}

/// An error, and what caused it, as far as anybody wants to know.
pub(super) fn causes<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error)).take(CAUSES_MAX)
}

fn cause<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    // An I/O error passes over the error that it wraps, to the cause of that.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|error| error as _).or_else(|| error.source())
}

/// What an answer with this status means: <https://www.rfc-editor.org/rfc/rfc9110#name-status-codes>.
pub(super) fn of_status(status: u16) -> (Class, &'static str) {
    match status {
        401 | 403 | 407 => (Class::Reject, "not allowed"),
        408 | 504 => (Class::Retry, "timeout"),
        // Somebody else is at it, it is too early, or too much.
        409 | 421 | 423 | 425 | 429 => (Class::Retry, "busy"),
        400..500 => (Class::Reject, "invalid"),
        500..600 => (Class::Retry, "unavailable"),
        _ => UNKNOWN,
    }
}

fn told(error: &(dyn StdError + 'static)) -> Option<(Class, &'static str)> {
    of_ours(error)
        .or_else(|| of_io(error))
        .or_else(|| of_tokio(error))
        .or_else(|| of_json(error))
        .or_else(|| Fault::of(error).map(of_fault))
}

/// Our own errors say who must act: what the caller got wrong stays wrong.
fn of_ours(error: &(dyn StdError + 'static)) -> Option<(Class, &'static str)> {
    match error.downcast_ref::<Error>()?.kind() {
        ErrorKind::Rejected | ErrorKind::TooLarge => Some((Class::Reject, "rejected")),
        _ => None,
    }
}

fn of_io(error: &(dyn StdError + 'static)) -> Option<(Class, &'static str)> {
    use io::ErrorKind as Kind;
    match error.downcast_ref::<io::Error>()?.kind() {
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::BrokenPipe
        | Kind::UnexpectedEof
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrNotAvailable => Some((Class::Retry, "connection")),
        Kind::TimedOut => Some((Class::Retry, "timeout")),
        Kind::PermissionDenied => Some((Class::Reject, "not allowed")),
        // InvalidData and InvalidInput too: a server's bad certificate is both.
        _ => None,
    }
}

fn of_tokio(error: &(dyn StdError + 'static)) -> Option<(Class, &'static str)> {
    if error.is::<tokio::time::error::Elapsed>() {
        return Some((Class::Retry, "timeout"));
    }
    let joined = error.downcast_ref::<tokio::task::JoinError>()?;
    // Somebody ended the task on purpose.
    Some(if joined.is_cancelled() { (Class::Reject, "cancelled") } else { (Class::Retry, "panic") })
}

/// JSON of another shape stays so. What is no JSON at all, or cut off, may be the error page of something in between.
fn of_json(error: &(dyn StdError + 'static)) -> Option<(Class, &'static str)> {
    let error = error.downcast_ref::<serde_json::Error>()?;
    error.is_data().then_some((Class::Reject, "invalid"))
}

fn of_fault(fault: Fault) -> (Class, &'static str) {
    match fault {
        Fault::Connection => (Class::Retry, "connection"),
        Fault::Exhausted => (Class::Retry, "exhausted"),
        Fault::Timeout => (Class::Retry, "timeout"),
        Fault::Conflict => (Class::Retry, "conflict"),
        Fault::Invalid => (Class::Reject, "invalid"),
        Fault::NotAllowed => (Class::Reject, "not allowed"),
        _ => (Class::Retry, "database"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: impl StdError + 'static) -> (Class, &'static str) {
        classify(&error)
    }

    #[test]
    fn the_network_is_tried_again_and_rights_are_not() {
        use io::ErrorKind as Kind;
        for (kind, expected) in [
            (Kind::ConnectionRefused, (Class::Retry, "connection")),
            (Kind::ConnectionReset, (Class::Retry, "connection")),
            (Kind::ConnectionAborted, (Class::Retry, "connection")),
            (Kind::BrokenPipe, (Class::Retry, "connection")),
            (Kind::UnexpectedEof, (Class::Retry, "connection")),
            (Kind::HostUnreachable, (Class::Retry, "connection")),
            (Kind::TimedOut, (Class::Retry, "timeout")),
            (Kind::PermissionDenied, (Class::Reject, "not allowed")),
            (Kind::InvalidData, UNKNOWN),
            (Kind::NotFound, UNKNOWN),
            (Kind::Other, UNKNOWN),
        ] {
            assert_eq!(said(io::Error::from(kind)), expected, "{kind:?}");
        }
    }

    #[test]
    fn answers_go_by_their_status() {
        for (status, expected) in [
            (400, (Class::Reject, "invalid")),
            (401, (Class::Reject, "not allowed")),
            (403, (Class::Reject, "not allowed")),
            (404, (Class::Reject, "invalid")),
            (408, (Class::Retry, "timeout")),
            (409, (Class::Retry, "busy")),
            (422, (Class::Reject, "invalid")),
            (429, (Class::Retry, "busy")),
            (500, (Class::Retry, "unavailable")),
            (503, (Class::Retry, "unavailable")),
            (504, (Class::Retry, "timeout")),
            (302, UNKNOWN),
            (0, UNKNOWN),
        ] {
            assert_eq!(of_status(status), expected, "{status}");
        }
    }

    #[test]
    fn json_of_another_shape_is_vain_and_what_is_no_json_may_change() {
        let shape = serde_json::from_str::<u32>("\"seven\"").unwrap_err();
        assert_eq!(said(shape), (Class::Reject, "invalid"));
        let page = serde_json::from_str::<u32>("<html>502</html>").unwrap_err();
        assert_eq!(said(page), UNKNOWN);
        let cut = serde_json::from_str::<u32>("").unwrap_err();
        assert_eq!(said(cut), UNKNOWN);
    }

    #[test]
    fn what_a_driver_means_decides() {
        assert_eq!(of_fault(Fault::Exhausted), (Class::Retry, "exhausted"));
        assert_eq!(of_fault(Fault::Connection), (Class::Retry, "connection"));
        assert_eq!(of_fault(Fault::Timeout), (Class::Retry, "timeout"));
        assert_eq!(of_fault(Fault::Conflict), (Class::Retry, "conflict"));
        assert_eq!(of_fault(Fault::Invalid), (Class::Reject, "invalid"));
        assert_eq!(of_fault(Fault::NotAllowed), (Class::Reject, "not allowed"));
        assert_eq!(of_fault(Fault::Other), (Class::Retry, "database"));
    }

    #[tokio::test]
    async fn a_task_that_was_ended_is_not_begun_again_and_one_that_took_too_long_is() {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(std::future::pending::<()>()).abort();
        let cancelled = tasks.join_next().await.unwrap().unwrap_err();
        assert_eq!(said(cancelled), (Class::Reject, "cancelled"));
        let slow = tokio::time::timeout(std::time::Duration::ZERO, std::future::pending::<()>()).await;
        assert_eq!(said(slow.unwrap_err()), (Class::Retry, "timeout"));
    }

    #[test]
    fn causes_are_asked_until_one_knows() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let wrapped = Error::unavailable("the bank is away").because(io::Error::other(refused));
        assert_eq!(said(wrapped), (Class::Retry, "connection"));
        let ours = Error::rejected("no such account").because(io::Error::from(io::ErrorKind::TimedOut));
        assert_eq!(said(ours), (Class::Reject, "rejected"), "the first that says something decides");
        assert_eq!(said(io::Error::other(Error::too_large("much"))), (Class::Reject, "rejected"));
        assert_eq!(said("x".parse::<u32>().unwrap_err()), UNKNOWN);
    }

    /// Is its own cause.
    #[derive(Debug)]
    struct Round;

    impl std::fmt::Display for Round {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("round and round")
        }
    }

    impl StdError for Round {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(self)
        }
    }

    #[test]
    fn an_error_without_end_is_an_unknown_one() {
        assert_eq!(said(Round), UNKNOWN);
    }
}
