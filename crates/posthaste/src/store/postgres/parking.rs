//! What becomes of parked rows, as the columns of one statement for all of them.

use posthaste_core::log::parking::{ParkedRow, Parking};
use posthaste_core::time::Timestamp;
use tokio_postgres::{Row, Transaction};

use super::cursor::Cursor;
use super::error::Db;
use super::value::{Stamp, args};

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
    pub(super) fn new<'c>(parkings: impl Iterator<Item = (i64, &'c Parking)>, now: Timestamp) -> Self {
        let mut all = Self { now: Some(Stamp(now)), ..Self::default() };
        parkings.for_each(|(seq, parking)| all.push(seq, parking.row(now)));
        all
    }

    fn push(&mut self, seq: i64, row: ParkedRow<'_>) {
        self.seqs.push(seq);
        self.states.push(row.state);
        self.attempts.push(row.attempts);
        self.available_at.push(row.available_at.map(Stamp));
        self.codes.push(row.code.map(str::to_owned));
        self.errors.push(row.error.map(str::to_owned));
        self.failed_at.push(row.failed_at.map(Stamp));
        self.dead_at.push(row.dead_at.map(Stamp));
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
