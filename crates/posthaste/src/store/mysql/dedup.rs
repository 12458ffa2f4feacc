//! Idempotency records for consumers whose effects are elsewhere, and how what consumers remember is removed.

use std::time::Duration;

use posthaste_core::consumer::{Begun, Dedup, DedupKey, Finished, Token};
use posthaste_core::sql::MysqlSql;
use posthaste_core::table::MysqlText;
use posthaste_core::time::micros;
use posthaste_core::{BoxFuture, Result};
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::error::{Db, explain, number};
use super::pool::{Connection, Connections};
use super::{Tries, get};
use crate::store::StoreOptions;
use crate::store::dedup::{PROCESSED, ended};

/// A hundred years: beyond what anybody means, inside what the database can take from now.
const SPAN_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// The server's number for a table that is not there.
const NO_SUCH_TABLE: u16 = 1146;

/// The records in a MariaDB or MySQL database.
pub(in crate::store) struct MysqlDedup {
    connections: Connections,
    sql: MysqlSql,
}

impl MysqlDedup {
    pub(in crate::store) fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        Ok(Self { connections: Connections::open(url, options)?, sql: MysqlSql::new(&options.prefix) })
    }

    async fn begun(&self, key: &DedupKey, abandoned_after: Duration) -> Result<Begun> {
        let mut connection = self.connections.get().await?;
        let (on, mut tries) = (&mut connection, Tries::default());
        loop {
            match self.begin_once(on, key, abandoned_after).await {
                Ok(begun) => return Ok(begun),
                Err(error) if tries.again(&error, on).await => {}
                Err(error) => return Err(explain(error)),
            }
        }
    }

    async fn begin_once(&self, on: &mut Connection, key: &DedupKey, abandoned_after: Duration) -> Db<Begun> {
        let token = Token::fresh();
        // By itself it waits for whoever begins the same at this moment, and holds nothing while nobody does.
        let values = with(key, [], [text(&token.0)]);
        if on.execute(&plain(&self.sql.dedup_begin), &values).await? > 0 {
            return Ok(Begun::New(token));
        }
        on.begin().await?;
        let found = on.query(&plain(&self.sql.dedup_get), &with(key, [], [])).await?;
        let begun = match found
            .first()
            .map(|row| Ok::<_, sqlx::Error>((get::<String>(row, 0)?, get::<i64>(row, 1)?)))
        {
            // It was removed since.
            None => Begun::Busy(Duration::ZERO),
            Some(found) => {
                let (state, age) = found?;
                let left = abandoned_after.saturating_sub(Duration::from_micros(age.max(0).unsigned_abs()));
                match state.as_str() {
                    PROCESSED => Begun::Before,
                    "in_progress" if !left.is_zero() => Begun::Busy(left),
                    _ => {
                        on.execute(&plain(&self.sql.dedup_take), &with(key, [text(&token.0)], [])).await?;
                        if state == "in_progress" { Begun::TakenOver(token) } else { Begun::New(token) }
                    }
                }
            }
        };
        on.commit().await?;
        Ok(begun)
    }

    async fn ended(&self, key: &DedupKey, token: &Token, end: &Finished) -> Result<bool> {
        let (state, last_error) = ended(end);
        let first = [text(state), Value::Text(last_error.map(str::to_owned))];
        let values = with(key, first, [text(&token.0)]);
        let mut on = self.connections.get().await?;
        Ok(on.execute(&plain(&self.sql.dedup_finish), &values).await.map_err(explain)? > 0)
    }
}

fn text(text: &str) -> Value {
    Value::Text(Some(text.to_owned()))
}

/// What names a record, between other values.
fn with<const A: usize, const B: usize>(key: &DedupKey, first: [Value; A], last: [Value; B]) -> Vec<Value> {
    let name = [text(&key.consumer), text(&key.event_id), text(&key.source)];
    first.into_iter().chain(name).chain(last).collect()
}

/// A text whose placeholders are in the order of its values.
pub(super) fn plain(text: &str) -> MysqlText {
    MysqlText { order: (0..text.matches('?').count()).collect(), text: text.to_owned() }
}

/// The age, and how many rows at most.
fn old(older_than: Duration, rows_max: u32) -> [Value; 2] {
    [micros(older_than.min(SPAN_MAX)), i64::from(rows_max)].map(|int| Value::Int(Some(int)))
}

/// Counts the rows of the inbox and the idempotency records that are older than this, or removes at most so many of each. A
/// database has both tables, one or none.
pub(super) async fn prune_memory(
    on: &mut Connection,
    sql: &MysqlSql,
    older_than: Duration,
    remove: Option<u32>,
) -> Result<u64> {
    let mut rows = 0;
    for (count, delete) in [(&sql.inbox_count, &sql.inbox_prune), (&sql.dedup_count, &sql.dedup_prune)] {
        let values = old(older_than, remove.unwrap_or_default());
        let done = match remove {
            Some(_) => on.execute(&plain(delete), &values).await,
            None => on.query(&plain(count), &values).await.and_then(|found| counted(&found)),
        };
        rows += match done {
            Ok(some) => some,
            Err(error) if number(&error) == Some(NO_SUCH_TABLE) => 0,
            Err(error) => return Err(explain(error)),
        };
    }
    Ok(rows)
}

fn counted(found: &[MySqlRow]) -> Db<u64> {
    found.first().map_or(Ok(0), |row| get::<i64>(row, 0)).map(i64::unsigned_abs)
}

impl Dedup for MysqlDedup {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        Box::pin(self.begun(key, abandoned_after))
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.ended(key, token, &end).await })
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let mut on = self.connections.get().await?;
            on.execute(&plain(&self.sql.dedup_prune), &old(older_than, rows_max)).await.map_err(explain)
        })
    }
}
