//! How long a message can be set aside: in one of a few queues, each with its own time.

use std::time::Duration;

use posthaste_core::{Error, Result};

/// More queues per subscription are no finer wait, only more queues.
const TIERS_MAX: usize = 16;
/// RabbitMQ counts a queue's time to live in milliseconds and in 32 bits.
const TIER_MAX: Duration = Duration::from_millis(u32::MAX as u64);

/// The times of the retry queues, the shortest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiers(Vec<Duration>);

/// How a pause is waited: in which tier, and what is left of it after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The tier's number, from 0.
    pub(super) tier: usize,
    /// What the longest tier was too short for; the message is set aside again when it comes back.
    pub(super) left: Duration,
}

impl Tiers {
    /// These times.
    ///
    /// # Errors
    /// `Config` when there are none or more than 16, when they do not grow, or when one is shorter than a millisecond or
    /// longer than 49 days.
    pub(super) fn new(times: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let times: Vec<Duration> = times.into_iter().collect();
        if times.is_empty() || times.len() > TIERS_MAX {
            return Err(Error::config(format!(
                "there are {} retry tiers; 1 to {TIERS_MAX} are needed, like 5s, 30s, 120s",
                times.len()
            )));
        }
        if times.iter().any(|time| time.as_millis() == 0 || *time > TIER_MAX) {
            return Err(Error::config("a retry tier must be at least a millisecond and at most 49 days"));
        }
        if !times.is_sorted_by(|one, next| one < next) {
            return Err(Error::config(format!(
                "each retry tier must be longer than the one before: {times:?}"
            )));
        }
        Ok(Self(times))
    }

    /// The times, the shortest first.
    pub(super) fn times(&self) -> &[Duration] {
        &self.0
    }

    /// The first tier that is not shorter than the pause. A longer pause than the last tier goes through that one again and
    /// again: a message never comes back early.
    pub(super) fn wait(&self, pause: Duration) -> Wait {
        let last = self.0.len() - 1;
        match self.0.iter().position(|time| *time >= pause) {
            Some(tier) => Wait { tier, left: Duration::ZERO },
            None => Wait { tier: last, left: pause - self.0[last] },
        }
    }
}

/// 5 s, 30 s, 2 min.
impl Default for Tiers {
    fn default() -> Self {
        Self([5, 30, 120].map(Duration::from_secs).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_pause_is_rounded_up_to_the_next_tier() {
        let tiers = Tiers::default();
        for (pause, tier) in [(0, 0), (1, 0), (5, 0), (6, 1), (30, 1), (31, 2), (120, 2)] {
            assert_eq!(tiers.wait(seconds(pause)), Wait { tier, left: Duration::ZERO }, "{pause} s");
        }
    }

    #[test]
    fn a_pause_beyond_the_last_tier_is_waited_in_it_again_and_again() {
        let tiers = Tiers::default();
        let (mut left, mut waited) = (seconds(301), Vec::new());
        while left > Duration::ZERO {
            let wait = tiers.wait(left);
            waited.push(tiers.times()[wait.tier]);
            left = wait.left;
        }
        assert_eq!(waited, [seconds(120), seconds(120), seconds(120)], "never early");
    }

    #[test]
    fn tiers_that_make_no_sense_are_refused() {
        assert!(Tiers::new([]).is_err());
        assert!(Tiers::new([seconds(5), seconds(5)]).is_err());
        assert!(Tiers::new([Duration::from_micros(10)]).is_err());
        assert!(Tiers::new([seconds(60 * 86_400)]).is_err());
        assert!(Tiers::new((1..=17).map(seconds)).is_err());
        assert_eq!(Tiers::new([5, 30, 120].map(seconds)).unwrap(), Tiers::default());
    }
}
