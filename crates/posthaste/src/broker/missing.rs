//! What a lane waits for because it is not there: a topic, or a stream for a subject.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The last one that was missing, and since when.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<Option<(String, Instant)>>);

impl Missing {
    fn last(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name.
    pub(crate) fn name(&self) -> Option<String> {
        self.last().as_ref().map(|(name, _)| name.clone())
    }

    /// This one is missing.
    pub(crate) fn note(&self, name: &str) {
        let mut last = self.last();
        if last.as_ref().is_none_or(|(known, _)| known != name) {
            *last = Some((name.to_owned(), Instant::now()));
        }
    }

    /// This one is there.
    pub(crate) fn found(&self, name: &str) {
        self.last().take_if(|(known, _)| known == name);
    }

    /// Whether this one was missing for so long, and is forgotten now: the events that it was missing for may have been given up
    /// meanwhile, so whoever waits for it may try what there is. If they are still there, it is noted anew.
    pub(crate) fn is_forgotten(&self, name: &str, after: Duration) -> bool {
        self.last().take_if(|(known, since)| known == name && since.elapsed() >= after).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_for_long_is_forgotten_once_and_noted_anew() {
        let (missing, long) = (Missing::default(), Duration::from_secs(30));
        missing.note("a");
        tokio::time::advance(long / 2).await;
        missing.note("a");
        assert!(!missing.is_forgotten("a", long));
        tokio::time::advance(long / 2).await;
        assert!(!missing.is_forgotten("b", long), "another one");
        assert!(missing.is_forgotten("a", long), "counted from the first time");
        assert!(missing.name().is_none() && !missing.is_forgotten("a", long));
        missing.note("a");
        assert!(!missing.is_forgotten("a", long));
        missing.found("b");
        assert_eq!(missing.name().as_deref(), Some("a"));
        missing.found("a");
        assert_eq!(missing.name(), None);
    }
}
