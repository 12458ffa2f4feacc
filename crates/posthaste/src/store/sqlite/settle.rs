//! Recording what became of what was handed out, and moving the place.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_core::admin::LaneState;
use posthaste_core::log::held::SettlePlan;
use posthaste_core::log::parking::ParkedRow;
use posthaste_core::log::totals::Totals;
use posthaste_core::redact;
use posthaste_core::sql::SqliteSql;
use posthaste_core::store::{Settled, Standing, Then};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::cursor::{Cursor, Reading};
use super::rows::{self, lane_state};

/// What a relay hands in.
pub(super) struct Request {
    pub(super) outcomes: Vec<Settled>,
    pub(super) then: Then,
    pub(super) lease: Duration,
}

/// What the cursor is told after the commit.
pub(super) struct Done {
    pub(super) standing: Standing,
    plan: SettlePlan,
}

impl Done {
    /// Tells the cursor; `None`: it was not committed.
    pub(super) fn tell(done: Option<&Self>, cursor: &Cursor) {
        let mut reading = cursor.lock();
        match done {
            Some(done) => reading.held.recorded(&done.plan),
            None => reading.held.is_broken = true,
        }
    }
}

/// Records the outcomes; nothing if somebody else has the lane.
pub(super) fn settle(
    connection: &Connection,
    sql: &SqliteSql,
    cursor: &Cursor,
    request: Request,
    now: Timestamp,
) -> rusqlite::Result<Done> {
    let mut reading = cursor.lock();
    let held = lane_if_held(connection, sql, cursor, now)?.filter(|_| !reading.held.is_broken);
    let Some((state, reason, is_wanted)) = held else {
        return Ok(Done { standing: Standing::Lost, plan: SettlePlan::default() });
    };
    let plan = reading.held.plan(request.outcomes);
    let (totals, keys) = (Totals::default(), HashSet::new());
    let mut settle = Settle { connection, sql, cursor, now, reading: &mut reading, totals, keys };
    settle.carry_out(&plan)?;
    settle.promote()?;
    settle.move_place()?;
    let (state, reason, ends) = after(request.then, state, reason);
    settle.write_lane(state, reason, ends, request.lease)?;
    let standing = match state {
        LaneState::Paused => Standing::Paused,
        _ if is_wanted && !ends => Standing::Wanted,
        _ => Standing::Held,
    };
    Ok(Done { standing, plan })
}

fn lane_if_held(
    connection: &Connection,
    sql: &SqliteSql,
    cursor: &Cursor,
    now: Timestamp,
) -> rusqlite::Result<Option<(LaneState, Option<String>, bool)>> {
    let mut statement = connection.prepare_cached(&sql.lane_standing)?;
    let read = |row: &Row<'_>| {
        let is_wanted = row.get::<_, Option<bool>>(2)? == Some(true);
        Ok((lane_state(&row.get::<_, String>(0)?), row.get(1)?, is_wanted))
    };
    let values = (cursor.lane(), cursor.epoch, &cursor.run, now.as_micros());
    statement.query_row(values, read).optional()
}

/// The lane's state, its reason, and whether the lease ends.
fn after(then: Then, state: LaneState, reason: Option<String>) -> (LaneState, Option<String>, bool) {
    match then {
        Then::GiveUp => (state, reason, true),
        Then::Retire(why) => (LaneState::Retired, Some(redact::clean(&why)), true),
        // What an operator or a retirement said is not overwritten by how the target is.
        Then::Report(why) if matches!(state, LaneState::Active | LaneState::Unavailable) => {
            let state = if why.is_some() { LaneState::Unavailable } else { LaneState::Active };
            (state, why.map(|why| redact::clean(&why)), false)
        }
        _ => (state, reason, false),
    }
}

struct Settle<'a> {
    connection: &'a Connection,
    sql: &'a SqliteSql,
    cursor: &'a Cursor,
    now: Timestamp,
    reading: &'a mut Reading,
    totals: Totals,
    /// Keys whose next event may have its turn now.
    keys: HashSet<String>,
}

impl Settle<'_> {
    /// Writes the rows of parked events.
    fn carry_out(&mut self, plan: &SettlePlan) -> rusqlite::Result<()> {
        for (seq, parking) in &plan.park {
            self.park(*seq, &parking.row(self.now))?;
        }
        for (seq, parking) in &plan.park_again {
            self.park_again(*seq, &parking.row(self.now))?;
        }
        plan.unpark.iter().try_for_each(|seq| self.unpark(*seq))
    }

    /// Parks an event of the log.
    fn park(&mut self, seq: i64, row: &ParkedRow<'_>) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&self.sql.park)?;
        let values = rusqlite::params![
            self.cursor.lane(),
            seq,
            row.state,
            row.attempts,
            row.available_at.map(Timestamp::as_micros),
            self.cursor.epoch,
            row.code,
            row.error,
            row.failed_at.map(Timestamp::as_micros),
            row.dead_at.map(Timestamp::as_micros),
            false,
        ];
        let parked = statement.query_row(values, |row| rows::maybe_text(row, 0)).optional()?;
        // Somebody deleted the event by hand: there is nothing to wait for.
        let Some(key) = parked else { return Ok(()) };
        self.totals.accepted += 1;
        *self.total_of(row.state) += 1;
        self.touch(seq, key, false, row)
    }

    /// Changes a parked event, unless an operator has ended it meanwhile.
    fn park_again(&mut self, seq: i64, row: &ParkedRow<'_>) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&self.sql.park_again)?;
        let values = rusqlite::params![
            self.cursor.lane(),
            seq,
            row.state,
            row.attempts,
            row.available_at.map(Timestamp::as_micros),
            self.cursor.epoch,
            row.code,
            row.error,
            row.failed_at.map(Timestamp::as_micros),
            row.dead_at.map(Timestamp::as_micros),
        ];
        let read = |row: &Row<'_>| Ok((rows::maybe_text(row, 0)?, row.get::<_, bool>(1)?));
        let Some((key, replay)) = statement.query_row(values, read).optional()? else { return Ok(()) };
        self.totals.waiting -= 1;
        *self.total_of(row.state) += 1;
        self.touch(seq, key, replay, row)
    }

    fn unpark(&mut self, seq: i64) -> rusqlite::Result<()> {
        let is_passed = seq <= self.reading.place;
        let text = if is_passed { &self.sql.unpark } else { &self.sql.done_keep };
        let mut statement = self.connection.prepare_cached(text)?;
        let read = |row: &Row<'_>| Ok((rows::maybe_text(row, 0)?, row.get::<_, bool>(1)?));
        let gone = statement.query_row((self.cursor.lane(), seq), read).optional()?;
        let Some((key, replay)) = gone else { return Ok(()) };
        self.totals.waiting -= 1;
        self.totals.delivered += 1;
        self.totals.replayed += i64::from(replay);
        self.reading.done += i64::from(!is_passed);
        self.keys.extend(key);
        Ok(())
    }

    fn total_of(&mut self, state: &str) -> &mut i64 {
        match state {
            "dead" => &mut self.totals.dead,
            "discarded" => &mut self.totals.discarded,
            _ => &mut self.totals.waiting,
        }
    }

    /// Remembers the key of a changed row. What has no key, stands outside the order, or is in a lane without one, is
    /// behind nobody and due at once.
    fn touch(
        &mut self,
        seq: i64,
        key: Option<String>,
        replay: bool,
        row: &ParkedRow<'_>,
    ) -> rusqlite::Result<()> {
        let is_free = key.is_none() || replay || !self.cursor.is_ordered();
        if row.state == "behind" && is_free {
            return self.park_again(seq, &ParkedRow::due("retrying", self.now));
        }
        self.keys.extend(key);
        Ok(())
    }

    fn promote(&mut self) -> rusqlite::Result<()> {
        if self.keys.is_empty() || !self.cursor.is_ordered() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(&self.sql.promote)?;
        let (lane, now, blocks) = (self.cursor.lane(), self.now.as_micros(), self.cursor.blocks_on_dead());
        for key in &self.keys {
            statement.execute((lane, key, now, blocks))?;
        }
        Ok(())
    }

    fn move_place(&mut self) -> rusqlite::Result<()> {
        let before = self.reading.place;
        let delivered = i64::try_from(self.reading.advance()).unwrap_or(i64::MAX);
        self.totals.accepted += delivered;
        self.totals.delivered += delivered;
        if self.reading.done > 0 && self.reading.place > before {
            let mut forget = self.connection.prepare_cached(&self.sql.done_forget)?;
            let forgotten = forget.execute((self.cursor.lane(), self.reading.place))?;
            self.reading.done -= forgotten as i64;
        }
        Ok(())
    }

    fn write_lane(
        &mut self,
        state: LaneState,
        reason: Option<String>,
        ends: bool,
        lease: Duration,
    ) -> rusqlite::Result<()> {
        debug_assert!(self.totals.add_up(), "{:?}", self.totals);
        let lease_until = if ends { self.now } else { self.now.after(lease) };
        self.connection.prepare_cached(&self.sql.lane_settle)?.execute(rusqlite::params![
            self.cursor.lane(),
            self.cursor.epoch,
            self.cursor.run,
            self.reading.place,
            lease_until.as_micros(),
            state.name(),
            reason,
            self.totals.accepted,
            self.totals.delivered,
            self.totals.waiting,
            self.totals.dead,
            self.totals.discarded,
            self.totals.replayed,
            self.now.as_micros(),
            ends,
        ])?;
        Ok(())
    }
}
