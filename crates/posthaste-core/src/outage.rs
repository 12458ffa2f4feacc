//! How long to wait while something is away.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double from a tenth of a second to five, with jitter, until it is over.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failures: u32,
}

impl Outage {
    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// It is over.
    pub(crate) fn over(&mut self) {
        self.failures = 0;
    }

    /// Whether this would be the first failure of a row: the one worth a log line of its own.
    pub(crate) fn is_new(&self) -> bool {
        self.failures == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_begin_anew() {
        let mut outage = Outage::default();
        let first = outage.pause();
        assert!(first >= FIRST / 2 && first <= FIRST);
        let last = (0..40).map(|_| outage.pause()).last().unwrap();
        assert!(last >= LONGEST / 2 && last <= LONGEST);
        outage.over();
        assert!(outage.pause() <= FIRST);
    }
}
