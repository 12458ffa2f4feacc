//! Counting rows: all of a short table; of a long one those that are few, by their index, and the rest by what the server knows anyway.

use posthaste_core::table::{Column, MysqlTableSql};
use posthaste_core::time::Timestamp;
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::error::Db;
use super::get;
use super::pool::Connection;
use crate::store::table::count::{CountRow, Counted, Few};

/// A table whose rows take no more than this is counted as a whole.
const SHORT_BYTES: i64 = 32 << 20;

pub(super) async fn count(on: &mut Connection, sql: &MysqlTableSql) -> Db<Counted> {
    let (bytes, rows, has_index) = size(on, sql).await?;
    // Without an index on the state relays read the whole table in every claim: one more does not matter.
    if bytes <= SHORT_BYTES || !has_index {
        let all = on.query(&sql.counts, &[]).await?;
        return Counted::read(all.first().ok_or(sqlx::Error::RowNotFound)?);
    }
    let mut few = [Few::default(); 4];
    for (few, text) in few.iter_mut().zip(&sql.few) {
        let some_rows = on.query(text, &[]).await?;
        let row = some_rows.first().ok_or(sqlx::Error::RowNotFound)?;
        *few = Few::read(row, MysqlTableSql::COUNTED_MAX)?;
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

impl CountRow for MySqlRow {
    type Error = sqlx::Error;

    fn number(&self, column: usize) -> Db<u64> {
        get::<i64>(self, column).map(i64::unsigned_abs)
    }

    fn time(&self, column: usize) -> Db<Option<Timestamp>> {
        Ok(get::<Option<i64>>(self, column)?.map(Timestamp::from_micros))
    }
}
