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

/// What a server says to prove itself: `GET /v1/proof`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProofDocument {
    /// Which store it serves, as a hash of the store's identity; absent if the store has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The HMAC of the nonce, with the key's hash.
    pub known: String,
    /// The HMAC of the nonce, the store, and the server's address and port of this connection, with the key's
    /// hash.
    pub proof: String,
}

/// How much is to be done, over all lanes: `GET /stats`. The first three are named as other relays name them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StatsDocument {
    /// What is not delivered yet: not read, or parked and not dead. An event that two lanes want counts twice.
    pub pending_count: u64,
    /// Of these: failed at least once. Where very many of a lane are retried, all of that lane that are parked and not dead.
    pub retrying_count: u64,
    /// How many seconds ago the oldest event was taken in that should have been delivered by now; 0 when there is none.
    pub oldest_age_sec: i64,
    /// Whether `pending_count` may be more than the truth.
    #[serde(default)]
    pub pending_is_estimate: bool,
    /// What failed for good.
    pub dead_count: u64,
}

impl StatsDocument {
    /// The sum over these lanes, at this moment.
    pub fn of(lanes: &[LaneStats], now: Timestamp) -> Self {
        let sum = |of: fn(&LaneStats) -> u64| lanes.iter().map(of).fold(0, u64::saturating_add);
        let oldest = lanes.iter().filter_map(LaneStats::oldest_at).min();
        let age = oldest.map_or(0, |at| now.since(at).as_secs());
        Self {
            pending_count: sum(|lane| lane.unread.saturating_add(lane.waiting)),
            retrying_count: sum(|lane| lane.retrying.unwrap_or(lane.waiting)),
            oldest_age_sec: i64::try_from(age).unwrap_or(i64::MAX),
            pending_is_estimate: lanes.iter().any(|lane| lane.unread_is_estimate),
            dead_count: sum(|lane| lane.dead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> LaneStats {
        LaneStats::new(name.parse().expect("it is a name"))
    }

    #[test]
    fn what_is_retried_is_counted_and_its_age_told_also_when_nothing_is_unread() {
        let mut retrying = lane("a");
        (retrying.waiting, retrying.retrying) = (3, Some(1));
        retrying.oldest_waiting_at = Some(Timestamp::from_micros(1_500_000));
        let mut reading = lane("b");
        (reading.unread, reading.unread_is_estimate) = (2, true);
        reading.oldest_unread_at = Some(Timestamp::from_micros(5_000_000));
        let mut table = lane("c");
        (table.waiting, table.dead) = (10, 4);
        let now = Timestamp::from_micros(9_000_000);
        let stats = StatsDocument::of(&[retrying, reading, table], now);
        let counts = (stats.pending_count, stats.retrying_count, stats.dead_count, stats.oldest_age_sec);
        assert_eq!(counts, (15, 11, 4, 7), "a lane that does not tell them apart counts all that wait");
        assert!(stats.pending_is_estimate);
        assert_eq!(StatsDocument::of(&[lane("idle")], now).oldest_age_sec, 0);
    }
}
