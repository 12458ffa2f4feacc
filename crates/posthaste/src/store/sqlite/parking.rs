//! What becomes of parked rows.

use posthaste_core::redact;
use posthaste_core::store::Outcome;
use posthaste_core::target::DeliverError;
use posthaste_core::time::Timestamp;

/// What a parked row becomes.
pub(super) struct Change {
    pub(super) state: &'static str,
    pub(super) attempts: i64,
    pub(super) available_at: Option<i64>,
    pub(super) code: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) failed_at: Option<i64>,
    pub(super) dead_at: Option<i64>,
}

impl Change {
    pub(super) fn to(state: &'static str) -> Self {
        Self {
            state,
            attempts: 0,
            available_at: None,
            code: None,
            last_error: None,
            failed_at: None,
            dead_at: None,
        }
    }

    pub(super) fn due(state: &'static str, at: i64) -> Self {
        Self { available_at: Some(at), ..Self::to(state) }
    }

    pub(super) fn expired(now: i64) -> Self {
        let (code, last_error) = ("expired".to_owned(), "expired before it was delivered".to_owned());
        Self { code: Some(code), last_error: Some(last_error), dead_at: Some(now), ..Self::to("discarded") }
    }

    /// The row of an outcome that parks.
    pub(super) fn of(outcome: Outcome, now: Timestamp) -> Option<Self> {
        let at = now.as_micros();
        let said = |error: DeliverError| (error.code, redact::clean(&error.message));
        let failed = |error: DeliverError, change: Self| {
            let (code, last_error) = said(error);
            Self {
                attempts: 1,
                code: Some(code),
                last_error: Some(last_error),
                failed_at: Some(at),
                ..change
            }
        };
        match outcome {
            Outcome::Retry { after, error } => {
                Some(failed(error, Self::due("retrying", now.after(after).as_micros())))
            }
            Outcome::Later { after, error } => {
                let (code, last_error) = error.map(said).unzip();
                Some(Self { code, last_error, ..Self::due("retrying", now.after(after).as_micros()) })
            }
            Outcome::Dead { error } => Some(failed(error, Self { dead_at: Some(at), ..Self::to("dead") })),
            Outcome::Behind => Some(Self::to("behind")),
            Outcome::Slow => Some(Self::due("leased", at)),
            _ => None,
        }
    }
}
