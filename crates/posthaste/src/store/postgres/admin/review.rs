//! Looking back: what was changed and by whom, and what events died of.

use posthaste_core::admin::{Actor, Applied, Filter, Page};
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, DeadCodes, DeadGroup, Review};
use posthaste_core::sql::PostgresSql;
use posthaste_core::{BoxFuture, Result};
use tokio_postgres::{Client, Row};

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
            pick(&client, &self.sql, &mut picker).await.map_err(explain)?;
            Ok(picker.picked())
        };
        Box::pin(self.connections.watched(audited))
    }

    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        let codes = async move {
            let filter = DeadCodes::question(filter)?;
            if filter.lane.is_some() {
                self.lane_of(&filter).await?;
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
async fn pick(client: &Client, sql: &PostgresSql, picker: &mut AuditPicker) -> Db<()> {
    loop {
        let rows = client.query_typed(&sql.audit_down, &args![picker.below(), STEP_ENTRIES]).await?;
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
