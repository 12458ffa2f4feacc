//! Looking back: what was changed, and by whom.

use posthaste_core::admin::{Actor, Applied, Page};
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, Review};
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
