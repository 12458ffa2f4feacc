//! When a failed delivery is tried again, and when it is enough.

use std::time::Duration;

/// Decides about the next attempt; for relays and consumers alike.
pub trait RetryPolicy: Send + Sync {
    /// How long to wait after this attempt (counted from 1) failed, or `None` when it was the last.
    ///
    /// `retry_after` is what the target asked for; a policy honours it as a lower bound.
    fn next(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration>;
}

/// How chance spreads the pauses, so that what failed together does not come back together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// Not at all.
    None,
    /// Anything from nothing to the whole pause.
    Full,
    /// The pause plus up to this share of it.
    Additive(f64),
}

/// Exponential backoff with a cap, a budget and jitter.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    factor: f64,
    cap: Duration,
    attempts: u32,
    jitter: Jitter,
}

impl Backoff {
    /// Pauses of this length, then twice it, and so on; at most a day, 25 attempts, full jitter.
    pub fn exponential(first: Duration) -> Self {
        Self { first, factor: 2.0, cap: Duration::from_secs(86_400), attempts: 25, jitter: Jitter::Full }
    }

    /// The same pause every time, without jitter.
    pub fn fixed(pause: Duration) -> Self {
        Self { first: pause, factor: 1.0, cap: pause, attempts: 25, jitter: Jitter::None }
    }

    /// Grows by this factor instead of doubling; below 1 counts as 1.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = if factor.is_finite() { factor.max(1.0) } else { 1.0 };
        self
    }

    /// Never pauses longer than this, before additive jitter.
    #[must_use]
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Gives up after so many attempts; at least 1.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Spreads the pauses so.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The policy of the open-outbox relay: 1 s doubling to 24 h, plus up to 15 %, 25 attempts.
    pub fn open_outbox() -> Self {
        Self::exponential(Duration::from_secs(1)).jitter(Jitter::Additive(0.15))
    }

    /// The policy of servicekit: 2 s doubling to 5 min, 10 attempts.
    pub fn servicekit() -> Self {
        Self::exponential(Duration::from_secs(2))
            .cap(Duration::from_secs(300))
            .attempts(10)
            .jitter(Jitter::None)
    }

    /// The policy of the Lerian messaging standard: 500 ms doubling to 30 s, full jitter, 5 attempts.
    pub fn lerian() -> Self {
        Self::exponential(Duration::from_millis(500)).cap(Duration::from_secs(30)).attempts(5)
    }

    /// The policy of AxCom's local bus: 50 ms doubling to 2 s, 3 attempts.
    pub fn axcom() -> Self {
        Self::exponential(Duration::from_millis(50))
            .cap(Duration::from_secs(2))
            .attempts(3)
            .jitter(Jitter::None)
    }

    /// The preset with this name: `open-outbox`, `servicekit`, `lerian`, `axcom`.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "open-outbox" => Some(Self::open_outbox()),
            "servicekit" => Some(Self::servicekit()),
            "lerian" => Some(Self::lerian()),
            "axcom" => Some(Self::axcom()),
            _ => None,
        }
    }

    /// How many attempts it allows.
    pub fn attempts_max(&self) -> u32 {
        self.attempts
    }

    /// The pause after this attempt before jitter. Never overflows: what is too long for a duration is the cap.
    fn pause(&self, attempt: u32) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.first.as_secs_f64() * self.factor.powi(exponent);
        if seconds.is_finite() && seconds < self.cap.as_secs_f64() {
            Duration::from_secs_f64(seconds)
        } else {
            self.cap
        }
    }

    fn jittered(&self, pause: Duration, chance: f64) -> Duration {
        match self.jitter {
            Jitter::None => pause,
            Jitter::Full => pause.mul_f64(chance),
            Jitter::Additive(share) => pause + pause.mul_f64(share.clamp(0.0, 1.0) * chance),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1))
    }
}

impl RetryPolicy for Backoff {
    fn next(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let pause = self.jittered(self.pause(attempt), fastrand::f64());
        Some(pause.max(retry_after.unwrap_or_default().min(self.cap)))
    }
}

/// Named pauses one after another, the last repeated; the tiers 5 s, 30 s, 120 s by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    pauses: Vec<Duration>,
    attempts: u32,
}

impl Tiers {
    /// These pauses, and so many attempts; no pause at all counts as none of zero length.
    pub fn new(pauses: impl Into<Vec<Duration>>, attempts: u32) -> Self {
        Self { pauses: pauses.into(), attempts: attempts.max(1) }
    }
}

impl Default for Tiers {
    fn default() -> Self {
        Self::new([5, 30, 120].map(Duration::from_secs), 5)
    }
}

impl RetryPolicy for Tiers {
    fn next(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let step = (attempt.max(1) as usize - 1).min(self.pauses.len().saturating_sub(1));
        let pause = self.pauses.get(step).copied().unwrap_or_default();
        Some(pause.max(retry_after.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_the_budget_ends_it() {
        let policy = Backoff::servicekit();
        let pauses: Vec<_> = (1..=11).map(|n| policy.next(n, None).map(|p| p.as_secs())).collect();
        let expected = [
            Some(2),
            Some(4),
            Some(8),
            Some(16),
            Some(32),
            Some(64),
            Some(128),
            Some(256),
            Some(300),
            None,
            None,
        ];
        assert_eq!(pauses, expected);
    }

    #[test]
    fn what_the_target_asks_for_is_a_lower_bound() {
        let policy = Backoff::axcom().cap(Duration::from_secs(60));
        assert_eq!(policy.next(1, Some(Duration::from_secs(9))), Some(Duration::from_secs(9)));
        assert_eq!(
            policy.next(1, Some(Duration::from_secs(900))),
            Some(Duration::from_secs(60)),
            "but no hostage"
        );
    }

    #[test]
    fn tiers_repeat_their_last() {
        let tiers = Tiers::default();
        let pauses: Vec<_> = (1..=5).map(|n| tiers.next(n, None).map(|p| p.as_secs())).collect();
        assert_eq!(pauses, [Some(5), Some(30), Some(120), Some(120), None]);
    }

    proptest! {
        #[test]
        fn no_pause_overflows_or_falls_to_zero(attempt in 1_u32..u32::MAX, first in 1_u64..u64::MAX / 2_000, factor in 1.0_f64..1e30) {
            let cap = Duration::from_secs(86_400);
            let first = Duration::from_millis(first);
            let policy = Backoff::exponential(first).factor(factor).cap(cap).attempts(u32::MAX).jitter(Jitter::None);
            let pause = policy.next(attempt, None).unwrap();
            prop_assert!(pause >= first.min(cap) && pause <= cap);
        }

        #[test]
        fn jitter_stays_in_its_bounds(chance in 0.0_f64..1.0) {
            let pause = Duration::from_secs(10);
            let full = Backoff::exponential(pause);
            prop_assert!(full.jittered(pause, chance) <= pause);
            let additive = full.jitter(Jitter::Additive(0.15)).jittered(pause, chance);
            prop_assert!(additive >= pause && additive <= Duration::from_millis(11_500));
        }
    }
}
