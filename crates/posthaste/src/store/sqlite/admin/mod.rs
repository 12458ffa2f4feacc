//! The operator's side: looking, and commands, each in small steps and with a record of who gave it.

mod change;
mod driver;
mod find;
mod inbox;
mod lanes;
mod prune;
mod remove;
pub(super) mod review;
mod scan;
mod seek;
mod views;

use posthaste_core::admin::{Actor, Admin, Applied, Command, Filter, Found, Lanes, Pace, Page};
use posthaste_core::{BoxFuture, Result};

use super::SqliteStore;
use crate::store::log::command::carry_out;

impl Admin for SqliteStore {
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        let clock = std::sync::Arc::clone(&self.clock);
        Box::pin(self.read(move |connection, sql| lanes::stats(connection, sql, &page, clock.now())))
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(async move {
            let below = find::below(&page)?;
            let filter = filter.clone();
            self.read(move |connection, sql| find::find(connection, sql, &filter, &page, below)).await?
        })
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move {
            let applied = carry_out(self, filter, command, by, pace).await?;
            // What was redriven, replayed or resumed is work.
            self.signal.ring();
            Ok(applied)
        })
    }
}
