//! Moving a lane past what is too old, with a record of what it never read.

use posthaste_core::admin::{Applied, Filter};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{Result, redact};
use rusqlite::Connection;

use super::apply::write_note;
use super::change::add_totals;
use super::lanes::{self, KnownLane};
use crate::store::audit::Note;
use crate::store::sqlite::cursor::SHARD;
use crate::store::sqlite::{SqliteStore, log};
use crate::store::totals::Totals;

impl SqliteStore {
    pub(super) async fn skip(
        &self,
        filter: &Filter,
        before: Timestamp,
        reason: String,
        dry_run: bool,
        note: Note,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        if dry_run {
            let skipped =
                self.read(move |connection, sql| Ok(unread(connection, sql, &lane, before)?.1)).await?;
            return Ok(Applied::new(skipped, 0));
        }
        self.write(move |connection, sql, now| {
            // Read again: it may have moved since.
            let known = lanes::known(connection, sql)?;
            let Some(lane) = known.iter().find(|known| known.name == lane.name) else {
                return Ok(Applied::default());
            };
            let (place, skipped) = unread(connection, sql, lane, before)?;
            let applied = Applied::new(skipped, skipped);
            if place > lane.position {
                let name = lane.name.as_str();
                let values = (name, SHARD, place, now.as_micros());
                connection.prepare_cached(&sql.lane_seek)?.execute(values)?;
                connection.prepare_cached(&sql.done_forget)?.execute((name, place))?;
                connection.prepare_cached(&sql.lane_reason)?.execute((
                    name,
                    SHARD,
                    redact::clean(&reason),
                ))?;
                let count = i64::try_from(skipped).unwrap_or(i64::MAX);
                let totals = Totals { accepted: count, discarded: count, ..Totals::default() };
                add_totals(connection, sql, name, totals, now)?;
            }
            write_note(&note, connection, sql, applied, now)?;
            Ok(applied)
        })
        .await
    }
}

/// The place before this time, and how many events that the lane wants lie between its own and that.
fn unread(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &KnownLane,
    before: Timestamp,
) -> rusqlite::Result<(i64, u64)> {
    let place = log::before(connection, sql, before)?;
    let mut statement = connection.prepare_cached(&sql.skip_count)?;
    let mut rows = statement.query((lane.name.as_str(), lane.position, place))?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if lane.spec.wants(&row.get::<_, String>(0)?) {
            count += row.get::<_, i64>(1)?.unsigned_abs();
        }
    }
    Ok((place, count))
}
