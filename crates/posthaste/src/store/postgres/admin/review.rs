//! Looking back: what was changed and by whom, and what events died of.

use posthaste_core::admin::{Actor, Applied, Filter, Page};
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, DeadCodes, DeadGroup, Review};
use posthaste_core::{BoxFuture, Result};
use tokio_postgres::{Client, Row};

use crate::store::log::command::lane_of;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::rows;
use crate::store::postgres::value::args;

/// How many records are read together.
const STEP_ENTRIES: i64 = 500;

impl Review for PostgresStore {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        let audited = async move {
            let mut picker = AuditPicker::new(filter, &page)?;
            let client = self.client().await?;
            pick(&client, &self.sql.audit_down, &mut picker).await.map_err(explain)?;
            Ok(picker.picked())
        };
        Box::pin(self.connections.watched(audited))
    }

    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        let recorded = async move {
            let client = self.client().await?;
            insert_entry(&client, &self.sql.audit_insert, entry).await.map_err(explain)?;
            Ok(true)
        };
        Box::pin(self.connections.watched(recorded))
    }

    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        let codes = async move {
            let filter = DeadCodes::question(filter)?;
            if filter.lane.is_some() {
                lane_of(self, &filter).await?;
            }
            let lane = filter.lane.as_ref().map(|lane| lane.as_str().to_owned());
            let values = args![lane, filter.code, filter.error, DeadCodes::EVENTS_MAX, DeadCodes::GROUPS_MAX];
            let client = self.client().await?;
            let rows = client.query_typed(&self.sql.dead_codes, &values).await.map_err(explain)?;
            let mut codes = DeadCodes::default();
            for row in &rows {
                codes.is_partial = row.try_get(0).map_err(explain)?;
                codes.groups.extend(group(row).map_err(explain)?);
            }
            Ok(codes)
        };
        Box::pin(self.connections.watched(codes))
    }
}

/// Writes a record.
pub(in crate::store::postgres) async fn insert_entry(
    client: &Client,
    text: &str,
    entry: &AuditEntry,
) -> Db<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let AuditEntry { actor, command, filter, applied, .. } = entry;
    let (matched, changed) = (count(applied.matched), count(applied.changed));
    let values = args![actor.name, actor.via, *command, *filter, matched, changed];
    client.execute_typed(text, &values).await.map(drop)
}

/// A group; `None` where there is none.
fn group(row: &Row) -> Db<Option<DeadGroup>> {
    // A name that no lane can have was not written by us.
    let Some(Ok(lane)) = row.try_get::<_, Option<&str>>(1)?.map(str::parse) else { return Ok(None) };
    let mut group = DeadGroup::new(lane, row.try_get(2)?, rows::time(row, 4)?, rows::time(row, 5)?);
    group.events = row.try_get::<_, i64>(3)?.unsigned_abs();
    group.example = row.try_get::<_, Option<String>>(6)?.unwrap_or_default();
    group.error = row.try_get(7)?;
    Ok(Some(group))
}

/// Shows the record to the picker until that has seen enough.
pub(in crate::store::postgres) async fn pick(
    client: &Client,
    down: &str,
    picker: &mut AuditPicker,
) -> Db<()> {
    loop {
        let rows = client.query_typed(down, &args![picker.below(), STEP_ENTRIES]).await?;
        for row in &rows {
            if picker.see(entry(row)?).is_break() {
                return Ok(());
            }
        }
        if rows.len() as i64 != STEP_ENTRIES {
            return Ok(());
        }
    }
}

fn entry(row: &Row) -> Db<AuditEntry> {
    let count = |column: usize| row.try_get::<_, i64>(column).map(|count| count.max(0).unsigned_abs());
    let actor = Actor::new(row.try_get::<_, String>(2)?, row.try_get::<_, String>(3)?);
    let (command, filter): (String, String) = (row.try_get(4)?, row.try_get(5)?);
    let applied = Applied::new(count(6)?, count(7)?);
    Ok(AuditEntry::new(row.try_get(0)?, rows::time(row, 1)?, actor, command, filter, applied))
}
