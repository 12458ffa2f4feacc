//! Which rows may be claimed in the order of a key.
//!
//! Rows that are due are read a page at a time, and then everything open of their keys up to the last of them: what a row must
//! wait for is found by one look for all of them. A statement that looks for it row by row reads all that waits of a key for
//! every row of it here.

use std::collections::{BTreeSet, HashSet};

use posthaste_core::table::{Column, MysqlTableSql};
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::super::error::Db;
use super::super::get;
use super::super::pool::Connection;
use super::{padded, place};
use crate::store::table::cursor::Look;
use crate::store::table::driver::Ask;
use crate::store::table::list;

/// So many rows are read at once: their keys become values of a statement, which may have 65,535.
const PAGE_ROWS: u32 = 4_096;
/// So many keys are left out of further pages; if that many keys wait, those after them come when these are settled.
const LEFT_OUT_MAX: usize = 32_768;

/// A row that is due.
struct Due {
    id: String,
    weight: u64,
    key: Option<String>,
    created: i64,
    was_tried: bool,
    available: i64,
}

/// The rows that nothing earlier of their keys holds back, in the order of their time, with their weights: those of the first page
/// that has any.
pub(super) async fn free(on: &mut Connection, sql: &MysqlTableSql, ask: Ask<'_>) -> Db<Vec<(String, u64)>> {
    let rows = ask.room.events.min(PAGE_ROWS);
    // Where the relay sees another key than the one that orders, a row that was never tried may be what the others wait for.
    let may_leave_out = sql.shape().order_column() == Some(Column::Key);
    let (mut passed, mut left_out) = (0_usize, BTreeSet::new());
    loop {
        let page = due(on, sql, ask, rows, passed, &left_out).await?;
        let is_last = page.len() < rows as usize;
        let free = unblocked(on, sql, ask, &page).await?;
        if !free.is_empty() || is_last || left_out.len() >= LEFT_OUT_MAX {
            let free = page.into_iter().filter(|row| free.contains(&row.id));
            return Ok(free.map(|row| (row.id, row.weight)).collect());
        }
        // All of it waits. What was never tried of these keys goes after what they wait for, so nothing is missed without it.
        passed += page.iter().filter(|row| row.was_tried || !may_leave_out).count();
        left_out.extend(page.into_iter().filter(|_| may_leave_out).filter_map(|row| row.key));
    }
}

async fn due(
    on: &mut Connection,
    sql: &MysqlTableSql,
    ask: Ask<'_>,
    rows: u32,
    passed: usize,
    left_out: &BTreeSet<String>,
) -> Db<Vec<Due>> {
    let passed_ids = padded(ask.passed.iter().map(String::as_str));
    let keys = padded(left_out.iter().map(String::as_str));
    let mut values = vec![
        Value::Int(Some(i64::from(rows))),
        place(ask),
        Value::Int(Some(i64::try_from(passed).unwrap_or(i64::MAX))),
    ];
    let text = sql.pick_ordered(ask.look == Look::Whole, passed_ids.len(), keys.len());
    values.extend(passed_ids.into_iter().chain(keys));
    let read = |row: &MySqlRow| {
        Ok(Due {
            id: get(row, 0)?,
            weight: get::<i64>(row, 1)?.unsigned_abs(),
            key: get(row, 2)?,
            created: get::<Option<i64>>(row, 3)?.unwrap_or_default(),
            was_tried: get::<Option<i64>>(row, 4)?.is_some_and(|tried| tried != 0),
            available: get::<Option<i64>>(row, 5)?.unwrap_or_default(),
        })
    };
    on.query(&text, &values).await?.iter().map(read).collect()
}

/// The ids of those that nothing earlier of their keys holds back.
async fn unblocked(
    on: &mut Connection,
    sql: &MysqlTableSql,
    ask: Ask<'_>,
    page: &[Due],
) -> Db<HashSet<String>> {
    let keyless = page.iter().filter(|row| row.key.is_none());
    let mut free: HashSet<String> = keyless.map(|row| row.id.clone()).collect();
    let keys: BTreeSet<&str> = page.iter().filter_map(|row| row.key.as_deref()).collect();
    let Some(last) = page.iter().map(|row| row.created).max().filter(|_| !keys.is_empty()) else {
        return Ok(free);
    };
    let keys = padded(keys.into_iter());
    let (mine, slow) = ask.cursor.mine();
    let mut values = vec![
        Value::Int(Some(last)),
        place(ask),
        Value::Text(Some(list(&mine))),
        Value::Text(Some(list(&slow))),
    ];
    let text = sql.open_of_keys(ask.look == Look::Whole, keys.len());
    values.extend(keys);
    let end = page.iter().map(|row| (row.available, row.created)).max();
    let candidates: HashSet<&str> = page.iter().map(|row| row.id.as_str()).collect();
    // What the table would not have claimed is in no page, and keeps its place in its key.
    let passed: HashSet<&str> = ask.passed.iter().map(String::as_str).collect();
    let mut waiting = HashSet::new();
    for row in &on.query(&text, &values).await? {
        let (id, key): (String, String) = (get(row, 0)?, get(row, 1)?);
        let holds = get::<Option<i64>>(row, 2)?.is_some_and(|holds| holds != 0);
        let is_candidate = candidates.contains(id.as_str());
        let place = get::<Option<i64>>(row, 3)?.zip(get(row, 4)?);
        // Its place lies within the page, and it is not there: it was handed back since that was read.
        let is_missed = !is_candidate && place.is_some() && place < end;
        if is_candidate && !waiting.contains(&key) {
            free.insert(id.clone());
        }
        if holds || is_missed || passed.contains(id.as_str()) {
            waiting.insert(key);
        }
    }
    Ok(free)
}
