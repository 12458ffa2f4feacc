//! What a failed delivery means; pure.

use std::sync::Arc;

use crate::envelope::Envelope;
use crate::lane::LaneName;
use crate::retry::RetryPolicy;
use crate::store::Outcome;
use crate::target::{DeliverError, DeliverKind};

/// An event that failed or died, as hooks see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Letter {
    /// In this lane.
    pub lane: LaneName,
    /// The event.
    pub envelope: Arc<Envelope>,
    /// How often its delivery was tried.
    pub attempts: u32,
    /// What the target said last.
    pub error: DeliverError,
}

/// What the relay does about a failure.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Record this outcome; the event leaves the window.
    Settle(Outcome),
    /// Nobody's events would pass: keep it, pause, probe.
    Pause,
    /// The address is gone: keep it, retire the lane.
    Retire,
}

/// Decides by the kind of the failure; the policy's budget limits.
pub(super) fn verdict(policy: &dyn RetryPolicy, attempt: u32, error: DeliverError) -> Verdict {
    match error.kind {
        DeliverKind::Unavailable => Verdict::Pause,
        DeliverKind::Gone => Verdict::Retire,
        DeliverKind::Rejected | DeliverKind::TooLarge => Verdict::Settle(Outcome::Dead { error }),
        DeliverKind::Failed => match policy.next(attempt, error.retry_after) {
            Some(after) => Verdict::Settle(Outcome::Retry { after, error }),
            None => Verdict::Settle(Outcome::Dead { error }),
        },
        DeliverKind::Later => Verdict::Settle(Outcome::Later {
            after: error.retry_after.unwrap_or_default(),
            error: Some(error),
        }),
    }
}

/// Whether what is at a lane's place has killed its relay often enough.
///
/// `stumbles` counts acquisitions without progress. The first two are nobody's fault; then the window is halved each time
/// until it is one event; from there on every stumble counts as an attempt of that event.
pub(super) fn narrowed(window: u32, stumbles: u32) -> u32 {
    window.checked_shr(stumbles.saturating_sub(2)).unwrap_or(0).max(1)
}

/// Whether the one event that a fully narrowed window holds has used up its budget by killing its relay.
pub(super) fn kills_its_relay(policy: &dyn RetryPolicy, window: u32, stumbles: u32) -> bool {
    let halvings = u32::BITS - window.leading_zeros() - 1;
    let alone = stumbles.saturating_sub(2 + halvings);
    alone > 0 && policy.next(alone, None).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Backoff;
    use std::time::Duration;

    fn failing(kind: DeliverKind, attempt: u32) -> Verdict {
        verdict(
            &Backoff::fixed(Duration::from_secs(1)).attempts(3),
            attempt,
            DeliverError::new(kind, "c", "m"),
        )
    }

    #[test]
    fn the_kind_decides_and_the_budget_limits() {
        assert!(matches!(failing(DeliverKind::Failed, 1), Verdict::Settle(Outcome::Retry { .. })));
        assert!(matches!(failing(DeliverKind::Failed, 3), Verdict::Settle(Outcome::Dead { .. })));
        assert!(matches!(failing(DeliverKind::Rejected, 1), Verdict::Settle(Outcome::Dead { .. })));
        assert!(matches!(failing(DeliverKind::TooLarge, 1), Verdict::Settle(Outcome::Dead { .. })));
        assert!(matches!(failing(DeliverKind::Unavailable, 99), Verdict::Pause), "burns no attempt");
        assert!(matches!(failing(DeliverKind::Gone, 1), Verdict::Retire));
        assert!(
            matches!(failing(DeliverKind::Later, 99), Verdict::Settle(Outcome::Later { .. })),
            "burns none"
        );
    }

    #[test]
    fn a_window_that_kills_its_relay_narrows_to_one_event_and_then_counts() {
        let policy = Backoff::fixed(Duration::from_secs(1)).attempts(3);
        let windows: Vec<_> = (0..8).map(|stumbles| narrowed(8, stumbles)).collect();
        assert_eq!(windows, [8, 8, 8, 4, 2, 1, 1, 1]);
        let dead: Vec<_> = (4..10).map(|stumbles| kills_its_relay(&policy, 8, stumbles)).collect();
        assert_eq!(
            dead,
            [false, false, false, false, true, true],
            "three times alone, the third is the last"
        );
        assert_eq!(narrowed(1000, 400), 1);
    }
}
