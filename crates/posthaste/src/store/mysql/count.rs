//! Counting rows: all of a short table; of a long one those that are few, by their index, and the rest by what the server knows anyway.

use posthaste_core::table::{Column, MysqlTableSql};
use posthaste_core::time::Timestamp;
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::error::Db;
use super::get;
use super::pool::Connection;
use crate::store::table::driver::{Counted, Few};

/// A table whose rows take no more than this is counted as a whole.
const SHORT_BYTES: i64 = 32 << 20;

pub(super) async fn count(on: &mut Connection, sql: &MysqlTableSql) -> Db<Counted> {
    let (bytes, rows, has_index) = size(on, sql).await?;
    // Without an index on the state relays read the whole table in every claim: one more does not matter.
    if bytes <= SHORT_BYTES || !has_index {
        let all = on.query(&sql.counts, &[]).await?;
        return counted(all.first().ok_or(sqlx::Error::RowNotFound)?);
    }
    let mut few = [Few::default(); 4];
    for (few, text) in few.iter_mut().zip(&sql.few) {
        let some_rows = on.query(text, &[]).await?;
        *few = some(some_rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
    }
    Ok(Counted::of_long(rows, few))
}

/// About how many bytes and rows a table has, and whether an index begins with the state.
async fn size(on: &mut Connection, sql: &MysqlTableSql) -> Db<(i64, u64, bool)> {
    let profile = &sql.shape().profile;
    let status = profile.columns[&Column::Status].as_str().to_owned();
    let values = [
        Value::Text(profile.table.schema().map(str::to_owned)),
        Value::Text(Some(profile.table.name().to_owned())),
        Value::Text(Some(status)),
    ];
    let rows = on.query(&MysqlTableSql::size(), &values).await?;
    let Some(row) = rows.first() else { return Ok((0, 0, false)) };
    Ok((get(row, 0)?, get::<i64>(row, 1)?.unsigned_abs(), get::<i64>(row, 2)? > 0))
}

fn counted(row: &MySqlRow) -> Db<Counted> {
    let number = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    Ok(Counted {
        fresh: number(0)?,
        waiting: number(1)?,
        delivered: number(2)?,
        dead: number(3)?,
        oldest_fresh_at: get::<Option<i64>>(row, 4)?.map(Timestamp::from_micros),
        unknown: number(5)?,
        discarded: number(6)?,
        ..Counted::default()
    })
}

/// Rows of one state; more than are counted are at least so many.
fn some(row: &MySqlRow) -> Db<Few> {
    let number = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    let rows = number(0)?;
    Ok(Few {
        rows,
        fresh: number(1)?,
        given_up: number(2)?,
        oldest_fresh_at: get::<Option<i64>>(row, 3)?.map(Timestamp::from_micros),
        is_estimate: rows >= u64::from(MysqlTableSql::COUNTED_MAX),
        lacks_index: false,
    })
}
