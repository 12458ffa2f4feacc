//! What is missing while events are meant for it: a topic of Kafka, or a stream of NATS for a subject.
//!
//! A new topic is often created a little after its first event. So the lane first waits: it says what is
//! missing, tries nothing and counts no attempt. After half a minute, unless a timeout was changed, the name
//! is probably mistyped. From then on only the events that are meant for it wait, parked without an attempt.
//! The lane's place, retention and all other topics go on.
//!
//! RabbitMQ and Redis do not use this. A missing exchange keeps its lane waiting until it exists, and Redis
//! creates a stream with its first entry.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::target::{DeliverError, DeliverKind};
use tokio::time::Instant;

/// So many names are remembered. For what is missing beyond them no lane waits.
const NAMES_MAX: usize = 1_000;
/// How soon an event of those is tried again.
const LATER: Duration = Duration::from_secs(30);

/// What is missing, by name.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    since: Instant,
    noted_at: Instant,
    said: DeliverError,
    /// No lane waits for it any more; its events are tried again after this.
    given_up: Option<Duration>,
}

impl Missing {
    fn names(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that lanes wait for: the last that was found missing.
    pub(crate) fn awaited(&self) -> Option<String> {
        let names = self.names();
        let awaited = names.iter().filter(|(_, known)| known.given_up.is_none());
        awaited.max_by_key(|(_, known)| known.since).map(|(name, _)| name.clone())
    }

    /// This one is missing, which makes its lane wait; answers what is to be said of the event that was meant for it.
    pub(crate) fn note(&self, name: &str, said: DeliverError) -> DeliverError {
        let (mut names, now) = (self.names(), Instant::now());
        if let Some(known) = names.get_mut(name) {
            (known.noted_at, known.said) = (now, said);
            return known.told();
        }
        if names.len() >= NAMES_MAX {
            return later(said, LATER);
        }
        let known = Known { since: now, noted_at: now, said: said.clone(), given_up: None };
        names.insert(name.to_owned(), known);
        said
    }

    /// This one is there.
    pub(crate) fn found(&self, name: &str) {
        self.names().remove(name);
    }

    /// Whether anything is missing.
    pub(crate) fn is_any(&self) -> bool {
        !self.names().is_empty()
    }

    /// Whether this one is missing for so long, so that lanes wait for it no more: from now on only its events do, as
    /// long again each time.
    pub(crate) fn is_given_up(&self, name: &str, after: Duration) -> bool {
        let mut names = self.names();
        // One that was found meanwhile is waited for by nobody either.
        let Some(known) = names.get_mut(name) else { return true };
        if known.since.elapsed() >= after {
            known.given_up = Some(after);
        }
        known.given_up.is_some()
    }

    /// What is to be said of an event without looking again: no lane waits for this one, and it was missing just before.
    pub(crate) fn noted(&self, name: &str, within: Duration) -> Option<DeliverError> {
        let names = self.names();
        let known = names.get(name)?;
        (known.given_up.is_some() && known.noted_at.elapsed() < within).then(|| known.told())
    }
}

impl Known {
    fn told(&self) -> DeliverError {
        match self.given_up {
            Some(pause) => later(self.said.clone(), pause),
            None => self.said.clone(),
        }
    }
}

/// The event waits without its lane, so that the lane's place can move on, and without an attempt.
fn later(said: DeliverError, pause: Duration) -> DeliverError {
    DeliverError::new(DeliverKind::Later, said.code, said.message).after(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(missing: &Missing, name: &str) -> DeliverKind {
        missing.note(name, DeliverError::new(DeliverKind::Unavailable, "missing", name)).kind
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_for_long_is_given_up_until_it_is_found() {
        use DeliverKind::{Later, Unavailable};
        let (missing, long) = (Missing::default(), Duration::from_secs(30));
        assert!(!missing.is_any());
        assert_eq!(note(&missing, "a"), Unavailable);
        tokio::time::advance(long / 2).await;
        assert_eq!((note(&missing, "a"), note(&missing, "b")), (Unavailable, Unavailable));
        assert!(!missing.is_given_up("a", long));
        tokio::time::advance(long / 2).await;
        assert!(!missing.is_given_up("b", long), "later than the other one");
        assert_eq!(note(&missing, "a"), Unavailable, "nobody has said that lanes wait no more");
        assert!(missing.is_given_up("a", long), "counted from the first time");
        assert_eq!(note(&missing, "a"), Later);
        assert!(missing.noted("a", long).is_some_and(|said| said.kind == Later && said.message == "a"));
        assert_eq!((missing.awaited().as_deref(), missing.noted("b", long)), (Some("b"), None));
        tokio::time::advance(long).await;
        assert_eq!(missing.noted("a", long), None);
        missing.found("a");
        assert_eq!(note(&missing, "a"), Unavailable, "anew");
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_names_that_are_remembered_no_lane_waits() {
        let missing = Missing::default();
        for number in 0..NAMES_MAX {
            assert_eq!(note(&missing, &number.to_string()), DeliverKind::Unavailable);
        }
        assert_eq!(note(&missing, "one more"), DeliverKind::Later);
        assert_eq!(note(&missing, "0"), DeliverKind::Unavailable);
    }
}
