//! How the process is.

use posthaste::admin::LaneStats;
use posthaste::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether the server can work: `GET /readyz`, and whether its start is over: `GET /startupz`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReadinessDocument {
    /// `ready` or `not ready`; `started` or `starting`.
    pub status: String,
    /// What was looked at.
    pub checks: Vec<CheckDocument>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct CheckDocument {
    /// What.
    pub name: String,
    /// `ok`, `failed`, or `waiting` for what does not go on and keeps nobody from publishing.
    pub status: String,
    /// What to do if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Which server this is: `GET /version`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct VersionDocument {
    /// `posthaste`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How much is to be done, over all lanes: `GET /stats`. The first three are named as other relays name them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StatsDocument {
    /// What is not delivered yet: not read, or parked and not dead. An event that two lanes want counts twice.
    pub pending_count: u64,
    /// Of these: parked, because they failed, their time has not come, or an earlier event of their key is parked.
    pub retrying_count: u64,
    /// The age of the oldest event that a lane has not read; 0 when all are read.
    pub oldest_age_sec: f64,
    /// What failed for good.
    pub dead_count: u64,
}

impl StatsDocument {
    /// The sum over these lanes, at this moment.
    pub fn of(lanes: &[LaneStats], now: Timestamp) -> Self {
        let sum = |of: fn(&LaneStats) -> u64| lanes.iter().map(of).fold(0, u64::saturating_add);
        let oldest = lanes.iter().filter_map(|lane| lane.oldest_unread_at).min();
        Self {
            pending_count: sum(|lane| lane.unread.saturating_add(lane.waiting)),
            retrying_count: sum(|lane| lane.waiting),
            oldest_age_sec: oldest.map_or(0.0, |at| now.since(at).as_secs_f64()),
            dead_count: sum(|lane| lane.dead),
        }
    }
}
