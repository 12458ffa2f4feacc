//! The operator's side: looking, and commands, each in small steps and with a record of who gave it.

mod change;
mod driver;
mod find;
mod inbox;
mod lanes;
mod prune;
mod rebase;
mod remove;
pub(super) mod review;
mod scan;
mod seek;
mod views;

use posthaste_core::admin::{Actor, Admin, Applied, Command, Filter, Found, Lanes, Pace, Page};
use posthaste_core::{BoxFuture, Result};

use super::error::explain;
use super::{PostgresStore, begin_looking, commit};
use crate::store::log::command::carry_out;

impl Admin for PostgresStore {
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        Box::pin(async move {
            let stats = async {
                let mut client = self.client().await?;
                // In a transaction for its limits: the sequence may be locked.
                let tx = begin_looking(&mut client).await?;
                let stats = lanes::stats(tx.client(), &self.sql, &page).await.map_err(explain)?;
                commit(tx).await?;
                Ok(stats)
            };
            self.connections.watched(stats).await
        })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        let found = async move {
            let below = find::below(&page)?;
            let mut client = self.client().await?;
            let tx = begin_looking(&mut client).await?;
            let found = find::find(tx.client(), &self.sql, filter, &page, below).await.map_err(explain)?;
            commit(tx).await?;
            found
        };
        Box::pin(self.connections.watched(found))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(async move {
            // A rebase rewrites the whole log in one statement, which gives no sign of life before it ends.
            let applied = match command {
                Command::Rebase { .. } => carry_out(self, filter, command, by, pace).await?,
                command => self.connections.watched(carry_out(self, filter, command, by, pace)).await?,
            };
            // What was redriven, replayed or resumed is work.
            self.signal.ring();
            Ok(applied)
        })
    }
}
