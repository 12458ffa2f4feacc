//! Commands that change events of a lane: redrive, replay, discard, bury, schedule, erase.

use super::question::{Head, Source};
use super::totals::Totals;
use crate::admin::{Command, EventState, Filter, LaneView};
use crate::redact;
use crate::time::Moment;

/// What a command does to each event that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A dead event becomes due.
    Redrive,
    /// A delivered event is delivered again.
    Replay,
    /// A parked event is given up.
    Discard {
        /// Why, fit to be stored.
        reason: String,
    },
    /// A waiting event becomes dead.
    Bury {
        /// Why, fit to be stored.
        reason: String,
    },
    /// A waiting event becomes due then.
    Schedule {
        /// When.
        at: Moment,
    },
    /// The payload is overwritten.
    Erase,
}

impl Change {
    /// The change that a command asks for; `None` for a command that changes no single events.
    pub fn of(command: &Command) -> Option<Self> {
        Some(match command {
            Command::Redrive { .. } => Self::Redrive,
            Command::Replay { .. } => Self::Replay,
            Command::Discard { reason, .. } => Self::Discard { reason: redact::clean(reason) },
            Command::Bury { reason, .. } => Self::Bury { reason: redact::clean(reason) },
            Command::Schedule { at, .. } => Self::Schedule { at: *at },
            Command::Erase { .. } => Self::Erase,
            _ => return None,
        })
    }

    /// Where its events are.
    pub fn source(&self, filter: &Filter) -> Source {
        match (self, &filter.lane) {
            (Self::Redrive, Some(lane)) if filter.ids.is_empty() => {
                Source::Ended(Some(lane.to_string()), EventState::Dead.name())
            }
            (Self::Discard { .. } | Self::Bury { .. } | Self::Schedule { .. }, Some(lane))
                if filter.ids.is_empty() =>
            {
                Source::Parked(Some(lane.to_string()))
            }
            _ => Source::of(filter),
        }
    }

    /// Whether it does anything to an event that lanes see like this. A command about one lane is shown the
    /// view of that lane only. An erasure asks no lane; but an erased event stays erased.
    pub fn means(&self, head: &Head, views: &[LaneView]) -> bool {
        match self {
            Self::Erase => !head.is_erased,
            _ => views.iter().any(|view| self.fits(view.state)),
        }
    }

    fn fits(&self, state: EventState) -> bool {
        let is_parked = state.is_pending() && state != EventState::Pending;
        match self {
            Self::Redrive => state == EventState::Dead,
            Self::Replay => state == EventState::Delivered,
            // Only what is parked: what the lane has not read yet cannot be given up one by one.
            Self::Discard { .. } => is_parked || state == EventState::Dead,
            Self::Bury { .. } => is_parked,
            Self::Schedule { .. } => matches!(state, EventState::Retrying | EventState::Scheduled),
            Self::Erase => true,
        }
    }

    /// How the lane's totals change when `changed` events were changed, of which `were_dead` were dead
    /// before.
    pub fn totals(&self, changed: u64, were_dead: u64) -> Totals {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (changed, dead) = (signed(changed), signed(were_dead));
        let none = Totals::default();
        match self {
            Self::Redrive => Totals { dead: -changed, waiting: changed, ..none },
            Self::Replay => Totals { accepted: changed, waiting: changed, ..none },
            Self::Discard { .. } => {
                Totals { dead: -dead, waiting: dead - changed, discarded: changed, ..none }
            }
            Self::Bury { .. } => Totals { waiting: -changed, dead: changed, ..none },
            Self::Schedule { .. } | Self::Erase => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lane::LaneName;
    use crate::time::Timestamp;

    const STATES: [EventState; 9] = [
        EventState::Pending,
        EventState::Retrying,
        EventState::Scheduled,
        EventState::Behind,
        EventState::Delivering,
        EventState::Delivered,
        EventState::Dead,
        EventState::Discarded,
        EventState::Unknown,
    ];

    fn changes() -> [Change; 6] {
        let (reason, at) = ("why".to_owned(), Moment::In(Duration::ZERO));
        [
            Change::Redrive,
            Change::Replay,
            Change::Discard { reason: reason.clone() },
            Change::Bury { reason },
            Change::Schedule { at },
            Change::Erase,
        ]
    }

    fn head(is_erased: bool) -> Head {
        let (event_type, topic) = ("order.paid".to_owned(), "order.paid".to_owned());
        Head { seq: 1, event_type, topic, key: None, created_at: Timestamp::default(), xid: 0, is_erased }
    }

    #[test]
    fn each_change_means_events_in_its_states() {
        let lane: LaneName = "main".parse().unwrap();
        let meant = |change: &Change| -> Vec<&str> {
            let view = |state| [LaneView::new(lane.clone(), state)];
            let states = STATES.iter().filter(|state| change.means(&head(false), &view(**state)));
            states.map(|state| state.name()).collect()
        };
        let said: Vec<_> = changes().iter().map(meant).collect();
        assert_eq!(said[0], ["dead"]);
        assert_eq!(said[1], ["delivered"]);
        assert_eq!(said[2], ["retrying", "scheduled", "behind", "delivering", "dead"]);
        assert_eq!(said[3], ["retrying", "scheduled", "behind", "delivering"]);
        assert_eq!(said[4], ["retrying", "scheduled"]);
        assert_eq!(said[5].len(), STATES.len());
        assert!(Change::Erase.means(&head(false), &[]), "an erasure asks no lane");
        assert!(!Change::Erase.means(&head(true), &[]), "an erased event stays erased");
    }

    #[test]
    fn totals_add_up_after_each_change() {
        for change in changes() {
            let totals = change.totals(7, 3);
            assert!(totals.add_up(), "{change:?}: {totals:?}");
        }
        let given_up = Change::Discard { reason: String::new() }.totals(7, 3);
        assert_eq!((given_up.dead, given_up.waiting, given_up.discarded), (-3, -4, 7));
    }
}
