//! A database that was moved becomes this server's own.
//!
//! A dump, a copy and pg_upgrade keep the ids of transactions as numbers in rows; on another server (or in another
//! database) these numbers mean other transactions, and what a tick sees is not what was delivered. So every event gets an
//! id of this server, the ticks begin anew, and what not every lane has passed comes again. Nothing is skipped.
//!
//! The table `meta` says on which server, and in which database of it, the ids were given. Elsewhere the
//! store refuses the lanes and every command that goes by what ticks see. What was published after the move
//! is known by its number, which is above the numbers of all old ticks. Its id alone could make it look
//! delivered.

use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Transaction};

use crate::store::log::driver::Step;
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::pool::Connection;
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, check};

/// It takes as long as the log is; but producers that stay open are not waited for without end.
const PATIENCE: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'";

impl PostgresStore {
    /// Refuses a rebase where the database is where it was filled.
    pub(super) async fn demand_moved(&self, client: &Client) -> Result<()> {
        match check::moved(client, &self.sql, self.prefix.as_str()).await? {
            Some(_) => Ok(()),
            None => Err(Error::rejected("this database is where it was filled; there is nothing to rebase")),
        }
    }

    /// Counts how many events would come again, and leaves nothing behind.
    pub(super) async fn count_rebase(&self, client: &mut Connection, upgraded: bool) -> Result<Step> {
        self.demand_moved(client).await?;
        let tx = begin(client).await?;
        let counted = match upgraded {
            true => self.stay_as_upgraded(&tx).await?,
            false => count(&tx, &self.sql.rebase_count).await.map_err(explain)?,
        };
        tx.rollback().await.map_err(explain)?;
        Ok(Step::counted(counted, None))
    }

    /// Makes the database this server's own.
    pub(super) async fn rebase(&self, tx: &Transaction<'_>, upgraded: bool) -> Result<Step> {
        self.demand_moved(tx.client()).await?;
        let counted = match upgraded {
            true => self.stay_as_upgraded(tx).await?,
            false => self.move_in(tx).await.map_err(explain)?,
        };
        tx.execute_typed(&self.sql.rebase_done, &[]).await.map_err(explain)?;
        Ok(Step::changed(counted, None))
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
