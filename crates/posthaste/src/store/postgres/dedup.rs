//! Idempotency records for consumers whose effects are elsewhere.

use std::time::Duration;

use posthaste_core::consumer::{Begun, Dedup, DedupKey, Finished, Token};
use posthaste_core::time::micros;
use posthaste_core::{BoxFuture, Result};

use super::PostgresStore;
use super::error::explain;
use super::value::{Stamp, args};
use crate::store::dedup::{PROCESSED, ended};
use crate::store::log::driver::LogDriver as _;

/// A hundred years: beyond what anybody means, inside what the database can take from now.
const SPAN_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

impl PostgresStore {
    async fn dedup_begin(&self, key: &DedupKey, abandoned_after: Duration) -> Result<Begun> {
        let token = Token::fresh();
        let span = micros(abandoned_after.min(SPAN_MAX));
        let values = args![key.consumer, key.event_id, key.source, token.0, span];
        let client = self.client().await?;
        let row = client.query_typed_opt(&self.sql.dedup_begin, &values).await.map_err(explain)?;
        // No row: somebody began it while we asked.
        let Some(row) = row else { return Ok(Begun::Busy(abandoned_after)) };
        let state: &str = row.try_get(0).map_err(explain)?;
        let taken_over: bool = row.try_get(1).map_err(explain)?;
        let since: i64 = row.try_get(2).map_err(explain)?;
        Ok(match state {
            "begun" if taken_over => Begun::TakenOver(token),
            "begun" => Begun::New(token),
            PROCESSED => Begun::Before,
            // Also a failure that somebody took up while we asked.
            _ => Begun::Busy(
                abandoned_after.saturating_sub(Duration::from_micros(since.max(0).unsigned_abs())),
            ),
        })
    }

    async fn dedup_finish(&self, key: &DedupKey, token: &Token, end: &Finished) -> Result<bool> {
        let (state, last_error) = ended(end);
        let values = args![key.consumer, key.event_id, key.source, token.0, state, last_error];
        let client = self.client().await?;
        Ok(client.execute_typed(&self.sql.dedup_finish, &values).await.map_err(explain)? > 0)
    }

    async fn dedup_prune(&self, older_than: Duration, rows_max: u32) -> Result<u64> {
        let before = Stamp(self.now().await?.before(older_than));
        let client = self.client().await?;
        client
            .execute_typed(&self.sql.dedup_prune, &args![before, i64::from(rows_max)])
            .await
            .map_err(explain)
    }
}

impl Dedup for PostgresStore {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        Box::pin(self.dedup_begin(key, abandoned_after))
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.dedup_finish(key, token, &end).await })
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.dedup_prune(older_than, rows_max))
    }
}
