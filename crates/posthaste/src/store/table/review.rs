//! Looking back at a table: what operators did, and what rows died of.

use posthaste_core::admin::{EventState, Filter, Page};
use posthaste_core::review::{AuditEntry, AuditFilter, AuditPicker, Audited, DeadCodes, Review};
use posthaste_core::{BoxFuture, Error, Result};

use super::driver::Driver;
use super::engine::Table;

impl<D: Driver> Review for Table<D> {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        Box::pin(async move {
            let picker = AuditPicker::new(filter, &page)?;
            if self.driver.record_table().await?.is_none() {
                return Err(Error::rejected(format!(
                    "the database of this outbox table has no table {}audit for a record of commands, which posthaste migrate \
                     print --audit shows; until then it is in the log of whoever gave them",
                    self.prefix
                )));
            }
            self.driver.read_record(picker).await
        })
    }

    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let is_there = self.driver.record_table().await?.is_some();
            if is_there {
                self.driver.write_record(entry.clone()).await?;
            }
            Ok(is_there)
        })
    }

    /// A relay writes the code at the beginning of the error, so that it can be read there.
    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        Box::pin(async move {
            let mut filter = DeadCodes::question(filter)?;
            filter.state = Some(EventState::Dead);
            let (mut records, mut page) = (Vec::new(), Page::first(Page::SIZE_MAX));
            loop {
                let found = self.search(&filter, page.clone()).await?;
                records.extend(found.records);
                page.after = found.next;
                let is_enough = records.len() as i64 >= DeadCodes::EVENTS_MAX;
                if page.after.is_none() || is_enough {
                    return Ok(DeadCodes::of(&filter, &records, page.after.is_some()));
                }
            }
        })
    }
}
