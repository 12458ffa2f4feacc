//! Handing out: due parked events first, then the log, all from one snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posthaste_core::log::held::ToPark;
use posthaste_core::log::parking::Parking;
use posthaste_core::sql::SqliteSql;
use posthaste_core::store::{Claimed, Parcel, Room, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::cursor::Cursor;
use super::rows::{self, LogRow};

/// How many rows of the log one claim looks at, so that a lane that wants little does not hold up the others.
const SCAN_ROWS_MAX: usize = 20_000;

/// What a claim found.
pub(super) struct Answer {
    pub(super) claimed: Vec<Claimed>,
    /// How much waits for the next settle to be recorded.
    pub(super) to_park: usize,
    /// It stopped although there is more of the log.
    pub(super) is_partial: bool,
}

/// Reads on where the lease's last claim ended.
pub(super) fn claim(
    connection: &Connection,
    sql: &SqliteSql,
    cursor: &Cursor,
    room: Room,
    now: Timestamp,
) -> rusqlite::Result<Answer> {
    let mut claim = Claim::begin(connection, sql, cursor, room, now);
    if claim.lane_is_held()? {
        claim.hand_out_due()?;
        claim.found.parked_had_it = !claim.answer.is_empty();
        claim.limit = room;
        claim.read_log()?;
    }
    Ok(claim.end())
}

struct Claim<'a> {
    connection: &'a Connection,
    sql: &'a SqliteSql,
    cursor: &'a Cursor,
    now: i64,
    /// What the part at hand may answer.
    limit: Room,
    waiting: bool,
    dead: bool,
    out: Arc<HashSet<i64>>,
    keys_behind: Arc<HashMap<String, usize>>,
    /// Which keys were looked up, and the number beyond which their events wait.
    keys_held: HashMap<String, i64>,
    answer: Vec<Claimed>,
    bytes: u64,
    found: Found,
}

/// What the cursor is told at the end.
#[derive(Default)]
struct Found {
    read: i64,
    /// Events of the log that were handed out or set aside, in order.
    taken: Vec<i64>,
    /// Parked events that were handed out or found expired.
    parked: HashSet<i64>,
    to_park: Vec<ToPark>,
    parked_had_it: bool,
    is_partial: bool,
}

/// What became of one parked event.
enum Handed {
    Yes,
    /// It is not there any more, or expired.
    Not,
    NoRoom,
}

impl<'a> Claim<'a> {
    fn begin(
        connection: &'a Connection,
        sql: &'a SqliteSql,
        cursor: &'a Cursor,
        room: Room,
        now: Timestamp,
    ) -> Self {
        let reading = cursor.lock();
        let parked_share = match room.events {
            1 => u32::from(!reading.held.parked_had_it),
            events => events / 2,
        };
        Self {
            connection,
            sql,
            cursor,
            now: now.as_micros(),
            limit: Room { events: parked_share, bytes: room.bytes / 2 },
            waiting: false,
            dead: false,
            out: reading.held.out(),
            keys_behind: reading.held.keys_behind(),
            keys_held: HashMap::new(),
            answer: Vec::new(),
            bytes: 0,
            found: Found {
                read: reading.read,
                parked_had_it: reading.held.parked_had_it,
                ..Found::default()
            },
        }
    }

    /// Whether this lease still has the lane; begins the snapshot.
    fn lane_is_held(&mut self) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(&self.sql.lane_get)?;
        let mut rows = statement.query([self.cursor.lane()])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        self.waiting = row.get::<_, i64>(6)? > 0;
        self.dead = row.get::<_, i64>(7)? > 0;
        let is_ours = row.get::<_, i64>(2)? == self.cursor.epoch
            && rows::text_ref(row, 0)? == Some(self.cursor.run.as_str());
        Ok(is_ours && !self.cursor.lock().held.is_broken)
    }

    // Parked events.

    fn hand_out_due(&mut self) -> rusqlite::Result<()> {
        if !self.waiting || self.limit.events == 0 {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(&self.sql.due)?;
        let mut due = statement.query((self.cursor.lane(), self.now))?;
        while let Some(row) = due.next()? {
            let seq = row.get(0)?;
            if self.is_out(seq) {
                continue;
            }
            let Some(parked) = self.parked_row(seq)? else { continue };
            if matches!(self.hand_out_parked(seq, &parked)?, Handed::NoRoom) {
                return Ok(());
            }
            if let Some(key) = self.heads(seq, &parked)?
                && matches!(self.followers(seq, key)?, Handed::NoRoom)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_out(&self, seq: i64) -> bool {
        self.out.contains(&seq) || self.found.parked.contains(&seq)
    }

    fn parked_row(&self, seq: i64) -> rusqlite::Result<Option<ParkedRow>> {
        let mut statement = self.connection.prepare_cached(&self.sql.parked_get)?;
        let read = |row: &Row<'_>| {
            Ok(ParkedRow {
                key: rows::maybe_text(row, 0)?,
                is_scheduled: rows::text_ref(row, 1)? == Some("scheduled"),
                attempts: row.get(2)?,
                replay: row.get(3)?,
            })
        };
        statement.query_row((self.cursor.lane(), seq), read).optional()
    }

    fn hand_out_parked(&mut self, seq: i64, parked: &ParkedRow) -> rusqlite::Result<Handed> {
        let Some(event) = self.event(seq)? else { return Ok(Handed::Not) };
        let expires = event.envelope.expires.map(|moment| moment.resolve(event.created_at).as_micros());
        if expires.is_some_and(|at| at <= self.now) {
            self.found.parked.insert(seq);
            self.found.to_park.push(ToPark::expired_again(seq));
            return Ok(Handed::Not);
        }
        if !self.fits(&event) {
            return Ok(Handed::NoRoom);
        }
        self.found.parked.insert(seq);
        self.push(seq, event, parked.attempts + 1, parked.replay);
        Ok(Handed::Yes)
    }

    /// The key that this parked event is the first of, so that what waits behind it may come along.
    fn heads<'k>(&mut self, seq: i64, parked: &'k ParkedRow) -> rusqlite::Result<Option<&'k str>> {
        let Some(key) = parked.key.as_deref() else { return Ok(None) };
        if !self.cursor.is_ordered() || parked.replay || parked.is_scheduled || self.is_held(key, seq)? {
            return Ok(None);
        }
        Ok(Some(key))
    }

    /// Hands out what waits right behind a head, in order: a long queue of one key drains at speed when it comes out
    /// together. The relay never has two events of one key in flight, and puts the rest behind again if the head fails.
    fn followers(&mut self, head: i64, key: &str) -> rusqlite::Result<Handed> {
        let mut end = i64::MAX;
        if self.cursor.blocks_on_dead() && self.dead {
            let mut statement = self.connection.prepare_cached(&self.sql.key_dead_after)?;
            let dead: Option<i64> = statement.query_row((self.cursor.lane(), key, head), |row| row.get(0))?;
            end = dead.unwrap_or(end);
        }
        let mut statement = self.connection.prepare_cached(&self.sql.followers)?;
        let mut rows = statement.query((self.cursor.lane(), key, head))?;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            if rows::text_ref(row, 1)? != Some("behind") || seq > end || self.is_out(seq) {
                break;
            }
            let Some(parked) = self.parked_row(seq)? else { continue };
            if matches!(self.hand_out_parked(seq, &parked)?, Handed::NoRoom) {
                return Ok(Handed::NoRoom);
            }
        }
        Ok(Handed::Yes)
    }

    /// Whether an event of this key before this one is parked in a way that makes it wait. Looks nothing up while the
    /// lane has nothing parked, and each key once.
    fn is_held(&mut self, key: &str, seq: i64) -> rusqlite::Result<bool> {
        let asks_dead = self.dead && self.cursor.blocks_on_dead();
        if !self.waiting && !asks_dead {
            return Ok(false);
        }
        if let Some(&first) = self.keys_held.get(key) {
            return Ok(first < seq);
        }
        let ask = |sql: &str| -> rusqlite::Result<i64> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let first = statement.query_row((self.cursor.lane(), key), |row| row.get::<_, Option<i64>>(0))?;
            Ok(first.unwrap_or(i64::MAX))
        };
        let mut first = if self.waiting { ask(&self.sql.key_first)? } else { i64::MAX };
        if asks_dead {
            first = first.min(ask(&self.sql.key_first_dead)?);
        }
        self.keys_held.insert(key.to_owned(), first);
        Ok(first < seq)
    }

    // The log.

    fn read_log(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&self.sql.log_read)?;
        let mut parked_statement = self.connection.prepare_cached(&self.sql.parked_from)?;
        let mut parked = parked_statement.query((self.cursor.lane(), self.found.read))?;
        let mut next_parked = next_seq(&mut parked)?;
        let mut rows = statement.query([self.found.read])?;
        let mut scanned = 0;
        while let Some(row) = rows.next()? {
            if scanned == SCAN_ROWS_MAX {
                self.found.is_partial = true;
                break;
            }
            scanned += 1;
            let seq: i64 = row.get(0)?;
            while next_parked.is_some_and(|parked| parked < seq) {
                next_parked = next_seq(&mut parked)?;
            }
            // A parked row speaks for it: parked by an earlier lease, beyond a gap that this one reads again.
            let is_unwanted = next_parked == Some(seq) || !self.wants(row)?;
            if !is_unwanted && !self.decide(row, seq)? {
                break;
            }
            self.found.read = seq;
        }
        Ok(())
    }

    fn wants(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let topic = match rows::text_ref(row, rows::TOPIC)? {
            Some(topic) => Some(topic),
            None => rows::text_ref(row, rows::EVENT_TYPE)?,
        };
        Ok(self.cursor.spec.wants(topic.unwrap_or_default()))
    }

    /// Hands out one event of the log, or sets it aside; `false`: there is no room for it.
    fn decide(&mut self, row: &Row<'_>, seq: i64) -> rusqlite::Result<bool> {
        if let Some(parking) = self.parking(row, seq)? {
            self.found.taken.push(seq);
            self.found.to_park.push(parking);
            return Ok(true);
        }
        if self.is_full() {
            return Ok(false);
        }
        let is_long = row.get::<_, Option<bool>>(rows::PAYLOAD_IS_LONG)? == Some(true);
        let event = if is_long { self.event(seq)? } else { Some(rows::event(row)?) };
        // It was there in this very snapshot.
        let Some(event) = event else { return Ok(true) };
        if !self.fits(&event) {
            return Ok(false);
        }
        self.found.taken.push(seq);
        self.push(seq, event, 1, false);
        Ok(true)
    }

    /// How an event of the log is parked; `None`: the claim may hand it out.
    fn parking(&mut self, row: &Row<'_>, seq: i64) -> rusqlite::Result<Option<ToPark>> {
        let expires_at: Option<i64> = row.get(rows::EXPIRES_AT)?;
        if expires_at.is_some_and(|at| at <= self.now) {
            return Ok(Some(ToPark::of_log(seq, Parking::Expired)));
        }
        let available_at: Option<i64> = row.get(rows::AVAILABLE_AT)?;
        if let Some(at) = available_at.filter(|at| *at > self.now) {
            let at = Timestamp::from_micros(at);
            return Ok(Some(ToPark::of_log(seq, Parking::Scheduled { at })));
        }
        if !self.cursor.is_ordered() {
            return Ok(None);
        }
        let Some(key) = rows::text_ref(row, rows::KEY)? else { return Ok(None) };
        let waits = self.keys_behind.contains_key(key) || self.is_held(key, seq)?;
        Ok(waits.then(|| ToPark::behind(seq, key.to_owned())))
    }

    // The answer.

    fn event(&self, seq: i64) -> rusqlite::Result<Option<LogRow>> {
        self.connection.prepare_cached(&self.sql.event_get)?.query_row([seq], rows::event).optional()
    }

    fn is_full(&self) -> bool {
        self.answer.len() >= self.limit.events as usize
    }

    fn fits(&self, event: &LogRow) -> bool {
        let fits_in_bytes = self.bytes + event.envelope.weight() <= self.limit.bytes;
        !self.is_full() && (self.answer.is_empty() || fits_in_bytes)
    }

    fn push(&mut self, seq: i64, event: LogRow, attempt: u32, replay: bool) {
        self.bytes += event.envelope.weight();
        let parcel = Parcel::new(Arc::new(event.envelope), attempt, replay, event.created_at);
        self.answer.push(Claimed::new(Ticket(seq), parcel));
    }

    /// Tells the cursor what was found.
    fn end(self) -> Answer {
        let mut reading = self.cursor.lock();
        let found = self.found;
        found.taken.into_iter().for_each(|seq| reading.take(seq));
        reading.read_to(found.read);
        reading.held.parked_had_it = found.parked_had_it;
        reading.held.claimed(found.parked, found.to_park);
        Answer { claimed: self.answer, to_park: reading.held.to_park(), is_partial: found.is_partial }
    }
}

struct ParkedRow {
    key: Option<String>,
    is_scheduled: bool,
    attempts: u32,
    replay: bool,
}

fn next_seq(rows: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<i64>> {
    rows.next()?.map(|row| row.get(0)).transpose()
}
