//! Lanes, and what commands did.

use posthaste::admin::LaneStats;
use serde::{Deserialize, Serialize};

use super::{EventDocument, text};

/// Every lane: `GET /v1/lanes`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LanePage {
    /// The lanes.
    pub lanes: Vec<LaneDocument>,
}

impl LanePage {
    /// Lanes as they go over the wire.
    pub fn of(lanes: &[LaneStats]) -> Self {
        Self { lanes: lanes.iter().map(LaneDocument::of).collect() }
    }
}

/// A lane with its totals: `accepted = delivered + waiting + dead + discarded`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LaneDocument {
    /// Which lane.
    pub lane: String,
    /// active, paused, unavailable, retired or error.
    pub state: String,
    /// Why it is in that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The relay that drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its fencing number.
    pub epoch: i64,
    /// Where it is in the log.
    pub position: i64,
    /// How far the log goes beyond its place: at most so many events are unread.
    pub unread: u64,
    /// Whether `unread` may be more than the truth.
    #[serde(default)]
    pub unread_is_estimate: bool,
    /// Events meant for this lane that its place has passed.
    pub accepted: u64,
    /// Of these: acknowledged by the target.
    pub delivered: u64,
    /// Of these: parked and not dead.
    pub waiting: u64,
    /// Of those that wait: failed at least once; absent where they are too many to count, or not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<u64>,
    /// Of these: dead.
    pub dead: u64,
    /// Of these: given up, with a record.
    pub discarded: u64,
    /// Deliveries on purpose; outside the sum.
    pub replayed: u64,
    /// When the oldest event that it has not read was taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unread_at: Option<String>,
    /// When the oldest event was taken in that waits and whose time has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_waiting_at: Option<String>,
}

impl LaneDocument {
    /// How much is unread, for people: `~7` where it may be less.
    pub fn unread_text(&self) -> String {
        format!("{}{}", if self.unread_is_estimate { "~" } else { "" }, self.unread)
    }

    /// A lane as it goes over the wire.
    pub fn of(stats: &LaneStats) -> Self {
        Self {
            lane: stats.lane.to_string(),
            state: stats.state.name().to_owned(),
            reason: stats.reason.clone(),
            owner: stats.owner.clone(),
            epoch: stats.epoch,
            position: stats.position,
            unread: stats.unread,
            unread_is_estimate: stats.unread_is_estimate,
            accepted: stats.accepted,
            delivered: stats.delivered,
            waiting: stats.waiting,
            retrying: stats.retrying,
            dead: stats.dead,
            discarded: stats.discarded,
            replayed: stats.replayed,
            oldest_unread_at: text(stats.oldest_unread_at),
            oldest_waiting_at: text(stats.oldest_waiting_at),
        }
    }
}

/// What a command did: `POST /v1/commands/{verb}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppliedDocument {
    /// Which command.
    pub command: String,
    /// How many events (or lanes) matched.
    pub matched: u64,
    /// How many were changed; zero in a dry run.
    pub changed: u64,
    /// Whether it was only counted.
    pub dry_run: bool,
    /// Whether it was stopped before all was done.
    #[serde(default)]
    pub stopped: bool,
    /// A few of the events that would be changed, the newest first: in a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<EventDocument>,
}
