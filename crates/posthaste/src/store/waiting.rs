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
#[derive(Default)]
pub(in crate::store) struct Waiting(Mutex<HashMap<LaneName, Lane>>);

struct Lane {
    /// Kept from wait to wait, so that a ring between a claim and the next wait is not missed.
    listener: Listener,
    pause: Duration,
    /// Its last claim did not come to the end of the log.
    is_partial: bool,
}

impl Lane {
    fn new(signal: &Signal) -> Self {
        Self { listener: signal.listen(), pause: PAUSE_MIN, is_partial: false }
    }
}

impl Waiting {
    fn lanes(&self) -> MutexGuard<'_, HashMap<LaneName, Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen for a lane, unless that was begun before.
    pub(in crate::store) fn listen(&self, lane: &LaneName, signal: &Signal) {
        self.lanes().entry(lane.clone()).or_insert_with(|| Lane::new(signal));
    }

    /// Remembers how a claim ended.
    pub(in crate::store) fn claimed(&self, lane: &LaneName, found: bool, is_partial: bool) {
        if let Some(lane) = self.lanes().get_mut(lane) {
            lane.is_partial |= is_partial;
            lane.pause = if found { PAUSE_MIN } else { (lane.pause * 2).min(PAUSE_MAX) };
        }
    }

    /// Returns when there may be work, or at the limit.
    pub(in crate::store) async fn wait(&self, name: &LaneName, signal: &Signal, at_most: Duration) {
        let (mut listener, pause) = {
            let mut lanes = self.lanes();
            let lane = lanes.entry(name.clone()).or_insert_with(|| Lane::new(signal));
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
