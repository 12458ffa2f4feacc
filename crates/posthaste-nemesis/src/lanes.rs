//! The lanes that every relay of a run drives, and what each of them must get.

use std::time::Duration;

/// Short, so that a run sees many takeovers.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Events that a lane has sent and that are not answered, at most.
pub(crate) const WINDOW: u32 = 64;
/// Answers that a lane has and that are not stored, at most.
pub(crate) const UNSETTLED_MAX: usize = 256;
/// So many events a lane may deliver again when it loses its owner: the window, the answers that wait for the next settle,
/// and those that a settle has on its way to the store.
pub(crate) const IN_HAND_MAX: usize = WINDOW as usize + 2 * UNSETTLED_MAX;

/// Marks events that the lane `orders` refuses for good.
pub(crate) const POISON: &str = "order.poison";

/// One lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Everything, at once.
    All,
    /// Half of the topics; some events fail once, poison is refused.
    Orders,
    /// Everything, in its own time; some events so slowly that they are parked meanwhile.
    Slow,
    /// Everything, with all of that at once: the one lane of a table.
    Main,
}

impl Which {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Orders => "orders",
            Self::Slow => "slow",
            Self::Main => "main",
        }
    }

    pub(crate) fn topics(self) -> &'static str {
        if self == Self::Orders { "orders.#" } else { "#" }
    }

    /// Whether an event of this topic is meant for it.
    pub(crate) fn wants(self, topic: &str) -> bool {
        self != Self::Orders || topic.starts_with("orders.")
    }

    /// Whether it refuses this event for good.
    pub(crate) fn refuses(self, event_type: &str) -> bool {
        matches!(self, Self::Orders | Self::Main) && event_type == POISON
    }
}
