//! Handing out: due parked events first, then the log between two ticks.
//!
//! Where nothing is parked a claim is one statement, which has one snapshot by itself. Otherwise it is a transaction with
//! one snapshot, because what is parked decides about what is read (`due.rs`, `window.rs`).

mod due;
mod window;

pub(super) use self::window::rows_of_a_short_page;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::log::held::ToPark;
use posthaste_core::sql::PostgresSql;
use posthaste_core::store::{Claimed, Parcel, Room, Ticket};
use posthaste_core::time::Timestamp;
use tokio_postgres::{GenericClient, Row, Transaction};

use super::cursor::{Cursor, Window};
use super::error::{Db, explain};
use super::rows::{self, LogRow};
use super::value::args;

/// The window that a claim begins to read.
pub(super) struct NextWindow {
    pub(super) window: Arc<Window>,
    /// Its first page, if the look for it brought that.
    pub(super) first_page: Vec<Row>,
    /// Few events are expected.
    pub(super) is_short: bool,
}

/// What a claim found.
pub(super) struct Answer {
    pub(super) claimed: Vec<Claimed>,
    /// How much waits for the next settle to be recorded.
    pub(super) to_park: usize,
    /// It stopped although there is more of the log.
    pub(super) is_partial: bool,
    /// It read its window to the end.
    is_end: bool,
}

impl Answer {
    /// Whether it read a window to its end and there was nothing to be done.
    pub(super) fn is_only_passed(&self) -> bool {
        self.is_end && self.claimed.is_empty() && self.to_park == 0
    }
}

/// One claim, from what the cursor knows before its snapshot begins to what it is told at the end.
pub(super) struct Claim<'a> {
    sql: &'a PostgresSql,
    /// The statements as texts: the server sends their rows while it reads, where a function collects them
    /// first.
    plain: &'a PostgresSql,
    cursor: &'a Cursor,
    now: Timestamp,
    room: Room,
    /// What of it parked events may take.
    parked_share: Room,
    /// What the part at hand may answer.
    limit: Room,
    waiting: bool,
    dead: bool,
    out: Arc<HashSet<i64>>,
    keys_behind: Arc<HashMap<String, usize>>,
    /// The window has events whose numbers are low although none should.
    has_stragglers: bool,
    /// Which keys were looked up, and the number beyond which their events wait.
    keys_held: HashMap<String, i64>,
    /// The next page is a short one: few events are expected.
    is_short: bool,
    /// The first page, where the look for the window brought it.
    first_page: Vec<Row>,
    answer: Vec<Claimed>,
    bytes: u64,
    found: Found,
}

/// What the cursor is told at the end.
struct Found {
    /// The window that is read, where it was read up to, and whether that is its end.
    window: Option<Arc<Window>>,
    is_new_window: bool,
    read: i64,
    is_end: bool,
    /// Events of the log that were handed out or set aside, in order.
    taken: Vec<i64>,
    /// Those of them that had a parked row already, and of these what was delivered from it.
    spoken_for: HashSet<i64>,
    done: Vec<i64>,
    /// Parked events that were handed out or found expired.
    parked: HashSet<i64>,
    to_park: Vec<ToPark>,
    parked_had_it: bool,
    is_partial: bool,
    has_parked: bool,
}

impl<'a> Claim<'a> {
    /// Copies what the cursor knows; `next`: a window that begins where the last one ended.
    pub(super) fn begin(
        [sql, plain]: [&'a PostgresSql; 2],
        cursor: &'a Cursor,
        room: Room,
        next: Option<NextWindow>,
    ) -> Self {
        let reading = cursor.lock();
        let parked_share = match room.events {
            1 => u32::from(!reading.held.parked_had_it),
            events => events / 2,
        };
        let is_new_window = next.is_some();
        let (is_short, first_page, window, read) = match next {
            Some(next) => (next.is_short, next.first_page, Some(next.window), 0),
            None => {
                let (window, read) = reading.window().unzip();
                (false, Vec::new(), window, read.unwrap_or_default())
            }
        };
        Self {
            sql,
            plain,
            is_short,
            first_page,
            cursor,
            now: Timestamp::default(),
            room,
            parked_share: Room { events: parked_share, bytes: room.bytes / 2 },
            limit: room,
            waiting: false,
            dead: false,
            out: reading.held.out(),
            keys_behind: reading.held.keys_behind(),
            has_stragglers: false,
            keys_held: HashMap::new(),
            answer: Vec::new(),
            bytes: 0,
            found: Found {
                window,
                is_new_window,
                read,
                is_end: false,
                taken: Vec::new(),
                spoken_for: HashSet::new(),
                done: Vec::new(),
                parked: HashSet::new(),
                to_park: Vec::new(),
                parked_had_it: reading.held.parked_had_it,
                is_partial: false,
                has_parked: false,
            },
        }
    }

    /// Whether this may be a claim of one statement: the last claim found nothing parked.
    pub(super) fn may_be_one_statement(&self) -> bool {
        !self.cursor.lock().has_parked
    }

    /// Whether the pages are read by statements as texts, which have no limits of their own as functions do.
    pub(super) fn sends_texts(&self) -> bool {
        self.found.window.is_some() && !self.is_short
    }

    /// Reads on where the lease's last claim ended, in one statement; `false`: something is parked, nothing was read, and
    /// the claim needs a transaction.
    ///
    /// `is_waiting`: what the look for the window said. Where there is nothing to read, that is all of the
    /// claim.
    pub(super) async fn read_alone(
        &mut self,
        client: &(impl GenericClient + Sync),
        is_waiting: Option<bool>,
    ) -> Result<bool> {
        self.found.parked_had_it = false;
        match is_waiting {
            Some(is_waiting) if self.found.window.is_none() => {
                self.found.has_parked = is_waiting;
                Ok(!is_waiting)
            }
            _ => self.read_unparked(client).await,
        }
    }

    /// Reads on where the lease's last claim ended, in a transaction that has one snapshot.
    pub(super) async fn read(&mut self, tx: &Transaction<'_>) -> Result<()> {
        if !self.lane_is_held(tx).await.map_err(explain)? {
            return Ok(());
        }
        self.found.has_parked = self.waiting;
        self.limit = self.parked_share;
        self.hand_out_due(tx).await.map_err(explain)?;
        self.found.parked_had_it = !self.answer.is_empty();
        self.limit = self.room;
        self.read_window(tx).await
    }

    /// Whether this lease still has the lane.
    async fn lane_is_held(&mut self, client: &(impl GenericClient + Sync)) -> Db<bool> {
        let (lane, run) = (self.cursor.lane(), self.cursor.run.as_str());
        let row = client.query_typed_opt(&self.sql.lane_claim, &args![lane, self.cursor.epoch, run]).await?;
        let Some(row) = row else { return Ok(false) };
        (self.waiting, self.dead, self.now) = (row.try_get(0)?, row.try_get(1)?, rows::time(&row, 2)?);
        Ok(!self.cursor.lock().held.is_broken)
    }

    /// The event with its payload, if there is room for that.
    async fn whole(&self, client: &(impl GenericClient + Sync), row: &Row) -> Db<Option<LogRow>> {
        let mut event = rows::event(row)?;
        let missing = if event.is_long { event.payload_bytes.unwrap_or_default() } else { 0 };
        let weight = event.envelope.weight() + missing;
        if !self.answer.is_empty() && self.bytes + weight > self.limit.bytes {
            return Ok(None);
        }
        if event.is_long
            && let Some(row) = client.query_typed_opt(&self.sql.event_get, &args![vec![event.seq]]).await?
        {
            event = rows::event(&row)?;
        }
        Ok(Some(event))
    }

    fn is_full(&self) -> bool {
        self.answer.len() >= self.limit.events as usize
    }

    fn push(&mut self, event: LogRow, attempt: u32, replay: bool) {
        self.bytes += event.envelope.weight();
        let parcel = Parcel::new(Arc::new(event.envelope), attempt, replay, event.created_at);
        self.answer.push(Claimed::new(Ticket(event.seq), parcel));
    }

    /// Tells the cursor what was found.
    pub(super) fn end(self) -> Answer {
        let mut reading = self.cursor.lock();
        let found = self.found;
        if found.is_new_window
            && let Some(window) = found.window
        {
            reading.open(window);
        }
        for seq in found.taken {
            reading.take(seq);
            if found.spoken_for.contains(&seq) {
                reading.held.is_parked_already(seq);
            }
        }
        reading.done.extend(found.done);
        reading.read_to(found.read);
        if found.is_end {
            reading.end_window();
        }
        reading.has_parked = found.has_parked;
        reading.held.parked_had_it = found.parked_had_it;
        reading.held.claimed(found.parked, found.to_park);
        Answer {
            claimed: self.answer,
            to_park: reading.held.to_park(),
            is_partial: found.is_partial,
            is_end: found.is_end,
        }
    }
}
