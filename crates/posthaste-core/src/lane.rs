//! A lane as its store sees it: which events, in what order, from where.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::as_text::json_as_text;
use crate::pattern::Pattern;
use crate::time::Timestamp;
use crate::{Error, Result};

const LANE_BYTES_MAX: usize = 64;

/// The name of a lane: 1 to 64 letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneName(String);

impl LaneName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LaneName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if text.is_empty() || text.len() > LANE_BYTES_MAX || !text.bytes().all(fits) {
            return Err(Error::config(format!(
                "the lane name {text:?} cannot be used: it must have 1 to {LANE_BYTES_MAX} letters, digits, '-', '_' and '.'"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

json_as_text!(LaneName);

/// Whether a lane keeps the order of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// First deliveries of a key follow commit order; only the failing key waits.
    #[default]
    PerKey,
    /// None: a retried event waits for nobody and nobody waits for it.
    None,
}

/// What a dead event does to the later events of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDead {
    /// They go on.
    #[default]
    GoOn,
    /// They wait until somebody redrives or discards it.
    Block,
}

/// Where a lane that did not exist before begins to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// With the oldest event that the log still has.
    #[default]
    Beginning,
    /// With the next event that is published.
    Now,
    /// With the first event taken in at or after this time.
    At(Timestamp),
}

/// What a store must know about a lane to drive it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneSpec {
    /// Its name.
    pub name: LaneName,
    /// The topics it reads; an event goes down the lane if any of them matches.
    pub topics: Vec<Pattern>,
    /// Whether it keeps the order of a key.
    pub order: Order,
    /// What a dead event does to its key.
    pub on_dead: OnDead,
    /// Where it begins if it is new.
    pub start: Start,
    /// How long a relay owns it without settling.
    pub lease: Duration,
}

impl LaneSpec {
    /// A lane that reads every topic, from the beginning, in order per key, on a lease of ten seconds.
    pub fn new(name: LaneName) -> Self {
        Self {
            name,
            topics: vec![Pattern::all()],
            order: Order::default(),
            on_dead: OnDead::default(),
            start: Start::default(),
            lease: Duration::from_secs(10),
        }
    }

    /// Whether events of this topic go down this lane.
    pub fn wants(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(topic))
    }
}
