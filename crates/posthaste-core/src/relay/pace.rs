//! When to settle and when to renew; pure.

use std::time::Duration;

use tokio::time::Instant;

/// Time between two settles while there is something to settle.
const SETTLE_EVERY: Duration = Duration::from_millis(50);
/// A settle may take at most this share of the time: 1 / 20. Where one is dear, there are fewer of them.
const SETTLE_SHARE: u32 = 20;

/// How much a settle is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// There is nothing to record.
    None,
    /// There is something to record.
    Some,
    /// Somebody waits for it.
    Urgent,
    /// There are so many answers that the lane would have to stop without it.
    Full,
    /// Nothing is under way that could be recorded with it, and nothing comes before it is.
    Last,
}

/// Keeps the rhythm of settling under one lease, and this relay's own idea of how long the lease lasts.
pub(super) struct Pace {
    length: Duration,
    /// When the call that last renewed the lease began: it lasts at least `length` from there.
    renewed: Instant,
    /// When the last settle ended, and how long it took.
    settled: Instant,
    took: Duration,
    has_settled: bool,
}

impl Pace {
    /// The lease was acquired by a call that began at `since`.
    pub(super) fn new(length: Duration, since: Instant) -> Self {
        Self { length, renewed: since, settled: since, took: Duration::ZERO, has_settled: false }
    }

    /// A settle that began at `since` and has just ended renewed the lease.
    pub(super) fn settled(&mut self, since: Instant, now: Instant) {
        self.renewed = since;
        self.settled = now;
        self.took = now - since;
        self.has_settled = true;
    }

    /// Whether there was a settle at all.
    pub(super) fn has_settled(&self) -> bool {
        self.has_settled
    }

    /// When the next settle is due.
    pub(super) fn settle_at(&self, need: Need) -> Instant {
        let breath = self.took * SETTLE_SHARE;
        // Counted from the last renewal: however long a settle takes, the lease comes before the rhythm.
        let renewal = self.renewed + self.length / 3;
        match need {
            Need::None => renewal,
            Need::Some => renewal.min(self.settled + SETTLE_EVERY.max(breath)),
            Need::Urgent => renewal.min(self.settled + breath.min(self.length / 6)),
            // So many answers at once are few settles per event, however often they come; half of the time is for them.
            Need::Full => renewal.min(self.settled + self.took),
            Need::Last => self.settled,
        }
    }

    /// Until when this relay may deliver: a part of the lease is kept back, so that what is sent last ends within it.
    pub(super) fn deliver_until(&self) -> Instant {
        self.renewed + self.length * 9 / 10
    }

    /// When the lease may have ended.
    pub(super) fn ends_at(&self) -> Instant {
        self.renewed + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_dear_settle_makes_the_next_one_wait_but_never_beyond_a_third_of_the_lease() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(9), start);
        assert_eq!(pace.settle_at(Need::Some), start + SETTLE_EVERY);
        assert_eq!(pace.settle_at(Need::None), start + Duration::from_secs(3));
        let end = start + Duration::from_millis(50);
        pace.settled(start, end);
        assert_eq!(pace.settle_at(Need::Some), end + Duration::from_secs(1));
        pace.settled(start, start + Duration::from_secs(2));
        assert_eq!(pace.settle_at(Need::Some), start + Duration::from_secs(3));
        pace.settled(start, start + Duration::from_secs(4));
        let next = pace.settle_at(Need::Urgent).max(start + Duration::from_secs(4));
        assert!(
            next + Duration::from_secs(4) < pace.ends_at(),
            "as dear a settle again ends within the lease"
        );
        assert!(pace.deliver_until() < pace.ends_at());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_is_full_waits_as_long_as_its_settle_took_and_no_longer() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(30), start);
        let end = start + Duration::from_millis(200);
        pace.settled(start, end);
        assert_eq!(pace.settle_at(Need::Full), end + Duration::from_millis(200));
        assert_eq!(pace.settle_at(Need::Last), end, "nothing is gained by waiting");
        assert_eq!(pace.settle_at(Need::Some), end + Duration::from_secs(4));
    }
}
