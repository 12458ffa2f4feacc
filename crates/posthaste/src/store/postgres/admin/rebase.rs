//! A database that was moved becomes this server's own.
//!
//! A dump, a copy and pg_upgrade keep the ids of transactions as numbers in rows; on another server (or in another
//! database) these numbers mean other transactions, and what a tick sees is not what was delivered. So every event gets an
//! id of this server, the ticks begin anew, and what not every lane has passed comes again. Nothing is skipped.

use posthaste_core::admin::{Applied, Filter};
use posthaste_core::{Error, Result};
use tokio_postgres::Transaction;

use super::apply::insert_note;
use crate::store::audit::Note;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, check, commit};

/// It takes as long as the log is; but producers that stay open are not waited for without end.
const PATIENCE: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'";

impl PostgresStore {
    pub(super) async fn rebase(
        &self,
        filter: &Filter,
        upgraded: bool,
        dry_run: bool,
        note: Note,
    ) -> Result<Applied> {
        if filter.lane.is_some() {
            return Err(Error::rejected("a rebase is about all lanes: they share the log that was moved"));
        }
        let mut client = self.client().await?;
        if check::moved(&client, &self.sql, self.prefix.as_str()).await?.is_none() {
            return Err(Error::rejected("this database is where it was filled; there is nothing to rebase"));
        }
        let tx = begin(&mut client).await?;
        let counted = if upgraded {
            self.stay_as_upgraded(&tx).await?
        } else if dry_run {
            count(&tx, &self.sql.rebase_count).await.map_err(explain)?
        } else {
            self.move_in(&tx).await.map_err(explain)?
        };
        if dry_run {
            // Nothing was changed, and nothing is kept.
            tx.rollback().await.map_err(explain)?;
            return Ok(Applied::new(counted, 0));
        }
        tx.execute_typed(&self.sql.rebase_done, &[]).await.map_err(explain)?;
        let applied = Applied::new(counted, counted);
        insert_note(tx.client(), &self.sql.audit_insert, &note, applied).await.map_err(explain)?;
        commit(tx).await?;
        Ok(applied)
    }

    /// Nothing has to change if every id was given before: pg_upgrade carries the counter of ids over.
    async fn stay_as_upgraded(&self, tx: &Transaction<'_>) -> Result<u64> {
        let row = tx.query_typed_one(&self.sql.server_check, &[]).await.map_err(explain)?;
        if row.try_get::<_, Option<bool>>("has_foreign_ids").map_err(explain)? == Some(true) {
            return Err(Error::rejected(
                "this database holds ids of transactions that this server has not given yet, so it was not upgraded by \
                 pg_upgrade; run `posthaste lane rebase --yes`",
            ));
        }
        Ok(0)
    }

    /// Answers how many events come again, or come at all.
    async fn move_in(&self, tx: &Transaction<'_>) -> Db<u64> {
        let sql = &self.sql;
        tx.batch_execute(PATIENCE).await?;
        tx.batch_execute(&sql.rebase_lock).await?;
        let counted = count(tx, &sql.rebase_count).await?;
        tx.execute_typed(&sql.rebase_events, &[]).await?;
        tx.query_typed(&sql.rebase_sequence, &[]).await?;
        let tick: i64 = tx.query_typed_one(&sql.rebase_ticks, &[]).await?.try_get(0)?;
        tx.execute_typed(&sql.rebase_lanes, &args![tick]).await?;
        Ok(counted)
    }
}

async fn count(tx: &Transaction<'_>, text: &str) -> Db<u64> {
    tx.query_typed_one(text, &[]).await?.try_get::<_, i64>(0).map(i64::unsigned_abs)
}
