//! Moving a lane past what is too old, with a record of what it never read.

use posthaste_core::admin::{Applied, Filter};
use posthaste_core::time::Timestamp;
use posthaste_core::{Result, redact};
use tokio_postgres::Client;

use super::apply::insert_note;
use super::lanes::KnownLane;
use crate::store::audit::Note;
use crate::store::postgres::acquire::hold_events;
use crate::store::postgres::cursor::{SHARD, StoredPlace};
use crate::store::postgres::error::{Db, explain};
use crate::store::postgres::settle::add_totals;
use crate::store::postgres::value::args;
use crate::store::postgres::{PostgresStore, begin, commit, log};
use crate::store::totals::Totals;

impl PostgresStore {
    pub(super) async fn skip(
        &self,
        filter: &Filter,
        before: Timestamp,
        reason: &str,
        dry_run: bool,
        note: Note,
    ) -> Result<Applied> {
        let lane = self.lane_of(filter).await?;
        let mut client = self.client().await?;
        // In a statement of its own: a tick is never made in a transaction that writes.
        let place = log::place_before(&client, &self.sql, before).await?;
        if dry_run {
            let skipped = self.unread(&client, &lane, place).await.map_err(explain)?;
            return Ok(Applied::new(skipped.unsigned_abs(), 0));
        }
        let tx = begin(&mut client).await?;
        hold_events(&tx, &self.sql).await.map_err(explain)?;
        let name = lane.name.as_str();
        tx.query_typed_opt(&self.sql.lane_lock, &args![name, SHARD]).await.map_err(explain)?;
        let skipped = self.unread(tx.client(), &lane, place).await.map_err(explain)?;
        let reason = redact::clean(reason);
        let values = args![name, SHARD, place.tick_b, place.position, reason];
        tx.execute_typed(&self.sql.lane_skip, &values).await.map_err(explain)?;
        let forget = &self.sql.done_forget_passed;
        tx.execute_typed(forget, &args![name, SHARD]).await.map_err(explain)?;
        let totals = Totals { accepted: skipped, discarded: skipped, ..Totals::default() };
        add_totals(&tx, &self.sql, name, totals).await.map_err(explain)?;
        let applied = Applied::new(skipped.unsigned_abs(), skipped.unsigned_abs());
        insert_note(tx.client(), &self.sql.audit_insert, &note, applied).await.map_err(explain)?;
        commit(tx).await?;
        Ok(applied)
    }

    /// How many events that the lane wants lie between its place and this one.
    async fn unread(&self, client: &Client, lane: &KnownLane, place: StoredPlace) -> Db<i64> {
        let name = lane.name.as_str();
        let values = args![name, SHARD, place.tick_b, place.position];
        let mut count = 0;
        for row in client.query_typed(&self.sql.skip_count, &values).await? {
            if lane.spec.wants(row.try_get(0)?) {
                count += row.try_get::<_, i64>(1)?;
            }
        }
        Ok(count)
    }
}
