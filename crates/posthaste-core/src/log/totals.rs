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
pub struct Totals {
    /// Events meant for the lane that its place has passed.
    pub accepted: i64,
    /// Of these: acknowledged by the target.
    pub delivered: i64,
    /// Of these: parked and not dead.
    pub waiting: i64,
    /// Of these: dead.
    pub dead: i64,
    /// Of these: given up.
    pub discarded: i64,
    /// Deliveries after a redrive or a replay, outside the sum.
    pub replayed: i64,
}

impl Totals {
    /// Whether they still add up after this.
    pub fn add_up(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead + self.discarded
    }
}
