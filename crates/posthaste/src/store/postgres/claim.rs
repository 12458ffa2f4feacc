//! Handing out: due parked events first, then the log between two ticks, all from one snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posthaste_core::sql::PostgresSql;
use posthaste_core::store::{Claimed, Parcel, Room, Ticket};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};
use tokio_postgres::{Row, Transaction};

use super::cursor::{Cursor, SHARD, ToPark, Why, Window};
use super::error::{Db, explain};
use super::rows::{self, LogRow};
use super::value::args;

/// How many rows of the log one claim looks at, so that a lane that wants little does not hold up the others.
const SCAN_ROWS_MAX: usize = 20_000;
/// How many rows a page has: few for little room, and never so many that they take much memory.
const PAGE_ROWS_MIN: u32 = 32;
const PAGE_ROWS_MAX: u32 = 1_000;

/// What a claim found.
pub(super) struct Answer {
    pub(super) claimed: Vec<Claimed>,
    /// How much waits for the next settle to be recorded.
    pub(super) to_park: usize,
    /// It stopped although there is more of the log.
    pub(super) is_partial: bool,
}

/// One claim, from what the cursor knows before its snapshot begins to what it is told at the end.
pub(super) struct Claim<'a> {
    sql: &'a PostgresSql,
    cursor: &'a Cursor,
    now: Timestamp,
    room: Room,
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
struct Found {
    /// The window that is read, where it was read up to, and whether that is its end.
    window: Option<Arc<Window>>,
    is_new_window: bool,
    read: i64,
    is_end: bool,
    /// Events of the log that were handed out or set aside, in order.
    taken: Vec<i64>,
    /// Parked events that were handed out or found expired.
    parked: HashSet<i64>,
    to_park: Vec<ToPark>,
    parked_had_it: bool,
    is_partial: bool,
}

/// What became of one parked event.
#[derive(PartialEq, Eq)]
enum Handed {
    Yes,
    /// It expired.
    Not,
    NoRoom,
}

impl<'a> Claim<'a> {
    /// Copies what the cursor knows; `next`: a window that begins where the last one ended.
    pub(super) fn begin(
        sql: &'a PostgresSql,
        cursor: &'a Cursor,
        room: Room,
        next: Option<Arc<Window>>,
    ) -> Self {
        let reading = cursor.lock();
        let parked_share = match room.events {
            1 => u32::from(!reading.parked_had_it),
            events => events / 2,
        };
        let is_new_window = next.is_some();
        let (window, read) = match next {
            Some(window) => (Some(window), 0),
            None => reading.window().map_or((None, 0), |(window, read)| (Some(window), read)),
        };
        Self {
            sql,
            cursor,
            now: Timestamp::default(),
            room,
            limit: Room { events: parked_share, bytes: room.bytes / 2 },
            waiting: false,
            dead: false,
            out: Arc::clone(&reading.out),
            keys_behind: Arc::clone(&reading.keys_behind),
            keys_held: HashMap::new(),
            answer: Vec::new(),
            bytes: 0,
            found: Found {
                window,
                is_new_window,
                read,
                is_end: false,
                taken: Vec::new(),
                parked: HashSet::new(),
                to_park: Vec::new(),
                parked_had_it: reading.parked_had_it,
                is_partial: false,
            },
        }
    }

    /// Reads on where the lease's last claim ended, in a transaction that has one snapshot.
    pub(super) async fn read(&mut self, tx: &Transaction<'_>) -> Result<()> {
        if !self.lane_is_held(tx).await? {
            return Ok(());
        }
        self.hand_out_due(tx).await.map_err(explain)?;
        self.found.parked_had_it = !self.answer.is_empty();
        self.limit = self.room;
        self.read_window(tx).await.map_err(explain)
    }

    /// Whether this lease still has the lane. The page must come from a server that has both ticks: one that lags or lost
    /// its last moments would answer too little, and that would be lost.
    async fn lane_is_held(&mut self, tx: &Transaction<'_>) -> Result<bool> {
        let (ids, tokens): (Vec<i64>, Vec<String>) = match &self.found.window {
            Some(window) => {
                [&window.a, &window.b].map(|tick| (tick.id, tick.token.clone())).into_iter().unzip()
            }
            None => (Vec::new(), Vec::new()),
        };
        let wanted = ids.len() as i64;
        let (lane, run) = (self.cursor.lane(), self.cursor.run.as_str());
        let row = tx
            .query_typed_opt(&self.sql.lane_claim, &args![lane, SHARD, self.cursor.epoch, run, ids, tokens])
            .await
            .map_err(explain)?;
        let Some(row) = row else { return Ok(false) };
        let read = || -> Db<_> {
            Ok((row.try_get(0)?, row.try_get(1)?, rows::time(&row, 2)?, row.try_get::<_, i64>(3)?))
        };
        let (waiting, dead, now, there) = read().map_err(explain)?;
        if there != wanted {
            return Err(Error::unavailable("the server does not have the ticks that were read before"));
        }
        (self.waiting, self.dead, self.now) = (waiting, dead, now);
        Ok(!self.cursor.lock().is_broken)
    }

    // Parked events.

    async fn hand_out_due(&mut self, tx: &Transaction<'_>) -> Db<()> {
        if !self.waiting || self.limit.events == 0 {
            return Ok(());
        }
        let out: Vec<i64> = self.out.iter().copied().collect();
        let (lane, limit) = (self.cursor.lane(), i64::from(self.limit.events.min(PAGE_ROWS_MAX)));
        let due = tx
            .query_typed(&self.sql.due, &args![lane, SHARD, super::value::Stamp(self.now), out, limit])
            .await?;
        self.look_up_keys(tx, &due).await?;
        for row in &due {
            let seq: i64 = row.try_get(0)?;
            if self.is_out(seq) {
                continue;
            }
            if self.hand_out_parked(tx, row).await? == Handed::NoRoom {
                return Ok(());
            }
            if let Some(key) = self.heads(row)?
                && self.followers(tx, seq, &key).await? == Handed::NoRoom
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_out(&self, seq: i64) -> bool {
        self.out.contains(&seq) || self.found.parked.contains(&seq)
    }

    async fn hand_out_parked(&mut self, tx: &Transaction<'_>, row: &Row) -> Db<Handed> {
        let seq: i64 = row.try_get(0)?;
        if rows::maybe_time(row, rows::EXPIRES_AT)?.is_some_and(|at| at <= self.now) {
            self.found.parked.insert(seq);
            self.found.to_park.push(ToPark { seq, why: Why::Expired, is_parked: true });
            return Ok(Handed::Not);
        }
        let attempts: i64 = row.try_get(rows::MORE + 1)?;
        let replay = row.try_get(rows::MORE + 2)?;
        if self.is_full() {
            return Ok(Handed::NoRoom);
        }
        let Some(event) = self.whole(tx, row).await? else { return Ok(Handed::NoRoom) };
        self.found.parked.insert(seq);
        self.push(event, u32::try_from(attempts).unwrap_or(u32::MAX).saturating_add(1), replay);
        Ok(Handed::Yes)
    }

    /// The key that this parked event is the first of, so that what waits behind it may come along.
    fn heads(&self, row: &Row) -> Db<Option<String>> {
        let Some(key) = row.try_get::<_, Option<String>>(rows::KEY)? else { return Ok(None) };
        let (seq, state): (i64, &str) = (row.try_get(0)?, row.try_get(rows::MORE)?);
        let replay: bool = row.try_get(rows::MORE + 2)?;
        let heads = self.cursor.is_ordered() && !replay && state != "scheduled" && !self.is_held(&key, seq);
        Ok(heads.then_some(key))
    }

    /// Hands out what waits right behind a head, in order: a long queue of one key drains at speed when it comes out
    /// together. The relay never has two events of one key in flight, and puts the rest behind again if the head fails.
    async fn followers(&mut self, tx: &Transaction<'_>, head: i64, key: &str) -> Db<Handed> {
        let left = i64::from(self.limit.events) - self.answer.len() as i64;
        if left <= 0 {
            return Ok(Handed::NoRoom);
        }
        let (lane, blocks) = (self.cursor.lane(), self.cursor.blocks_on_dead() && self.dead);
        let limit = left.min(i64::from(PAGE_ROWS_MAX));
        let behind =
            tx.query_typed(&self.sql.followers, &args![lane, SHARD, key, head, blocks, limit]).await?;
        for row in &behind {
            if row.try_get::<_, &str>(rows::MORE)? != "behind" || self.is_out(row.try_get(0)?) {
                break;
            }
            if self.hand_out_parked(tx, row).await? == Handed::NoRoom {
                return Ok(Handed::NoRoom);
            }
        }
        Ok(Handed::Yes)
    }

    /// Looks up what holds the keys of these rows. Asks nothing while the lane has nothing parked, and each key once.
    async fn look_up_keys(&mut self, tx: &Transaction<'_>, rows: &[Row]) -> Db<()> {
        let asks_dead = self.dead && self.cursor.blocks_on_dead();
        if !self.cursor.is_ordered() || (!self.waiting && !asks_dead) {
            return Ok(());
        }
        let mut keys: Vec<String> = Vec::new();
        for row in rows {
            if let Some(key) = row.try_get::<_, Option<&str>>(rows::KEY)?
                && !self.keys_held.contains_key(key)
            {
                self.keys_held.insert(key.to_owned(), i64::MAX);
                keys.push(key.to_owned());
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        for row in
            tx.query_typed(&self.sql.keys_first, &args![self.cursor.lane(), SHARD, keys, asks_dead]).await?
        {
            self.keys_held.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(())
    }

    /// Whether an event of this key before this one is parked in a way that makes it wait.
    fn is_held(&self, key: &str, seq: i64) -> bool {
        self.keys_held.get(key).is_some_and(|&first| first < seq)
    }

    // The log.

    /// Reads the window on, a page at a time: first what committed late, then what is new.
    async fn read_window(&mut self, tx: &Transaction<'_>) -> Db<()> {
        let Some(window) = self.found.window.clone() else { return Ok(()) };
        let mut is_late = self.found.read < window.a.low;
        let mut scanned = 0;
        while !self.is_full() {
            if scanned >= SCAN_ROWS_MAX {
                self.found.is_partial = true;
                return Ok(());
            }
            let page =
                if is_late { self.late_page(tx, &window).await? } else { self.new_page(tx, &window).await? };
            scanned += page.len();
            if !self.take_page(tx, &page).await? {
                return Ok(());
            }
            if (page.len() as i64) < self.page_rows() {
                if !is_late {
                    self.found.is_end = true;
                    return Ok(());
                }
                is_late = false;
            }
        }
        Ok(())
    }

    fn page_rows(&self) -> i64 {
        i64::from(self.room.events.clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX))
    }

    async fn late_page(&self, tx: &Transaction<'_>, window: &Window) -> Db<Vec<Row>> {
        let (a, b) = (&window.a, &window.b);
        let left = a.snapshot.ended_by(&b.snapshot);
        let (from, to) = (a.snapshot.xmax.to_string(), b.snapshot.xmax.to_string());
        tx.query_typed(
            &self.sql.window_late,
            &args![left, a.low, self.found.read, from, to, b.text, self.page_rows(), self.cursor.lane()],
        )
        .await
    }

    async fn new_page(&self, tx: &Transaction<'_>, window: &Window) -> Db<Vec<Row>> {
        let (a, b) = (&window.a, &window.b);
        let after = self.found.read.max(a.low);
        tx.query_typed(
            &self.sql.window_new,
            &args![a.text, b.text, after, self.page_rows(), self.cursor.lane()],
        )
        .await
    }

    /// Hands out a page or sets it aside; `false`: there was no room for all of it.
    async fn take_page(&mut self, tx: &Transaction<'_>, page: &[Row]) -> Db<bool> {
        self.look_up_keys(tx, page).await?;
        for row in page {
            let seq: i64 = row.try_get(0)?;
            // A parked row speaks for it: parked by an earlier lease, beyond a gap that this one reads again.
            let is_unwanted = row.try_get(rows::MORE)? || !self.wants(row)?;
            if !is_unwanted && !self.decide(tx, row, seq).await? {
                return Ok(false);
            }
            self.found.read = seq;
        }
        Ok(true)
    }

    fn wants(&self, row: &Row) -> Db<bool> {
        let topic: Option<&str> = row.try_get(rows::TOPIC)?;
        let topic = match topic {
            Some(topic) => topic,
            None => row.try_get(rows::EVENT_TYPE)?,
        };
        Ok(self.cursor.spec.wants(topic))
    }

    /// Hands out one event of the log, or sets it aside; `false`: there is no room for it.
    async fn decide(&mut self, tx: &Transaction<'_>, row: &Row, seq: i64) -> Db<bool> {
        if let Some(why) = self.reason_to_park(row, seq)? {
            self.found.taken.push(seq);
            self.found.to_park.push(ToPark { seq, why, is_parked: false });
            return Ok(true);
        }
        if self.is_full() {
            return Ok(false);
        }
        let Some(event) = self.whole(tx, row).await? else { return Ok(false) };
        self.found.taken.push(seq);
        self.push(event, 1, false);
        Ok(true)
    }

    fn reason_to_park(&self, row: &Row, seq: i64) -> Db<Option<Why>> {
        if rows::maybe_time(row, rows::EXPIRES_AT)?.is_some_and(|at| at <= self.now) {
            return Ok(Some(Why::Expired));
        }
        if let Some(at) = rows::maybe_time(row, rows::AVAILABLE_AT)?.filter(|at| *at > self.now) {
            return Ok(Some(Why::Scheduled { at }));
        }
        if !self.cursor.is_ordered() {
            return Ok(None);
        }
        let Some(key) = row.try_get::<_, Option<&str>>(rows::KEY)? else { return Ok(None) };
        let waits = self.keys_behind.contains_key(key) || self.is_held(key, seq);
        Ok(waits.then(|| Why::Behind { key: key.to_owned() }))
    }

    // The answer.

    /// The event with its payload, if there is room for that.
    async fn whole(&self, tx: &Transaction<'_>, row: &Row) -> Db<Option<LogRow>> {
        let mut event = rows::event(row)?;
        let missing = if event.is_long { event.payload_bytes.unwrap_or_default() } else { 0 };
        let weight = event.envelope.weight() + missing;
        if !self.answer.is_empty() && self.bytes + weight > self.limit.bytes {
            return Ok(None);
        }
        if event.is_long
            && let Some(row) = tx.query_typed_opt(&self.sql.event_get, &args![vec![event.seq]]).await?
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
        found.taken.into_iter().for_each(|seq| reading.take(seq));
        reading.read_to(found.read);
        if found.is_end {
            reading.end_window();
        }
        reading.parked_had_it = found.parked_had_it;
        if !found.parked.is_empty() {
            Arc::make_mut(&mut reading.out).extend(found.parked);
        }
        for parking in &found.to_park {
            if let Why::Behind { key } = &parking.why {
                *Arc::make_mut(&mut reading.keys_behind).entry(key.clone()).or_default() += 1;
            }
        }
        reading.to_park.extend(found.to_park);
        Answer { claimed: self.answer, to_park: reading.to_park.len(), is_partial: found.is_partial }
    }
}
