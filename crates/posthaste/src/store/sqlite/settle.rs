//! Recording what became of what was handed out, and moving the place.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::admin::LaneState;
use posthaste_core::redact;
use posthaste_core::sql::SqliteSql;
use posthaste_core::store::{Outcome, Settled, Standing, Then, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::cursor::{Cursor, Reading, SHARD, ToPark, Why};
use super::parking::Change;
use super::rows::{self, lane_state};
use crate::store::totals::Totals;

/// What a relay hands in.
pub(super) struct Request {
    pub(super) outcomes: Vec<Settled>,
    pub(super) then: Then,
    pub(super) lease: Duration,
}

/// What the cursor is told after the commit.
pub(super) struct Done {
    pub(super) standing: Standing,
    /// Parked events that claims may find again.
    no_longer_out: HashSet<i64>,
    /// Keys that stand in the file as behind now.
    keys_parked: Vec<String>,
}

impl Done {
    /// Tells the cursor; `None`: it was not committed.
    pub(super) fn tell(done: Option<&Self>, cursor: &Cursor) {
        let mut reading = cursor.lock();
        let Some(done) = done else {
            reading.is_broken = true;
            return;
        };
        if !done.no_longer_out.is_empty() {
            let out = Arc::make_mut(&mut reading.out);
            out.retain(|seq| !done.no_longer_out.contains(seq));
        }
        if !done.keys_parked.is_empty() {
            let keys = Arc::make_mut(&mut reading.keys_behind);
            for key in &done.keys_parked {
                match keys.get_mut(key) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(keys.remove(key)),
                }
            }
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
    let held = lane_if_held(connection, sql, cursor, now)?.filter(|_| !reading.is_broken);
    let Some((state, reason, is_wanted)) = held else {
        return Ok(Done { standing: Standing::Lost, no_longer_out: HashSet::new(), keys_parked: Vec::new() });
    };
    let mut settle = Settle {
        connection,
        sql,
        cursor,
        now,
        reading: &mut reading,
        totals: Totals::default(),
        keys: HashSet::new(),
        done: HashSet::new(),
        keys_parked: Vec::new(),
    };
    settle.park_what_was_read()?;
    for settled in request.outcomes {
        settle.record(settled)?;
    }
    settle.promote()?;
    settle.move_place()?;
    let (state, reason, ends) = after(request.then, state, reason);
    settle.write_lane(state, reason, ends, request.lease)?;
    let standing = match state {
        LaneState::Paused => Standing::Paused,
        _ if is_wanted && !ends => Standing::Wanted,
        _ => Standing::Held,
    };
    Ok(Done { standing, no_longer_out: settle.done, keys_parked: settle.keys_parked })
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
    let values = (cursor.lane(), SHARD, cursor.epoch, &cursor.run, now.as_micros());
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
    /// Parked events that are settled here.
    done: HashSet<i64>,
    keys_parked: Vec<String>,
}

impl Settle<'_> {
    /// Records what claims met and did not hand out.
    fn park_what_was_read(&mut self) -> rusqlite::Result<()> {
        let now = self.now.as_micros();
        for ToPark { seq, why, is_parked } in std::mem::take(&mut self.reading.to_park) {
            let change = match &why {
                Why::Scheduled { at } => Change::due("scheduled", *at),
                Why::Behind { .. } => Change::to("behind"),
                Why::Expired => Change::expired(now),
            };
            if let Why::Behind { key } = why {
                self.keys_parked.push(key);
            }
            if is_parked {
                self.done.insert(seq);
                self.park_again(seq, &change)?;
            } else {
                self.reading.prefix.settle(Ticket(seq));
                self.reading.aside.insert(seq);
                self.park(seq, &change)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, Settled { ticket, outcome, .. }: Settled) -> rusqlite::Result<()> {
        let seq = ticket.0;
        if self.reading.prefix.is_out(ticket) {
            return self.record_from_log(seq, outcome);
        }
        if !self.reading.out.contains(&seq) || self.done.contains(&seq) {
            return Ok(());
        }
        if !matches!(outcome, Outcome::Slow) {
            self.done.insert(seq);
        }
        match outcome {
            Outcome::Delivered => self.unpark(seq),
            outcome => match Change::of(outcome, self.now) {
                Some(change) => self.park_again(seq, &change),
                None => Ok(()),
            },
        }
    }

    fn record_from_log(&mut self, seq: i64, outcome: Outcome) -> rusqlite::Result<()> {
        let is_slow = matches!(outcome, Outcome::Slow);
        match outcome {
            // It counts when the place passes it: until then a crash gives it back.
            Outcome::Delivered => {
                self.reading.prefix.settle(Ticket(seq));
            }
            // It stays unsettled, so that the next lease reads it again.
            Outcome::Released => {}
            outcome => {
                let Some(change) = Change::of(outcome, self.now) else { return Ok(()) };
                self.reading.prefix.settle(Ticket(seq));
                self.reading.aside.insert(seq);
                self.park(seq, &change)?;
                if is_slow {
                    // Its answer comes with the same ticket and settles the row.
                    Arc::make_mut(&mut self.reading.out).insert(seq);
                }
            }
        }
        Ok(())
    }

    /// Parks an event of the log.
    fn park(&mut self, seq: i64, change: &Change) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&self.sql.park)?;
        let values = rusqlite::params![
            self.cursor.lane(),
            seq,
            SHARD,
            change.state,
            change.attempts,
            change.available_at,
            self.cursor.epoch,
            change.code,
            change.last_error,
            change.failed_at,
            change.dead_at,
            false,
        ];
        let parked = statement.query_row(values, |row| rows::maybe_text(row, 0)).optional()?;
        // Somebody deleted the event by hand: there is nothing to wait for.
        let Some(key) = parked else { return Ok(()) };
        self.totals.accepted += 1;
        *self.total_of(change.state) += 1;
        self.touch(seq, key, false, change)
    }

    /// Changes a parked event, unless an operator has ended it meanwhile.
    fn park_again(&mut self, seq: i64, change: &Change) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&self.sql.park_again)?;
        let values = rusqlite::params![
            self.cursor.lane(),
            seq,
            change.state,
            change.attempts,
            change.available_at,
            self.cursor.epoch,
            change.code,
            change.last_error,
            change.failed_at,
            change.dead_at,
        ];
        let read = |row: &Row<'_>| Ok((rows::maybe_text(row, 0)?, row.get::<_, bool>(1)?));
        let Some((key, replay)) = statement.query_row(values, read).optional()? else { return Ok(()) };
        self.totals.waiting -= 1;
        *self.total_of(change.state) += 1;
        self.touch(seq, key, replay, change)
    }

    fn unpark(&mut self, seq: i64) -> rusqlite::Result<()> {
        let is_passed = seq <= self.reading.place.seq;
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
        change: &Change,
    ) -> rusqlite::Result<()> {
        let is_free = key.is_none() || replay || !self.cursor.is_ordered();
        if change.state == "behind" && is_free {
            return self.park_again(seq, &Change::due("retrying", self.now.as_micros()));
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
            statement.execute((lane, SHARD, key, now, blocks))?;
        }
        Ok(())
    }

    fn move_place(&mut self) -> rusqlite::Result<()> {
        let before = self.reading.place.seq;
        let delivered = i64::try_from(self.reading.advance()).unwrap_or(i64::MAX);
        self.totals.accepted += delivered;
        self.totals.delivered += delivered;
        if self.reading.done > 0 && self.reading.place.seq > before {
            let mut forget = self.connection.prepare_cached(&self.sql.done_forget)?;
            let forgotten = forget.execute((self.cursor.lane(), self.reading.place.seq))?;
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
            SHARD,
            self.cursor.epoch,
            self.cursor.run,
            self.reading.place.seq,
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
