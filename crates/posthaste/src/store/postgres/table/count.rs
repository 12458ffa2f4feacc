//! Counting rows: all of a short table; of a long one those that are few, by their index, and the rest by what the server knows anyway.

use posthaste_core::Result;
use posthaste_core::table::{Column, PostgresTableSql};
use posthaste_core::time::Timestamp;
use tokio_postgres::Row;

use super::super::error::Db;
use super::super::pool::{Connection, Transaction, begin_looking};
use super::super::rows::maybe_time;
use super::super::value::args;
use super::told;
use crate::store::table::count::{CountRow, Counted, Few};

/// A table whose rows take no more than this is counted as a whole.
const SHORT_BYTES: i64 = 32 << 20;
/// Rows of a state are looked for by their index, though the planner may believe that there are many.
const BY_INDEX: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off";

pub(super) async fn count(client: &mut Connection, sql: &PostgresTableSql) -> Result<Counted> {
    let tx = begin_looking(client).await?;
    count_in(&tx, sql).await.map_err(|error| told(error, sql))
}

async fn count_in(tx: &Transaction<'_>, sql: &PostgresTableSql) -> Db<Counted> {
    let table = sql.shape().profile.table.quoted();
    let row = tx.query_typed_one(PostgresTableSql::size(), &args![table]).await?;
    let (bytes, rows): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if bytes <= SHORT_BYTES {
        return Counted::read(&tx.query_typed_one(&sql.counts, &[]).await?);
    }
    let rows = rows.max(0).unsigned_abs();
    let shares = Shares::of(tx, sql, &table, rows).await?;
    let states = states(sql);
    let indexed =
        tx.query_typed(PostgresTableSql::indexed(), &args![table, status(sql), states.to_vec()]).await?;
    tx.batch_execute(BY_INDEX).await?;
    let mut few = [Few::default(); 4];
    for (n, (text, state)) in sql.few.iter().zip(&states).enumerate() {
        let has_index = indexed.get(n).map_or(Ok(false), |row| row.try_get(0))?;
        few[n] = match has_index {
            true => {
                let row = tx.query_typed_one(text, &[]).await?;
                Few::read(&row, PostgresTableSql::COUNTED_MAX)?.or_about(shares.of_state(state))
            }
            false => Few::about(shares.of_state(state)),
        };
    }
    few[3] = Few::about(shares.of_others(sql));
    Ok(Counted::of_long(rows, few))
}

/// The names of the states in which a table has few rows, as a rule.
fn states(sql: &PostgresTableSql) -> [String; 3] {
    let states = &sql.shape().profile.states;
    [&states.pending, &states.delivering, &states.dead].map(|state| state.as_str().to_owned())
}

fn status(sql: &PostgresTableSql) -> String {
    sql.shape().profile.columns[&Column::Status].as_str().to_owned()
}

/// How many rows have which state, as the server last saw it.
struct Shares(Vec<(Option<String>, u64)>);

impl Shares {
    async fn of(tx: &Transaction<'_>, sql: &PostgresTableSql, table: &str, rows: u64) -> Db<Self> {
        let seen = tx.query_typed(PostgresTableSql::shares(), &args![table, status(sql)]).await?;
        let share = |row: &Row| {
            // The share of a sample: nobody needs more than a float has.
            let about = (row.try_get::<_, f64>(1)? * rows as f64) as u64;
            Ok((row.try_get(0)?, about))
        };
        seen.iter().map(share).collect::<Db<_>>().map(Self)
    }

    fn of_state(&self, state: &str) -> u64 {
        let of_state = self.0.iter().filter(|(value, _)| value.as_deref() == Some(state));
        of_state.map(|(_, rows)| rows).sum()
    }

    /// In states that the profile does not name.
    fn of_others(&self, sql: &PostgresTableSql) -> u64 {
        let states = &sql.shape().profile.states;
        let named = [&states.pending, &states.delivering, &states.delivered, &states.dead];
        let is_named = |value: &str| named.iter().any(|state| state.as_str() == value);
        let others = self.0.iter().filter(|(value, _)| !value.as_deref().is_some_and(is_named));
        others.map(|(_, rows)| rows).sum()
    }
}

impl CountRow for Row {
    type Error = tokio_postgres::Error;

    fn number(&self, column: usize) -> Db<u64> {
        self.try_get::<_, i64>(column).map(i64::unsigned_abs)
    }

    fn time(&self, column: usize) -> Db<Option<Timestamp>> {
        maybe_time(self, column)
    }
}
