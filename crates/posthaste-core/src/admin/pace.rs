//! How fast a command goes, and who is told how far it is.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Applied;

/// How often whoever waits for the next step asks whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Into how many steps a second's events are parted, so that they come evenly.
const STEPS_PER_SECOND: usize = 4;

/// How fast a command goes, and whom it tells after every step; that one may stop it there.
///
/// What was done stays done, and is in the record.
pub struct Pace<'a> {
    per_second: Option<NonZeroU32>,
    so_far: &'a (dyn Fn(Applied) -> ControlFlow<()> + Send + Sync),
    began: Instant,
}

impl fmt::Debug for Pace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("per_second", &self.per_second).finish_non_exhaustive()
    }
}

impl<'a> Pace<'a> {
    /// As fast as it goes; after every step this is told what was done so far, and may break it off.
    pub fn telling(so_far: &'a (dyn Fn(Applied) -> ControlFlow<()> + Send + Sync)) -> Self {
        Self { per_second: None, so_far, began: Instant::now() }
    }

    /// As fast as it goes, and nobody is told.
    pub fn full() -> Pace<'static> {
        Pace::telling(&|_| ControlFlow::Continue(()))
    }

    /// Changes at most so many events a second, from now on; `None`: as fast as it goes.
    #[must_use]
    pub fn at_most(mut self, per_second: Option<NonZeroU32>) -> Self {
        self.per_second = per_second;
        self.began = Instant::now();
        self
    }

    /// How many events a second it changes at most.
    pub fn per_second(&self) -> Option<NonZeroU32> {
        self.per_second
    }

    /// Whom it tells.
    pub fn so_far(&self) -> &'a (dyn Fn(Applied) -> ControlFlow<()> + Send + Sync) {
        self.so_far
    }

    /// How many events one step changes, where it may change so many.
    pub fn step(&self, most: usize) -> usize {
        let share = self.per_second.map(|rate| (rate.get() as usize).div_ceil(STEPS_PER_SECOND));
        share.map_or(most, |share| share.min(most))
    }

    /// Between two steps: tells what was done so far, and waits until the next one may begin. Breaks when it was told to.
    pub async fn after(&self, so_far: Applied) -> ControlFlow<()> {
        loop {
            if (self.so_far)(so_far).is_break() {
                return ControlFlow::Break(());
            }
            let Some(rate) = self.per_second else { return ControlFlow::Continue(()) };
            // The precision of a float is far below a second here.
            let takes = Duration::try_from_secs_f64(so_far.changed as f64 / f64::from(rate.get()));
            let due = takes.map_or(Duration::MAX, |takes| takes.saturating_sub(self.began.elapsed()));
            if due.is_zero() {
                return ControlFlow::Continue(());
            }
            sleep(due.min(ASK_EVERY)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_parts_the_work_and_holds_it_back() {
        let pace = Pace::full().at_most(NonZeroU32::new(10));
        assert_eq!((pace.step(1_000), pace.step(2)), (3, 2));
        let began = Instant::now();
        assert!(pace.after(Applied::new(3, 3)).await.is_continue());
        assert!(pace.after(Applied::new(30, 30)).await.is_continue());
        assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&began.elapsed()));
        assert_eq!(Pace::full().step(1_000), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_told_breaks_it_off_also_while_it_waits() {
        let is_enough = AtomicBool::new(false);
        let so_far = |_| match is_enough.swap(true, Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let pace = Pace::telling(&so_far).at_most(NonZeroU32::new(1));
        let began = Instant::now();
        assert!(pace.after(Applied::new(3_600, 3_600)).await.is_break());
        assert!(began.elapsed() < Duration::from_secs(1), "an hour is not waited for");
    }
}
