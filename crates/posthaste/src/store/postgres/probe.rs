//! When a look for something new makes a tick although it found nothing.
//!
//! A look reads the index of ids from the end of the newest tick's snapshot on. While somebody inserts very much in one
//! transaction, all of that lies there, invisible, and is passed over at every look. A tick puts the end behind it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A look that took longer passed over much.
const DEAR_MICROS: i64 = 2_000;
/// How often there is a tick although nothing is new, at least while ids are given.
const TICK_EVERY: Duration = Duration::from_secs(10);
/// So few ids are what relays use up by themselves.
const IDS_MIN: i64 = 100;
/// Not more often than this, however dear looks are: a busy server would only get busier.
const FORCE_EVERY: Duration = Duration::from_millis(250);

/// What one look says about looking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    /// How many ids were given since the newest tick.
    pub(super) ids_moved: i64,
    /// How long the server took.
    pub(super) micros: i64,
}

/// What looks have shown.
pub(super) struct Probe(Mutex<Shown>);

struct Shown {
    is_dear: bool,
    ids_move: bool,
    ticked: Instant,
}

impl Probe {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Shown { is_dear: false, ids_move: false, ticked: Instant::now() }))
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next look makes a tick in any case.
    pub(super) fn forces(&self) -> bool {
        let shown = self.shown();
        let since = shown.ticked.elapsed();
        (shown.is_dear && since >= FORCE_EVERY) || (shown.ids_move && since >= TICK_EVERY)
    }

    /// A look ended so.
    pub(super) fn looked(&self, found_tick: bool, probed: Probed) {
        let mut shown = self.shown();
        if found_tick {
            *shown = Shown { is_dear: false, ids_move: false, ticked: Instant::now() };
        } else {
            shown.is_dear = probed.micros > DEAR_MICROS;
            shown.ids_move = probed.ids_moved > IDS_MIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Probed = Probed { ids_moved: 3, micros: 200 };

    #[tokio::test(start_paused = true)]
    async fn a_tick_is_forced_after_a_dear_look_and_now_and_then_while_ids_move() {
        let probe = Probe::new();
        probe.looked(false, CHEAP);
        tokio::time::advance(TICK_EVERY * 2).await;
        assert!(!probe.forces(), "nothing moves and looking is cheap");
        probe.looked(false, Probed { micros: 2_500, ..CHEAP });
        assert!(probe.forces());
        probe.looked(true, CHEAP);
        probe.looked(false, Probed { micros: 2_500, ..CHEAP });
        assert!(!probe.forces(), "there was one just now");
        tokio::time::advance(FORCE_EVERY).await;
        assert!(probe.forces());
        probe.looked(true, CHEAP);
        probe.looked(false, Probed { ids_moved: 5_000, ..CHEAP });
        assert!(!probe.forces());
        tokio::time::advance(TICK_EVERY).await;
        assert!(probe.forces());
    }
}
