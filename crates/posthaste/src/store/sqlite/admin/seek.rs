//! Moving a lane to another place. Forward in steps, each with a record of what was never read; a relay may take the lane between two
//! of them, and what it delivers then is not skipped.

use posthaste_core::admin::{Applied, Filter, Pace, Seek};
use posthaste_core::lane::LaneName;
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{Result, redact};
use rusqlite::Connection;

use super::apply::write_note;
use super::change::{Step, add_totals};
use super::lanes::{self, KnownLane};
use crate::store::audit::Note;
use crate::store::sqlite::cursor::SHARD;
use crate::store::sqlite::{SqliteStore, log};
use crate::store::totals::Totals;

/// How many numbers of the log one step looks at: what a commit may hold up others for.
const STEP_NUMBERS: i64 = 20_000;

/// Why a lane moves.
#[derive(Clone, Debug)]
enum Why {
    /// Somebody wants it to go on from there: what was delivered beyond that comes again.
    Seek,
    /// What it has not read is too old.
    Skip { reason: String },
}

impl SqliteStore {
    pub(super) async fn seek(
        &self,
        filter: &Filter,
        to: Seek,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        let place = self.read(move |connection, sql| place_of(connection, sql, to)).await?;
        if place > lane.position {
            return self.pass(lane, place, Why::Seek, dry_run, note, pace).await;
        }
        // What is only counted before it is done is not stopped half-way: the lane would move all the same.
        let full = Pace::full();
        let pace = if dry_run { pace } else { &full };
        let counted = self.count_again(lane.clone(), place, note.clone(), pace).await?;
        if dry_run {
            return Ok(counted);
        }
        self.write(move |connection, sql, now| {
            put(connection, sql, &lane.name, place, now)?;
            // What was delivered beyond the old place is nothing special any more: what lies beyond the new one comes.
            connection.prepare_cached(&sql.done_forget)?.execute((lane.name.as_str(), i64::MAX))?;
            let applied = Applied::new(counted.matched, counted.matched);
            write_note(&note, connection, sql, applied, now)?;
            Ok(applied)
        })
        .await
    }

    pub(super) async fn skip(
        &self,
        filter: &Filter,
        before: Timestamp,
        reason: String,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        let place = self.read(move |connection, sql| log::before(connection, sql, before)).await?;
        self.pass(lane, place, Why::Skip { reason }, dry_run, note, pace).await
    }

    /// Moves the lane forward, or counts what it would pass unread.
    async fn pass(
        &self,
        lane: KnownLane,
        place: i64,
        why: Why,
        dry_run: bool,
        note: Note,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        self.in_steps(dry_run, lane.position, note, pace, move |connection, sql, from, now| match now {
            Some(now) => pass_step(connection, sql, &lane.name, place, &why, now),
            None => {
                let end = from.saturating_add(STEP_NUMBERS).min(place);
                let mut matched = unread(connection, sql, &lane, from, end)?;
                if end >= place && matches!(why, Why::Seek) {
                    matched += done_beyond(connection, sql, &lane.name, place)?;
                }
                Ok(Step { matched, changed: 0, next: (end < place).then_some(end) })
            }
        })
        .await
    }

    /// How much of what the lane wants comes again if it goes back.
    async fn count_again(&self, lane: KnownLane, place: i64, note: Note, pace: &Pace<'_>) -> Result<Applied> {
        self.in_steps(true, place, note, pace, move |connection, sql, from, _| {
            let end = from.saturating_add(STEP_NUMBERS).min(lane.position);
            let mut matched = unread(connection, sql, &lane, from, end)?;
            if end >= lane.position {
                matched += done_beyond(connection, sql, &lane.name, place)?;
            }
            Ok(Step { matched, changed: 0, next: (end < lane.position).then_some(end) })
        })
        .await
    }
}

/// Moves the lane on by a part of the way from where it is now; not at all if it is further already.
fn pass_step(
    connection: &Connection,
    sql: &SqliteSql,
    name: &LaneName,
    place: i64,
    why: &Why,
    now: Timestamp,
) -> rusqlite::Result<Step> {
    let known = lanes::known(connection, sql)?;
    let Some(lane) = known.iter().find(|known| known.name == *name && known.position < place) else {
        return Ok(Step { matched: 0, changed: 0, next: None });
    };
    let end = lane.position.saturating_add(STEP_NUMBERS).min(place);
    let skipped = unread(connection, sql, lane, lane.position, end)?;
    put(connection, sql, name, end, now)?;
    let count = i64::try_from(skipped).unwrap_or(i64::MAX);
    let totals = Totals { accepted: count, discarded: count, ..Totals::default() };
    add_totals(connection, sql, name.as_str(), totals, now)?;
    let (mut matched, mut forget) = (skipped, end);
    match why {
        Why::Seek if end == place => {
            matched += done_beyond(connection, sql, name, place)?;
            forget = i64::MAX;
        }
        Why::Seek => {}
        Why::Skip { reason } => {
            let values = (name.as_str(), SHARD, redact::clean(reason));
            connection.prepare_cached(&sql.lane_reason)?.execute(values)?;
        }
    }
    connection.prepare_cached(&sql.done_forget)?.execute((name.as_str(), forget))?;
    Ok(Step { matched, changed: matched, next: (end < place).then_some(end) })
}

/// Puts the lane there and ends its lease.
fn put(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    place: i64,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let values = (lane.as_str(), SHARD, place, now.as_micros());
    connection.prepare_cached(&sql.lane_seek)?.execute(values).map(drop)
}

/// How many events of a stretch the lane wants and has not parked.
fn unread(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &KnownLane,
    after: i64,
    last: i64,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(&sql.stretch_count)?;
    let mut rows = statement.query((lane.name.as_str(), after, last))?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if lane.spec.wants(&row.get::<_, String>(0)?) {
            count += row.get::<_, i64>(1)?.unsigned_abs();
        }
    }
    Ok(count)
}

/// How much was delivered from its row beyond a place, and comes again if the rows go.
fn done_beyond(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    place: i64,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(&sql.done_count)?;
    let count: i64 = statement.query_row((lane.as_str(), place), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn place_of(connection: &Connection, sql: &SqliteSql, to: Seek) -> rusqlite::Result<i64> {
    match to {
        Seek::Beginning => log::before_first(connection, sql),
        Seek::Time(time) => log::before(connection, sql, time),
        _ => log::last(connection, sql),
    }
}
