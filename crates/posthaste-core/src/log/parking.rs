//! What becomes of an event that a lane parks: its row, beside the log.
//!
//! A row can also be *done*. A parked event beyond the lane's place counts as soon as it is delivered. But
//! without its row, the log would hand the event out again after a crash. So the row stays: it is not due,
//! does not wait, counts as delivered, and hides its event from whatever reads the log. The settle that moves
//! the place over the event removes the row. A replay makes it due again, and a seek removes it.

use crate::redact;
use crate::store::Outcome;
use crate::time::Timestamp;
use std::time::Duration;

/// Why a lane parks an event, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parking {
    /// Not before this time.
    Scheduled {
        /// When.
        at: Timestamp,
    },
    /// An earlier event of its key is parked.
    Behind,
    /// It is not worth delivering any more.
    Expired,
    /// It was sent long ago and is not answered.
    Leased,
    /// It waits, and no attempt is counted.
    Later {
        /// For this time.
        after: Duration,
        /// The code and the text of what the target said, if it said anything.
        said: Option<(String, String)>,
    },
    /// It failed and is tried again.
    Retrying {
        /// After this time.
        after: Duration,
        /// The fingerprint of the failure.
        code: String,
        /// What the failure said.
        error: String,
    },
    /// It failed for good.
    Dead {
        /// The fingerprint of the failure.
        code: String,
        /// What the failure said.
        error: String,
    },
}

/// The columns of a parked row that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedRow<'a> {
    /// The state's name.
    pub state: &'static str,
    /// How many attempts are added.
    pub attempts: i64,
    /// When it is due.
    pub available_at: Option<Timestamp>,
    /// The fingerprint of the failure.
    pub code: Option<&'a str>,
    /// What the failure said.
    pub error: Option<&'a str>,
    /// When it failed.
    pub failed_at: Option<Timestamp>,
    /// When it was over.
    pub dead_at: Option<Timestamp>,
}

impl<'a> ParkedRow<'a> {
    /// A row in a state and nothing else.
    pub fn to(state: &'static str) -> Self {
        let (code, error) = (None, None);
        Self { state, attempts: 0, available_at: None, code, error, failed_at: None, dead_at: None }
    }

    /// A row that is due then.
    pub fn due(state: &'static str, at: Timestamp) -> Self {
        Self { available_at: Some(at), ..Self::to(state) }
    }

    fn saying(self, code: &'a str, error: &'a str) -> Self {
        Self { code: Some(code), error: Some(error), ..self }
    }

    fn failed(self, at: Timestamp) -> Self {
        Self { attempts: 1, failed_at: Some(at), ..self }
    }

    fn over(self, at: Timestamp) -> Self {
        Self { dead_at: Some(at), ..self }
    }
}

impl Parking {
    /// How an outcome parks an event; `None` for an outcome that does not.
    pub fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Retry { after, error } => {
                Some(Self::Retrying { after, code: error.code, error: redact::clean(&error.message) })
            }
            Outcome::Dead { error } => {
                Some(Self::Dead { code: error.code, error: redact::clean(&error.message) })
            }
            Outcome::Later { after, error } => {
                let said = error.map(|error| (error.code, redact::clean(&error.message)));
                Some(Self::Later { after, said })
            }
            Outcome::Behind => Some(Self::Behind),
            Outcome::Slow => Some(Self::Leased),
            _ => None,
        }
    }

    /// What its row says, by the store's clock.
    pub fn row(&self, now: Timestamp) -> ParkedRow<'_> {
        match self {
            Self::Scheduled { at } => ParkedRow::due("scheduled", *at),
            Self::Behind => ParkedRow::to("behind"),
            Self::Expired => {
                ParkedRow::to("discarded").saying("expired", "expired before it was delivered").over(now)
            }
            Self::Leased => ParkedRow::due("leased", now),
            Self::Later { after, said } => {
                let row = ParkedRow::due("retrying", now.after(*after));
                said.iter().fold(row, |row, (code, error)| row.saying(code, error))
            }
            Self::Retrying { after, code, error } => {
                ParkedRow::due("retrying", now.after(*after)).saying(code, error).failed(now)
            }
            Self::Dead { code, error } => ParkedRow::to("dead").saying(code, error).failed(now).over(now),
        }
    }
}
