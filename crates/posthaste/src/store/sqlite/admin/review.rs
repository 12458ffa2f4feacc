//! Looking back: what was changed, and by whom.

use posthaste_core::admin::{Actor, Applied, Page};
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, Review};
use posthaste_core::{BoxFuture, Result};
use rusqlite::Row;

use crate::store::sqlite::{SqliteStore, rows};

impl Review for SqliteStore {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        Box::pin(async move {
            let mut picker = AuditPicker::new(filter, &page)?;
            self.read(move |connection, sql| {
                let mut statement = connection.prepare_cached(&sql.audit_down)?;
                let mut all = statement.query([picker.below()])?;
                while let Some(row) = all.next()? {
                    if picker.see(entry(row)?).is_break() {
                        break;
                    }
                }
                Ok(picker.picked())
            })
            .await
        })
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0).unsigned_abs());
    let actor = Actor::new(rows::text(row, 2)?, rows::text(row, 3)?);
    let applied = Applied::new(count(6)?, count(7)?);
    let (command, filter) = (rows::text(row, 4)?, rows::text(row, 5)?);
    Ok(AuditEntry::new(row.get(0)?, rows::time(row, 1)?, actor, command, filter, applied))
}
