//! What becomes of parked rows, as the columns of one statement for all of them.

use std::time::Duration;

use posthaste_core::redact;
use posthaste_core::store::Outcome;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Row, Transaction};

use super::cursor::{Cursor, SHARD};
use super::error::Db;
use super::value::{Stamp, args};

/// What a parked row becomes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Scheduled { at: Timestamp },
    Behind,
    Expired,
    Leased,
    Later { after: Duration, said: Option<(String, String)> },
    Retrying { after: Duration, code: String, error: String },
    Dead { code: String, error: String },
}

impl Change {
    /// The row of an outcome that parks.
    pub(super) fn of(outcome: Outcome) -> Option<Self> {
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
}

/// Changes as the columns of one statement.
#[derive(Default)]
pub(super) struct Changes {
    now: Option<Stamp>,
    seqs: Vec<i64>,
    states: Vec<&'static str>,
    attempts: Vec<i64>,
    available_at: Vec<Option<Stamp>>,
    codes: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    failed_at: Vec<Option<Stamp>>,
    dead_at: Vec<Option<Stamp>>,
}

impl Changes {
    pub(super) fn new<'c>(changes: impl Iterator<Item = (i64, &'c Change)>, now: Timestamp) -> Self {
        let mut all = Self { now: Some(Stamp(now)), ..Self::default() };
        changes.for_each(|(seq, change)| all.push(seq, change, now));
        all
    }

    fn push(&mut self, seq: i64, change: &Change, now: Timestamp) {
        let at = Some(Stamp(now));
        let (state, attempts, available_at, code, error, dead_at) = match change {
            Change::Scheduled { at } => ("scheduled", 0, Some(Stamp(*at)), None, None, None),
            Change::Behind => ("behind", 0, None, None, None, None),
            Change::Later { after, said } => {
                let (code, error) =
                    said.as_ref().map(|(code, error)| (code.as_str(), error.as_str())).unzip();
                ("retrying", 0, Some(Stamp(now.after(*after))), code, error, None)
            }
            Change::Leased => ("leased", 0, at, None, None, None),
            Change::Expired => {
                ("discarded", 0, None, Some("expired"), Some("expired before it was delivered"), at)
            }
            Change::Retrying { after, code, error } => (
                "retrying",
                1,
                Some(Stamp(now.after(*after))),
                Some(code.as_str()),
                Some(error.as_str()),
                None,
            ),
            Change::Dead { code, error } => ("dead", 1, None, Some(code.as_str()), Some(error.as_str()), at),
        };
        self.seqs.push(seq);
        self.states.push(state);
        self.attempts.push(attempts);
        self.available_at.push(available_at);
        self.codes.push(code.map(str::to_owned));
        self.errors.push(error.map(str::to_owned));
        self.failed_at.push(at.filter(|_| attempts > 0));
        self.dead_at.push(dead_at);
    }

    /// Runs `park.sql`, which also wants to know whether this is a replay, or `park_again.sql`.
    pub(super) async fn ask(
        &self,
        tx: &Transaction<'_>,
        sql: &str,
        cursor: &Cursor,
        is_new: bool,
    ) -> Db<Vec<Row>> {
        let (lane, is_ordered, replay) = (cursor.lane(), cursor.is_ordered(), false);
        let values = args![
            lane,
            SHARD,
            cursor.epoch,
            is_ordered,
            self.now,
            self.seqs,
            self.states,
            self.attempts,
            self.available_at,
            self.codes,
            self.errors,
            self.failed_at,
            self.dead_at,
            replay,
        ];
        let count = if is_new { values.len() } else { values.len() - 1 };
        tx.query_typed(sql, &values[..count]).await
    }
}
