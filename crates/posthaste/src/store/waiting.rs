//! Waiting for work: until somebody in this process publishes, or it is time to look again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::lane::LaneName;
use posthaste_core::signal::{Listener, Signal};

/// The first pause after a claim that brought something; each empty claim doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause: what other processes publish is heard of by looking.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What lanes that wait have heard.
pub(in crate::store) struct Waiting {
    lanes: Mutex<HashMap<LaneName, Lane>>,
    first_pause: Duration,
}

impl Default for Waiting {
    /// Lanes look again soon after a claim that brought something, and ever more rarely after empty ones.
    fn default() -> Self {
        Self { lanes: Mutex::default(), first_pause: PAUSE_MIN }
    }
}

struct Lane {
    /// Kept from wait to wait, so that a ring between a claim and the next wait is not missed.
    listener: Listener,
    pause: Duration,
    /// Its last claim did not come to the end of the log.
    is_partial: bool,
}

impl Lane {
    fn new(signal: &Signal, pause: Duration) -> Self {
        Self { listener: signal.listen(), pause, is_partial: false }
    }
}

impl Waiting {
    /// Lanes wait for as long as they are told, unless they hear something.
    #[cfg(feature = "sqlite")]
    pub(in crate::store) fn patient() -> Self {
        Self { first_pause: Duration::MAX, ..Self::default() }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<LaneName, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen for a lane, unless that was begun before.
    pub(in crate::store) fn listen(&self, lane: &LaneName, signal: &Signal) {
        self.lanes().entry(lane.clone()).or_insert_with(|| Lane::new(signal, self.first_pause));
    }

    /// Remembers how a claim ended.
    pub(in crate::store) fn claimed(&self, lane: &LaneName, found: bool, is_partial: bool) {
        if let Some(lane) = self.lanes().get_mut(lane) {
            lane.is_partial |= is_partial;
            let longer = lane.pause.saturating_mul(2).min(PAUSE_MAX.max(self.first_pause));
            lane.pause = if found { self.first_pause } else { longer };
        }
    }

    /// Returns when there may be work, or at the limit.
    pub(in crate::store) async fn wait(&self, name: &LaneName, signal: &Signal, at_most: Duration) {
        let (mut listener, pause) = {
            let mut lanes = self.lanes();
            let lane = lanes.entry(name.clone()).or_insert_with(|| Lane::new(signal, self.first_pause));
            if std::mem::take(&mut lane.is_partial) {
                return;
            }
            // A copy: a wait that is dropped half-way leaves what was not heard yet to the next one.
            (lane.listener.clone(), lane.pause)
        };
        listener.heard(at_most.min(pause)).await;
        if let Some(lane) = self.lanes().get_mut(name) {
            lane.listener = listener;
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// How long a lane waits that is told to wait for a second, after a claim that brought something and after an empty one.
    async fn pauses(waiting: Waiting) -> [Duration; 2] {
        let (lane, signal): (LaneName, _) = ("main".parse().expect("a name"), Signal::new());
        waiting.listen(&lane, &signal);
        let mut pauses = [Duration::ZERO; 2];
        for (pause, found) in pauses.iter_mut().zip([true, false]) {
            waiting.claimed(&lane, found, false);
            let begun = Instant::now();
            waiting.wait(&lane, &signal, Duration::from_secs(1)).await;
            *pause = begun.elapsed();
        }
        pauses
    }

    #[tokio::test(start_paused = true)]
    async fn a_patient_lane_waits_as_long_as_it_is_told_and_others_look_sooner() {
        assert_eq!(pauses(Waiting::patient()).await, [Duration::from_secs(1); 2]);
        assert_eq!(pauses(Waiting::default()).await, [PAUSE_MIN, PAUSE_MIN * 2]);
    }
}
