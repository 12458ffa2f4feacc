//! What looking back answers.

use posthaste::review::{AuditEntry, Audited, DeadCodes, DeadGroup};
use serde::{Deserialize, Serialize};

/// A page of what was changed and by whom, the newest first: `GET /v1/audit`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct AuditPage {
    /// The records.
    pub entries: Vec<AuditDocument>,
    /// What to hand in as `after` to read on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl AuditPage {
    /// A page as it goes over the wire.
    pub fn of(audited: &Audited) -> Self {
        Self { entries: audited.entries.iter().map(AuditDocument::of).collect(), next: audited.next.clone() }
    }
}

/// One thing that was done.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct AuditDocument {
    /// Counts up; not every number need be there.
    pub id: i64,
    /// When.
    pub at: String,
    /// Who: the name of a key, a user of the operating system, or a relay.
    pub actor: String,
    /// From where.
    pub via: String,
    /// What.
    pub verb: String,
    /// To which events or lanes, and with which settings. A command of several steps is one entry with the sum of what its steps
    /// did: `parts` says how many there were, `run` names it; with `part` instead it did not end, or has not ended yet.
    pub filter: serde_json::Value,
    /// How many events or lanes matched.
    pub matched: u64,
    /// How many were changed.
    pub changed: u64,
}

impl AuditDocument {
    fn of(entry: &AuditEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at.to_string(),
            actor: entry.actor.name.clone(),
            via: entry.actor.via.clone(),
            verb: entry.command.clone(),
            // What is no JSON was not written by us; it is shown all the same.
            filter: serde_json::from_str(&entry.filter).unwrap_or_else(|_| entry.filter.clone().into()),
            matched: entry.applied.matched,
            changed: entry.applied.changed,
        }
    }
}

/// What events died of, the most frequent first: `GET /v1/dead/codes`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct DeadCodePage {
    /// The codes of every lane.
    pub codes: Vec<DeadCodeDocument>,
    /// Whether a lane has more dead events than were counted: then the counts are of the newest.
    pub partial: bool,
}

impl DeadCodePage {
    /// Codes as they go over the wire.
    pub fn of(codes: &DeadCodes) -> Self {
        Self { codes: codes.groups.iter().map(DeadCodeDocument::of).collect(), partial: codes.is_partial }
    }
}

/// Events that died in one lane with one code.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct DeadCodeDocument {
    /// Which lane.
    pub lane: String,
    /// Which code; absent where the failure had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How many.
    pub events: u64,
    /// When the first of them first failed.
    pub first_at: String,
    /// When the last of them died.
    pub last_at: String,
    /// The id of the newest of them.
    pub example: String,
    /// What the failure of the newest of them said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl DeadCodeDocument {
    fn of(group: &DeadGroup) -> Self {
        Self {
            lane: group.lane.to_string(),
            code: group.code.clone(),
            events: group.events,
            first_at: group.first_at.to_string(),
            last_at: group.last_at.to_string(),
            example: group.example.clone(),
            error: group.error.clone(),
        }
    }
}
