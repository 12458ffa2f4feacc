//! The log between two ticks, a page at a time: first what committed late, then what is new.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use posthaste_core::log::held::ToPark;
use posthaste_core::log::parking::Parking;
use posthaste_core::store::Room;
use posthaste_core::{Error, Result};
use tokio_postgres::{GenericClient, Row, RowStream, Transaction};

use super::super::cursor::Window;
use super::super::error::{Db, explain};
use super::super::rows;
use super::super::value::args;
use super::Claim;

/// How many rows of the log one claim looks at, so that a lane that wants little does not hold up the others.
const SCAN_ROWS_MAX: usize = 20_000;
/// How many rows a page has: few for little room, and never so many that they take much memory.
const PAGE_ROWS_MIN: u32 = 32;
const PAGE_ROWS_MAX: u32 = 1_000;
/// A page of which few events are expected: what a function collects before it answers stays small.
const PAGE_ROWS_FEW: u32 = 100;

/// How many rows the first page has where few events are expected.
pub(in super::super) fn rows_of_a_short_page(room: Room) -> u32 {
    room.events.clamp(PAGE_ROWS_MIN, PAGE_ROWS_FEW)
}

/// What the first row of a page says.
struct About {
    waiting: bool,
    dead: bool,
    /// Something is parked beyond the number to go on after.
    is_parked_beyond: bool,
    has_both_ticks: bool,
    /// Something of the window has a low number although nothing of it should.
    has_stragglers: bool,
}

impl About {
    fn read(row: &Row) -> Db<Option<Self>> {
        let Some(about) = row.try_get::<_, Option<Vec<Option<i64>>>>(rows::MORE)? else { return Ok(None) };
        let number = |index: usize| about.get(index).copied().flatten().unwrap_or_default();
        Ok(Some(Self {
            waiting: number(0) > 0,
            dead: number(1) > 0,
            has_both_ticks: number(2) == 2,
            is_parked_beyond: number(3) > 0,
            has_stragglers: number(4) > 0,
        }))
    }

    /// The page must come from a server that has both ticks: one that lags or lost its last moments would answer too
    /// little, and that would be lost.
    fn check(&self) -> Result<()> {
        if self.has_both_ticks {
            return Ok(());
        }
        Err(Error::unavailable("the server does not have the ticks that were read before"))
    }
}

/// How far a page was taken.
struct Taken {
    /// How many rows it has at most, of what is late and of what is new.
    rows_max: i64,
    late: i64,
    new: i64,
    has_no_room: bool,
}

impl Claim<'_> {
    /// Reads pages while nothing is parked that could matter to them; `false`: something is, and nothing was read.
    pub(super) async fn read_unparked(&mut self, client: &(impl GenericClient + Sync)) -> Result<bool> {
        let Some(window) = self.found.window.clone() else { return Ok(true) };
        let mut scanned = 0;
        while !self.is_full() {
            let mut rows = std::mem::take(&mut self.first_page);
            if rows.is_empty() {
                // The whole page before anything else is asked: an answer waits on its connection for what
                // was asked before it.
                rows = self
                    .page(client, &window)
                    .await
                    .map_err(explain)?
                    .try_collect()
                    .await
                    .map_err(explain)?;
            }
            let mut rows = rows.into_iter();
            let Some(first) = rows.next() else { return Ok(true) };
            // No row about the lane: somebody else has it, and what comes is not for this lease.
            let Some(about) = About::read(&first).map_err(explain)? else { return Ok(true) };
            about.check()?;
            if self.cursor.lock().held.is_broken {
                return Ok(true);
            }
            if about.waiting || about.is_parked_beyond || (about.dead && self.cursor.blocks_on_dead()) {
                // Found with the first page only: between two pages of a claim nobody parks in this lane but operators,
                // and what those park is a replay, which holds no key.
                self.found.has_parked = true;
                return Ok(scanned > 0);
            }
            if about.has_stragglers {
                self.has_stragglers = true;
                continue;
            }
            self.now = rows::time(&first, rows::CREATED_AT).map_err(explain)?;
            let low = window.a.low;
            let mut taken = self.begin_page(rows.len());
            for row in rows {
                if !self.take(client, &row, low, &mut taken).await? {
                    break;
                }
            }
            scanned += usize::try_from(taken.late + taken.new).unwrap_or_default();
            if self.goes_no_further(&taken, scanned, low) {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Reads the window on in a transaction that has one snapshot, and looks for each page what is parked.
    pub(super) async fn read_window(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let Some(window) = self.found.window.clone() else { return Ok(()) };
        let mut scanned = 0;
        while !self.is_full() {
            let rows = self.page(tx, &window).await.map_err(explain)?;
            let mut rows: Vec<Row> = rows.try_collect().await.map_err(explain)?;
            if rows.is_empty() {
                return Ok(());
            }
            let Some(about) = About::read(&rows.remove(0)).map_err(explain)? else { return Ok(()) };
            about.check()?;
            if about.has_stragglers {
                self.has_stragglers = true;
                continue;
            }
            self.found.has_parked =
                about.waiting || about.is_parked_beyond || (about.dead && self.cursor.blocks_on_dead());
            let parked = if about.is_parked_beyond {
                self.parked_among(tx, &rows).await.map_err(explain)?
            } else {
                HashMap::new()
            };
            self.look_up_keys(tx, &rows).await.map_err(explain)?;
            let low = window.a.low;
            let mut taken = self.begin_page(rows.len());
            for row in &rows {
                let seq = row.try_get(0).map_err(explain)?;
                if let Some(is_done) = parked.get(&seq) {
                    // A parked row speaks for it: parked by an earlier lease, beyond a gap that this one reads again.
                    taken.count(seq, low);
                    self.found.read = seq;
                    self.found.taken.push(seq);
                    self.found.spoken_for.insert(seq);
                    self.found.done.extend(is_done.then_some(seq));
                } else if !self.take(tx, row, low, &mut taken).await? {
                    break;
                }
            }
            scanned += rows.len();
            if self.goes_no_further(&taken, scanned, low) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether this page was the last that this claim reads, and whether it ended the window.
    fn goes_no_further(&mut self, taken: &Taken, scanned: usize, low: i64) -> bool {
        if taken.has_no_room {
            return true;
        }
        if taken.late >= taken.rows_max && self.found.read <= low {
            // There may be more that is late; the new part of this page was not used.
            return false;
        }
        if taken.new < taken.rows_max {
            self.found.is_end = true;
            return true;
        }
        self.found.is_partial = scanned >= SCAN_ROWS_MAX;
        self.found.is_partial
    }

    fn page_rows(&self) -> i64 {
        let rows = if self.is_short {
            rows_of_a_short_page(self.room)
        } else {
            self.room.events.clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX)
        };
        i64::from(rows)
    }

    /// A page with this number of events is there; the next one, if there is one, is of the usual length.
    fn begin_page(&mut self, events: usize) -> Taken {
        let taken = Taken::of(self.page_rows());
        self.cursor.rhythm.read(events);
        self.is_short = false;
        taken
    }

    /// Asks for the next page.
    async fn page(&self, client: &(impl GenericClient + Sync), window: &Window) -> Db<RowStream> {
        let (a, b, read, cursor) = (&window.a, &window.b, self.found.read, self.cursor);
        let (lane, run, rows) = (cursor.lane(), cursor.run.as_str(), self.page_rows());
        let left = if read < a.low { a.snapshot.ended_by(&b.snapshot) } else { Vec::new() };
        let (from, to) = (a.snapshot.xmax.to_string(), b.snapshot.xmax.to_string());
        let values = args![
            lane,
            cursor.epoch,
            run,
            a.id,
            a.token,
            b.id,
            b.token,
            a.text,
            b.text,
            read,
            rows,
            a.low,
            from,
            to,
            left,
        ];
        let sql = if self.is_short { self.sql } else { self.plain };
        if read < a.low && (self.has_stragglers || !left.is_empty()) {
            return client.query_typed_raw(&sql.window_begin, values.iter().cloned()).await;
        }
        let values = values.iter().take(values.len() - 1).cloned();
        client.query_typed_raw(&sql.window_page, values).await
    }

    /// Hands out a row or sets it aside; `false`: the rest of the page is not for now.
    async fn take(
        &mut self,
        client: &(impl GenericClient + Sync),
        row: &Row,
        low: i64,
        taken: &mut Taken,
    ) -> Result<bool> {
        let seq: i64 = row.try_get(0).map_err(explain)?;
        if seq <= self.found.read {
            return Err(disorder());
        }
        if seq > low && taken.late >= taken.rows_max {
            return Ok(false);
        }
        if self.wants(row).map_err(explain)? && !self.decide(client, row, seq).await.map_err(explain)? {
            taken.has_no_room = true;
            return Ok(false);
        }
        taken.count(seq, low);
        self.found.read = seq;
        Ok(true)
    }

    /// Which of these have a parked row, and whether they were delivered from it.
    async fn parked_among(&self, tx: &Transaction<'_>, rows: &[Row]) -> Db<HashMap<i64, bool>> {
        let seqs = rows.iter().map(|row| row.try_get(0)).collect::<Db<Vec<i64>>>()?;
        let parked = tx.query_typed(&self.sql.parked_among, &args![self.cursor.lane(), seqs]).await?;
        parked.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
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
    async fn decide(&mut self, client: &(impl GenericClient + Sync), row: &Row, seq: i64) -> Db<bool> {
        if let Some(parking) = self.parking(row, seq)? {
            self.found.taken.push(seq);
            self.found.to_park.push(parking);
            return Ok(true);
        }
        if self.is_full() {
            return Ok(false);
        }
        let Some(event) = self.whole(client, row).await? else { return Ok(false) };
        self.found.taken.push(seq);
        self.push(event, 1, false);
        Ok(true)
    }

    /// How an event of the log is parked; `None`: the claim may hand it out.
    fn parking(&self, row: &Row, seq: i64) -> Db<Option<ToPark>> {
        if rows::maybe_time(row, rows::EXPIRES_AT)?.is_some_and(|at| at <= self.now) {
            return Ok(Some(ToPark::of_log(seq, Parking::Expired)));
        }
        if let Some(at) = rows::maybe_time(row, rows::AVAILABLE_AT)?.filter(|at| *at > self.now) {
            return Ok(Some(ToPark::of_log(seq, Parking::Scheduled { at })));
        }
        if !self.cursor.is_ordered() {
            return Ok(None);
        }
        let Some(key) = row.try_get::<_, Option<&str>>(rows::KEY)? else { return Ok(None) };
        let waits = self.keys_behind.contains_key(key) || self.is_held(key, seq);
        Ok(waits.then(|| ToPark::behind(seq, key.to_owned())))
    }
}

impl Taken {
    fn of(rows_max: i64) -> Self {
        Self { rows_max, late: 0, new: 0, has_no_room: false }
    }

    fn count(&mut self, seq: i64, low: i64) {
        if seq <= low {
            self.late += 1;
        } else {
            self.new += 1;
        }
    }
}

/// Rows that did not come as the statement says.
fn disorder() -> Error {
    Error::unavailable("the server answered a page out of order")
}
