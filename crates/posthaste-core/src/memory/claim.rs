//! Handing out: due parked events first, then the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use super::state::{LaneRow, Parked, ParkedState, State, Stored};
use crate::lane::Order;
use crate::store::{Claimed, Lease, Parcel, Room, Ticket};
use crate::time::Timestamp;
use crate::{Error, Result};

/// What one lease has read and not yet moved its place over.
pub(super) struct Cursor {
    /// The run of the relay that took the lease.
    pub(super) run: String,
    /// Events of the log in the order they were read; those at the front leave when the place moves over them.
    pub(super) read: Vec<Read>,
    /// Parked events that are handed out and not settled.
    pub(super) out: BTreeSet<i64>,
    /// Parked events that were found expired; the next settle discards them.
    pub(super) expired: BTreeSet<i64>,
    /// Whether the last claim with room for one event was given to a parked one.
    parked_had_it: bool,
}

/// An event of the log that was read.
pub(super) struct Read {
    pub(super) seq: i64,
    pub(super) fate: Fate,
}

/// What became of an event of the log in this lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is not meant for this lane, or a parked row speaks for it already.
    Nothing,
    /// It is handed out and not settled.
    Out,
    /// It was handed back, and is read again by the next lease.
    Released,
    /// It was acknowledged; it counts when the place moves over it.
    Delivered,
    /// The next settle parks it as scheduled.
    ToSchedule,
    /// The next settle parks it behind its key.
    ToPutBehind,
    /// The next settle discards it.
    ToExpire,
}

impl Cursor {
    pub(super) fn new(run: String) -> Self {
        Self { run, read: Vec::new(), out: BTreeSet::new(), expired: BTreeSet::new(), parked_had_it: false }
    }

    /// The cursor of a lease that this store gave out.
    pub(super) fn of(lease: &Lease) -> Result<MutexGuard<'_, Self>> {
        let cursor = lease.cursor::<Mutex<Self>>().ok_or_else(|| {
            Error::config(format!("the lease on lane {} is of another store", lease.lane()))
        })?;
        Ok(cursor.lock().expect("nobody panics while holding it"))
    }
}

/// Collects what a claim answers, within its room; one event always fits.
struct Answer {
    room: Room,
    bytes: u64,
    claimed: Vec<Claimed>,
}

impl Answer {
    fn new(room: Room) -> Self {
        Self { room, bytes: 0, claimed: Vec::new() }
    }

    fn fits(&self, stored: &Stored) -> bool {
        let events = self.claimed.len() < self.room.events as usize;
        let bytes = self.claimed.is_empty() || self.bytes + stored.envelope.weight() <= self.room.bytes;
        events && bytes
    }

    fn push(&mut self, seq: i64, stored: &Stored, attempt: u32, replay: bool) {
        self.bytes += stored.envelope.weight();
        let parcel = Parcel::new(Arc::clone(&stored.envelope), attempt, replay, stored.created_at);
        self.claimed.push(Claimed::new(Ticket(seq), parcel));
    }
}

impl State {
    pub(super) fn claim(&mut self, lease: &Lease, room: Room, now: Timestamp) -> Result<Vec<Claimed>> {
        let mut cursor = Cursor::of(lease)?;
        let Some(lane) = self.lanes.get(lease.lane()) else { return Ok(Vec::new()) };
        if room.events == 0 || !lane.is_held_by(lease.epoch(), &cursor.run) {
            return Ok(Vec::new());
        }
        let mut answer = Answer::new(parked_share(room, &cursor));
        self.claim_parked(lane, lease.epoch(), &mut cursor, &mut answer, now);
        cursor.parked_had_it = !answer.claimed.is_empty();
        answer.room = room;
        self.claim_log(lane, &mut cursor, &mut answer, now);
        let to_park =
            |read: &Read| matches!(read.fate, Fate::ToSchedule | Fate::ToPutBehind | Fate::ToExpire);
        if cursor.read.iter().any(to_park) || !cursor.expired.is_empty() {
            lease.note_unrecorded();
        }
        Ok(answer.claimed)
    }

    fn claim_parked(
        &self,
        lane: &LaneRow,
        epoch: i64,
        cursor: &mut Cursor,
        answer: &mut Answer,
        now: Timestamp,
    ) {
        let mut due: Vec<(i64, &Parked)> = lane
            .parked
            .iter()
            .filter(|(seq, row)| !cursor.out.contains(seq) && is_due(row, epoch, now))
            .map(|(seq, row)| (*seq, row))
            .collect();
        due.sort_by_key(|(seq, row)| (row.available_at, *seq));
        for (head, row) in due {
            for (seq, row) in std::iter::once((head, row)).chain(followers(lane, head, row)) {
                let Some(stored) = self.events.get(&seq) else { continue };
                if stored.expired(now) {
                    cursor.expired.insert(seq);
                    continue;
                }
                if cursor.out.contains(&seq) {
                    break;
                }
                if !answer.fits(stored) {
                    return;
                }
                answer.push(seq, stored, row.attempts + 1, row.replay);
                cursor.out.insert(seq);
            }
        }
    }

    fn claim_log(&self, lane: &LaneRow, cursor: &mut Cursor, answer: &mut Answer, now: Timestamp) {
        let read: BTreeSet<i64> = cursor.read.iter().map(|read| read.seq).collect();
        let mut keys_behind: BTreeSet<&str> = cursor
            .read
            .iter()
            .filter(|read| read.fate == Fate::ToPutBehind)
            .filter_map(|read| self.events.get(&read.seq)?.envelope.key.as_deref())
            .collect();
        for (&seq, stored) in &self.events {
            if lane.passed.contains(&seq) || read.contains(&seq) {
                continue;
            }
            let key = stored.envelope.key.as_deref();
            let fate = if !lane.spec.wants(&stored.envelope.topic) || lane.parked.contains_key(&seq) {
                Fate::Nothing
            } else if stored.expired(now) {
                Fate::ToExpire
            } else if stored.available_at().is_some_and(|at| at > now) {
                Fate::ToSchedule
            } else if lane.is_held_back(seq, key) || key.is_some_and(|key| keys_behind.contains(key)) {
                keys_behind.extend(key);
                Fate::ToPutBehind
            } else if answer.fits(stored) {
                answer.push(seq, stored, 1, false);
                Fate::Out
            } else {
                return;
            };
            cursor.read.push(Read { seq, fate });
        }
    }
}

/// At most half of the room is for parked events, so that new ones flow; a room for one is theirs every other time.
fn parked_share(room: Room, cursor: &Cursor) -> Room {
    let events = match room.events {
        1 => u32::from(!cursor.parked_had_it),
        events => events / 2,
    };
    Room { events, bytes: room.bytes / 2 }
}

fn is_due(row: &Parked, epoch: i64, now: Timestamp) -> bool {
    match row.state {
        ParkedState::Retrying | ParkedState::Scheduled => row.available_at.is_some_and(|at| at <= now),
        // Whoever sent it is gone, and with it the answer.
        ParkedState::Leased(by) => by != epoch,
        ParkedState::Behind | ParkedState::Dead | ParkedState::Discarded | ParkedState::Done => false,
    }
}

/// What waits right behind this event, in order: a long queue of one key drains at speed when it comes out with its head.
fn followers<'a>(lane: &'a LaneRow, head: i64, row: &'a Parked) -> Vec<(i64, &'a Parked)> {
    let heads_its_key = lane.spec.order == Order::PerKey
        && row.key.is_some()
        && !row.replay
        && row.state != ParkedState::Scheduled
        && !lane.is_held_back(head, row.key.as_deref());
    if !heads_its_key {
        return Vec::new();
    }
    let same_key = lane.parked.range(head + 1..).filter(|(_, other)| other.key == row.key);
    let in_order = same_key.filter(|(_, other)| other.holds(lane.spec.on_dead));
    in_order
        .take_while(|(_, other)| other.state == ParkedState::Behind)
        .map(|(seq, other)| (*seq, other))
        .collect()
}
