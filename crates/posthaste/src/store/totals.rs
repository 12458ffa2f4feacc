//! How a lane's totals change. Every change keeps `accepted = delivered + waiting + dead + discarded`:
//!
//! | what happens | accepted | delivered | waiting | dead | discarded | replayed |
//! |---|---|---|---|---|---|---|
//! | the place passes an acknowledged event | +1 | +1 | | | | |
//! | an event of the log is parked, dead, expired | +1 | | +1 | or +1 | or +1 | |
//! | a parked event is acknowledged | | +1 | −1 | | | +1 if redriven or replayed |
//! | a parked event dies | | | −1 | +1 | | |
//! | a dead one is redriven | | | +1 | −1 | | |
//! | a delivered one is replayed: it is taken in once more | +1 | | +1 | | | |
//! | one is given up | | | −1 | or −1 | +1 | |

/// What is added to a lane's totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Totals {
    pub(in crate::store) accepted: i64,
    pub(in crate::store) delivered: i64,
    pub(in crate::store) waiting: i64,
    pub(in crate::store) dead: i64,
    pub(in crate::store) discarded: i64,
    pub(in crate::store) replayed: i64,
}

impl Totals {
    /// Whether they still add up after this.
    pub(in crate::store) fn add_up(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead + self.discarded
    }
}
