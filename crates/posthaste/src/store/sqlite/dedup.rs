//! Idempotency records for consumers whose effects are elsewhere.

use std::time::Duration;

use posthaste_core::consumer::{Begun, Dedup, DedupKey, Finished, Token};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Result};
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use crate::store::dedup::{IN_PROGRESS, PROCESSED, ended};

impl Dedup for SqliteStore {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        let key = key.clone();
        Box::pin(self.write(move |connection, sql, now| start(connection, sql, &key, abandoned_after, now)))
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        let (key, token) = (key.clone(), token.clone());
        Box::pin(self.write(move |connection, sql, now| {
            let (state, last_error) = ended(&end);
            let values =
                (&key.consumer, &key.event_id, &key.source, &token.0, state, now.as_micros(), last_error);
            Ok(connection.prepare_cached(&sql.dedup_finish)?.execute(values)? > 0)
        }))
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.write(move |connection, sql, now| {
            let values = (now.before(older_than).as_micros(), rows_max);
            Ok(connection.prepare_cached(&sql.dedup_prune)?.execute(values)? as u64)
        }))
    }
}

fn start(
    connection: &Connection,
    sql: &SqliteSql,
    key: &DedupKey,
    abandoned_after: Duration,
    now: Timestamp,
) -> rusqlite::Result<Begun> {
    let token = Token::fresh();
    let abandoned = now.before(abandoned_after).as_micros();
    let values = (&key.consumer, &key.event_id, &key.source, &token.0, now.as_micros(), abandoned);
    let begun: Option<bool> =
        connection.prepare_cached(&sql.dedup_begin)?.query_row(values, |row| row.get(0)).optional()?;
    match begun {
        Some(true) => return Ok(Begun::TakenOver(token)),
        Some(false) => return Ok(Begun::New(token)),
        None => {}
    }
    let values = (&key.consumer, &key.event_id, &key.source);
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
    let (state, at): (String, i64) = connection.prepare_cached(&sql.dedup_get)?.query_row(values, read)?;
    debug_assert!([IN_PROGRESS, PROCESSED].contains(&state.as_str()), "a failure does not hold");
    if state == PROCESSED {
        return Ok(Begun::Before);
    }
    Ok(Begun::Busy(abandoned_after.saturating_sub(now.since(Timestamp::from_micros(at)))))
}
