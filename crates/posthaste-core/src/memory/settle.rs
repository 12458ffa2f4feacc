//! Recording what became of what was handed out.

use super::claim::{Cursor, Fate};
use super::state::{LaneRow, Parked, ParkedState, State};
use crate::Result;
use crate::admin::LaneState;
use crate::redact;
use crate::store::{Lease, Outcome, Settled, Standing, Then};
use crate::target::DeliverError;
use crate::time::Timestamp;

impl State {
    pub(super) fn settle(
        &mut self,
        lease: &Lease,
        outcomes: Vec<Settled>,
        then: Then,
        now: Timestamp,
    ) -> Result<Standing> {
        let mut cursor = Cursor::of(lease)?;
        let held =
            self.lanes.get(lease.lane()).is_some_and(|lane| lane.is_held_by(lease.epoch(), &cursor.run));
        if !held {
            return Ok(Standing::Lost);
        }
        self.park_what_was_read(lease, &mut cursor, now);
        for settled in outcomes {
            self.record(lease, &mut cursor, settled, now);
        }
        let lane = self.lanes.get_mut(lease.lane()).expect("it is held");
        move_the_place(lane, &mut cursor);
        lane.promote(now);
        lane.lease_until = now.after(lease.length());
        lane.go_on(then);
        Ok(match lane.state {
            LaneState::Paused => Standing::Paused,
            _ if lane.owner.is_some() && lane.is_wanted(now) => Standing::Wanted,
            _ => Standing::Held,
        })
    }

    /// Parks what claims found but did not hand out.
    fn park_what_was_read(&mut self, lease: &Lease, cursor: &mut Cursor, now: Timestamp) {
        let lane = self.lanes.get_mut(lease.lane()).expect("it is held");
        for read in &mut cursor.read {
            let Some(stored) = self.events.get(&read.seq) else { continue };
            let key = stored.envelope.key.clone();
            let row = match read.fate {
                Fate::ToSchedule => Parked::new(key, ParkedState::Scheduled, stored.available_at()),
                Fate::ToPutBehind => Parked::new(key, ParkedState::Behind, None),
                Fate::ToExpire => {
                    let mut row = Parked::new(key, ParkedState::Behind, None);
                    row.discard("expired", "expired before it was delivered", now);
                    lane.discarded += 1;
                    row
                }
                _ => continue,
            };
            lane.accepted += 1;
            lane.parked.insert(read.seq, row);
            read.fate = Fate::Nothing;
        }
        for seq in std::mem::take(&mut cursor.expired) {
            if let Some(row) = lane.parked.get_mut(&seq).filter(|row| row.state.is_waiting()) {
                row.discard("expired", "expired before it was delivered", now);
                lane.discarded += 1;
            }
        }
    }

    fn record(&mut self, lease: &Lease, cursor: &mut Cursor, settled: Settled, now: Timestamp) {
        let seq = settled.ticket.0;
        let lane = self.lanes.get_mut(lease.lane()).expect("it is held");
        let from_log = cursor.read.iter_mut().find(|read| read.seq == seq && read.fate == Fate::Out);
        if let Some(read) = from_log {
            match settled.outcome {
                Outcome::Delivered => read.fate = Fate::Delivered,
                Outcome::Released => read.fate = Fate::Released,
                outcome => {
                    let key = self.events.get(&seq).and_then(|stored| stored.envelope.key.clone());
                    lane.accepted += 1;
                    lane.parked.insert(seq, Parked::new(key, ParkedState::Behind, None));
                    read.fate = Fate::Nothing;
                    cursor.out.insert(seq);
                    record_parked(lane, lease.epoch(), cursor, seq, outcome, now);
                }
            }
        } else if cursor.out.contains(&seq) {
            record_parked(lane, lease.epoch(), cursor, seq, settled.outcome, now);
        }
    }
}

/// Records an outcome on the event's parked row; if an operator has ended the event meanwhile, that stands.
fn record_parked(
    lane: &mut LaneRow,
    epoch: i64,
    cursor: &mut Cursor,
    seq: i64,
    outcome: Outcome,
    now: Timestamp,
) {
    if !matches!(outcome, Outcome::Slow) {
        cursor.out.remove(&seq);
    }
    let Some(row) = lane.parked.get_mut(&seq).filter(|row| row.state.is_waiting()) else { return };
    match outcome {
        Outcome::Delivered => {
            lane.delivered += 1;
            lane.replayed += u64::from(row.replay);
            row.state = ParkedState::Done;
            row.available_at = None;
        }
        Outcome::Retry { after, error } => {
            row.failed(error, now);
            row.state = ParkedState::Retrying;
            row.available_at = Some(now.after(after));
        }
        Outcome::Later { after, error } => {
            if let Some(error) = error {
                row.say(error);
            }
            row.state = ParkedState::Retrying;
            row.available_at = Some(now.after(after));
        }
        Outcome::Dead { error } => {
            row.failed(error, now);
            row.state = ParkedState::Dead;
            row.available_at = None;
            row.dead_at = Some(now);
        }
        Outcome::Behind => {
            row.state = ParkedState::Behind;
            row.available_at = None;
        }
        Outcome::Slow => {
            row.state = ParkedState::Leased(epoch);
            row.available_at = Some(now);
        }
        Outcome::Released => {}
    }
}

/// Moves the lane's place over the settled prefix of what was read; what was acknowledged counts now.
fn move_the_place(lane: &mut LaneRow, cursor: &mut Cursor) {
    let settled = |fate| matches!(fate, Fate::Nothing | Fate::Delivered);
    let prefix = cursor.read.iter().take_while(|read| settled(read.fate)).count();
    for read in cursor.read.drain(..prefix) {
        lane.passed.insert(read.seq);
        lane.stumbles = 0;
        if read.fate == Fate::Delivered {
            lane.accepted += 1;
            lane.delivered += 1;
        }
    }
    lane.forget_done();
}

impl Parked {
    fn failed(&mut self, error: DeliverError, now: Timestamp) {
        self.attempts += 1;
        self.say(error);
        self.first_failed_at = self.first_failed_at.or(Some(now));
    }

    fn say(&mut self, error: DeliverError) {
        self.code = Some(error.code);
        self.last_error = Some(redact::clean(&error.message));
    }
}

impl LaneRow {
    fn go_on(&mut self, then: Then) {
        match then {
            Then::Hold => {}
            Then::Report(reason) => {
                if matches!(self.state, LaneState::Active | LaneState::Unavailable) {
                    self.state = if reason.is_some() { LaneState::Unavailable } else { LaneState::Active };
                    self.reason = reason;
                }
            }
            Then::GiveUp => self.give_up(),
            Then::Retire(reason) => {
                self.state = LaneState::Retired;
                self.reason = Some(reason);
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.owner = None;
        self.stumbles = 0;
    }
}
