//! Lanes, and what commands did.

use posthaste::admin::{Applied, LaneStats};
use serde::{Deserialize, Serialize};

use super::{EventDocument, ProblemDocument, text};

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
    /// Which of the totals beside unread are estimates: of a long outbox table not every row is counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimated: Vec<String>,
}

impl LaneDocument {
    /// How much is unread, for people: `~7` where it is an estimate.
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
            estimated: stats.estimated.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Another total, for people: `~` stands before what is an estimate.
    pub(crate) fn shown(&self, name: &str, total: u64) -> String {
        let about = if self.estimated.iter().any(|estimated| estimated == name) { "~" } else { "" };
        format!("{about}{total}")
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
    /// Whether not all were looked at: so many matched at least.
    #[serde(default)]
    pub partial: bool,
    /// A few of the events that would be changed, the newest first: in a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<EventDocument>,
}

impl AppliedDocument {
    /// What was done, as it goes over the wire.
    pub fn of(command: &str, applied: Applied, dry_run: bool) -> Self {
        Self {
            command: command.to_owned(),
            matched: applied.matched,
            changed: applied.changed,
            dry_run,
            stopped: false,
            partial: applied.is_partial,
            sample: Vec::new(),
        }
    }
}

/// Commands that are carried out, and those that ended lately, the newest first: `GET /v1/jobs`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobDocument>,
}

/// A command that is carried out: what `POST /v1/commands/{verb}` answers with 202, and `GET /v1/jobs/{job}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobDocument {
    /// Names it, in this process.
    pub job: String,
    /// running, done, stopped or failed.
    pub state: String,
    /// Who gave the command: the name of a key.
    pub actor: String,
    /// When it was given.
    pub begun_at: String,
    /// What was done so far, or in all.
    pub applied: AppliedDocument,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemDocument>,
}
