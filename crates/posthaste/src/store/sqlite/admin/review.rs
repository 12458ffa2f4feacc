//! Looking back: what was changed and by whom, and what events died of.

use posthaste_core::admin::{Actor, Applied, Filter, Page};
use posthaste_core::lane::LaneName;
use posthaste_core::log::question::KnownLane;
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, DeadCodes, DeadGroup, Review};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Result};
use rusqlite::{Connection, Row};

use super::driver::UpTo;
use super::lanes;
use crate::store::log::command::lane_of;
use crate::store::sqlite::{SqliteStore, rows};

impl Review for SqliteStore {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        Box::pin(async move {
            let mut picker = AuditPicker::new(filter, &page)?;
            self.read(move |connection, sql| {
                pick(connection, &sql.audit_down, &mut picker)?;
                Ok(picker.picked())
            })
            .await
        })
    }

    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let entry = entry.clone();
            self.write(move |connection, sql, now| {
                insert_entry(connection, &sql.audit_insert, &entry, now).map(|()| true)
            })
            .await
        })
    }

    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        Box::pin(async move {
            let filter = DeadCodes::question(filter)?;
            if filter.lane.is_some() {
                lane_of(self, &filter).await?;
            }
            self.read(move |connection, sql| {
                let mut codes = DeadCodes::default();
                let is_meant =
                    |lane: &KnownLane<UpTo>| filter.lane.as_ref().is_none_or(|name| *name == lane.name);
                for lane in lanes::known(connection, sql)?.into_iter().filter(is_meant) {
                    add_groups(connection, sql, &lane.name, &filter, &mut codes)?;
                }
                codes.groups.sort_by_key(|group| std::cmp::Reverse(group.events));
                codes.groups.truncate(DeadCodes::GROUPS_MAX as usize);
                Ok(codes)
            })
            .await
        })
    }
}

/// Shows the record to the picker until that has seen enough.
pub(in crate::store::sqlite) fn pick(
    connection: &Connection,
    down: &str,
    picker: &mut AuditPicker,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(down)?;
    let mut all = statement.query([picker.below()])?;
    while let Some(row) = all.next()? {
        if picker.see(entry(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Writes a record.
pub(in crate::store::sqlite) fn insert_entry(
    connection: &Connection,
    text: &str,
    entry: &AuditEntry,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let AuditEntry { actor, command, filter, applied, .. } = entry;
    let (matched, changed) = (count(applied.matched), count(applied.changed));
    let values = (now.as_micros(), &actor.name, &actor.via, command, filter, matched, changed);
    connection.prepare_cached(text)?.execute(values).map(drop)
}

/// Adds what this lane's events died of.
fn add_groups(
    connection: &Connection,
    sql: &SqliteSql,
    lane: &LaneName,
    filter: &Filter,
    codes: &mut DeadCodes,
) -> rusqlite::Result<()> {
    let limits = (DeadCodes::EVENTS_MAX, DeadCodes::GROUPS_MAX);
    let mut statement = connection.prepare_cached(&sql.dead_codes)?;
    let mut all = statement.query((lane.as_str(), &filter.code, &filter.error, limits.0, limits.1))?;
    while let Some(row) = all.next()? {
        codes.is_partial |= row.get::<_, bool>(0)?;
        let Some(events) = row.get::<_, Option<i64>>(2)? else { continue };
        let times = (rows::time(row, 3)?, rows::time(row, 4)?);
        let mut group = DeadGroup::new(lane.clone(), rows::maybe_text(row, 1)?, times.0, times.1);
        group.events = events.unsigned_abs();
        group.example = rows::maybe_text(row, 5)?.unwrap_or_default();
        group.error = rows::maybe_text(row, 6)?;
        codes.groups.push(group);
    }
    Ok(())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0).unsigned_abs());
    let actor = Actor::new(rows::text(row, 2)?, rows::text(row, 3)?);
    let applied = Applied::new(count(6)?, count(7)?);
    let (command, filter) = (rows::text(row, 4)?, rows::text(row, 5)?);
    Ok(AuditEntry::new(row.get(0)?, rows::time(row, 1)?, actor, command, filter, applied))
}
