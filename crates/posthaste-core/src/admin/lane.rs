//! A lane as operators see it.

use super::Page;
use crate::lane::LaneName;
use crate::time::Timestamp;

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaneState {
    /// Driven, or ready to be.
    Active,
    /// An operator paused it.
    Paused,
    /// Its target does not take events; it probes.
    Unavailable,
    /// Its address is gone; an operator must resume it.
    Retired,
    /// Something must be mended first.
    Error,
}

impl LaneState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Unavailable => "unavailable",
            Self::Retired => "retired",
            Self::Error => "error",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Active, Self::Paused, Self::Unavailable, Self::Retired, Self::Error]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// A lane's totals. They add up: `accepted = delivered + waiting + dead + discarded` at every moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneStats {
    /// Which lane.
    pub lane: LaneName,
    /// Its state.
    pub state: LaneState,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// The relay that drives it, if its lease lasts.
    pub owner: Option<String>,
    /// Its fencing number.
    pub epoch: i64,
    /// Where it is in the log.
    pub position: i64,
    /// How far the log goes beyond its place: an upper bound of what it has not read, as not every event
    /// need be meant for it.
    pub unread: u64,
    /// Whether [`unread`](LaneStats::unread) is not exact: of a log it may be more than the truth, of a
    /// long outbox table less.
    pub unread_is_estimate: bool,
    /// Events meant for this lane that its place has passed.
    pub accepted: u64,
    /// Of these: acknowledged by the target.
    pub delivered: u64,
    /// Of these: parked and not dead.
    pub waiting: u64,
    /// Of those that wait: failed at least once. `None`: too many to count at every look, or the store does
    /// not tell them apart.
    pub retrying: Option<u64>,
    /// Of these: dead.
    pub dead: u64,
    /// Of these: given up, with a record; also what an operator moved the lane past, which it never read.
    pub discarded: u64,
    /// Deliveries on purpose, after a redrive or replay; outside the sum.
    pub replayed: u64,
    /// When the oldest event that this lane has not read was taken in; `None` when it has read all.
    pub oldest_unread_at: Option<Timestamp>,
    /// When the oldest event was taken in that waits and whose time has come; `None` when there is none.
    pub oldest_waiting_at: Option<Timestamp>,
    /// Which of the totals beside [`unread`](LaneStats::unread) are estimates, by name: those of a long
    /// outbox table are not counted row by row. A total that is here and not `delivered` or `accepted` is
    /// at least what it says.
    pub estimated: Vec<&'static str>,
}

impl LaneStats {
    /// A lane at its start.
    pub fn new(lane: LaneName) -> Self {
        Self {
            lane,
            state: LaneState::Active,
            reason: None,
            owner: None,
            epoch: 0,
            position: 0,
            unread: 0,
            unread_is_estimate: false,
            accepted: 0,
            delivered: 0,
            waiting: 0,
            retrying: None,
            dead: 0,
            discarded: 0,
            replayed: 0,
            oldest_unread_at: None,
            oldest_waiting_at: None,
            estimated: Vec::new(),
        }
    }

    /// When the oldest event was taken in that should have been delivered by now, read or not.
    pub fn oldest_at(&self) -> Option<Timestamp> {
        [self.oldest_unread_at, self.oldest_waiting_at].into_iter().flatten().min()
    }

    /// Whether the totals add up.
    pub fn adds_up(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead + self.discarded
    }
}

/// A page of lanes, ordered by name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Lanes {
    /// The lanes with their totals.
    pub lanes: Vec<LaneStats>,
    /// Where the next page begins, if there may be one.
    pub next: Option<String>,
}

/// Collects a page of lanes from rows that are ordered by name; for those who implement
/// [`Admin`](super::Admin).
#[derive(Debug)]
pub struct PageOfLanes {
    after: String,
    size: usize,
    looked_at: usize,
    last: String,
    found: Lanes,
}

impl PageOfLanes {
    /// Collects this page.
    pub fn new(page: &Page) -> Self {
        let after = page.after.clone().unwrap_or_default();
        Self { after, size: page.size() as usize, looked_at: 0, last: String::new(), found: Lanes::default() }
    }

    /// The name after which the page begins.
    pub fn after(&self) -> &str {
        &self.after
    }

    /// The number of rows to read: one more than the page has, which says whether there is another page.
    pub fn rows(&self) -> i64 {
        self.size as i64 + 1
    }

    /// The lane of the next row; `None` where the row is beyond the page, or where no lane can have its name.
    pub fn next(&mut self, name: &str) -> Option<LaneName> {
        if self.looked_at == self.size {
            self.found.next.get_or_insert_with(|| self.last.clone());
            return None;
        }
        self.looked_at += 1;
        name.clone_into(&mut self.last);
        name.parse().ok()
    }

    /// Adds the lane whose row came last.
    pub fn push(&mut self, stats: LaneStats) {
        self.found.lanes.push(stats);
    }

    /// The page.
    pub fn found(self) -> Lanes {
        self.found
    }
}

impl Lanes {
    /// A page out of all lanes.
    pub fn page(mut all: Vec<LaneStats>, page: &Page) -> Self {
        all.sort_by(|one, other| one.lane.cmp(&other.lane));
        let mut lanes = PageOfLanes::new(page);
        for stats in all {
            if stats.lane.as_str() > lanes.after() && lanes.next(stats.lane.as_str()).is_some() {
                lanes.push(stats);
            }
        }
        lanes.found()
    }
}
