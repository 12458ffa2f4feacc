//! An event as operators see it.

use std::fmt;
use std::str::FromStr;

use crate::as_text::json_as_text;
use crate::envelope::Envelope;
use crate::lane::LaneName;
use crate::time::Timestamp;
use crate::{Error, Result};

/// An event, and what every lane has done with it (only the filter's lane, where one is named).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// Its place in the log.
    pub seq: i64,
    /// The event. Its payload is empty unless asked for.
    pub envelope: Envelope,
    /// How many bytes the payload has; `None` after an erasure.
    pub payload_bytes: Option<u64>,
    /// When it was taken in.
    pub created_at: Timestamp,
    /// How the lanes that want it see it.
    pub lanes: Vec<LaneView>,
}

impl Record {
    /// A record that no lane has seen.
    pub fn new(seq: i64, envelope: Envelope, payload_bytes: Option<u64>, created_at: Timestamp) -> Self {
        Self { seq, envelope, payload_bytes, created_at, lanes: Vec::new() }
    }
}

/// An event as one lane sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneView {
    /// Which lane.
    pub lane: LaneName,
    /// Its state there.
    pub state: EventState,
    /// How often its delivery was tried and failed.
    pub attempts: u32,
    /// When it is tried next.
    pub available_at: Option<Timestamp>,
    /// The fingerprint of its last failure.
    pub code: Option<String>,
    /// What its last failure said.
    pub last_error: Option<String>,
    /// When it first failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it became dead.
    pub dead_at: Option<Timestamp>,
    /// When it was delivered, where that is kept: an outbox table may have a column for it, a log has only
    /// the lane's place.
    pub delivered_at: Option<Timestamp>,
    /// Whether it was redriven or replayed.
    pub replay: bool,
}

impl LaneView {
    /// A view with a state and nothing else.
    pub fn new(lane: LaneName, state: EventState) -> Self {
        Self {
            lane,
            state,
            attempts: 0,
            available_at: None,
            code: None,
            last_error: None,
            first_failed_at: None,
            dead_at: None,
            delivered_at: None,
            replay: false,
        }
    }
}

/// The state of an event in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventState {
    /// Not delivered yet: in the log before the lane's place, or parked in any of the next four states.
    Pending,
    /// Pending: failed and tried again later.
    Retrying,
    /// Pending: its time has not come.
    Scheduled,
    /// Pending: an earlier event of its key is parked.
    Behind,
    /// Pending: sent long ago and not answered.
    Delivering,
    /// Acknowledged by the target.
    Delivered,
    /// Failed for good; waits for somebody to redrive or discard it.
    Dead,
    /// Given up, with a record: expired, or by an operator.
    Discarded,
    /// In a state that only the owner of an outbox table knows; left alone.
    Unknown,
}

impl EventState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Retrying,
        Self::Scheduled,
        Self::Behind,
        Self::Delivering,
        Self::Delivered,
        Self::Dead,
        Self::Discarded,
        Self::Unknown,
    ];

    /// The word for it, as the command line and REST say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Scheduled => "scheduled",
            Self::Behind => "behind",
            Self::Delivering => "delivering",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
            Self::Unknown => "unknown",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether this is pending or one of its kinds.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::Retrying | Self::Scheduled | Self::Behind | Self::Delivering)
    }
}

impl fmt::Display for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EventState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::named(text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let (last, others) = names.split_last().expect("there are states");
            Error::rejected(format!("{text:?} is not a state; write {} or {last}", others.join(", ")))
        })
    }
}

json_as_text!(EventState);
