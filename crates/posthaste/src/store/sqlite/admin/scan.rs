//! Walking over events: along the log, along what is parked, or to given ids.

use std::ops::ControlFlow;
use std::time::Duration;

use posthaste_core::admin::Filter;
use posthaste_core::log::question::{Head, Source, Stretch, Way};
use posthaste_core::sql::SqliteSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::lanes;
use crate::store::sqlite::{log, rows};

/// How far the times of neighbours in the log may be out of order, by clocks that differ or are set back.
const SKEW: Duration = Duration::from_secs(300);

/// How many events of each lane are looked at together where several lanes have them.
const ENDED_PAGE: usize = 1_000;

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let event_type = rows::text(row, 1)?;
    Ok(Head {
        seq: row.get(0)?,
        topic: rows::maybe_text(row, 2)?.unwrap_or_else(|| event_type.clone()),
        event_type,
        key: rows::maybe_text(row, 3)?,
        created_at: rows::time(row, 4)?,
        xid: 0,
        is_erased: row.get(5)?,
    })
}

/// The stretch that holds everything between the filter's times, found without an index on them.
pub(super) fn stretch(
    connection: &Connection,
    sql: &SqliteSql,
    filter: &Filter,
) -> rusqlite::Result<Stretch> {
    let first = match filter.since {
        Some(since) => log::before(connection, sql, since.before(SKEW))? + 1,
        None => 0,
    };
    let last = match filter.until {
        Some(until) => log::before(connection, sql, until.after(SKEW))?,
        None => log::last(connection, sql)?,
    };
    Ok(Stretch { first, last })
}

/// Shows every event of the stretch to `see`, in order, until that breaks off.
pub(super) fn walk(
    connection: &Connection,
    sql: &SqliteSql,
    source: &Source,
    stretch: Stretch,
    way: Way,
    mut see: impl FnMut(Head) -> rusqlite::Result<ControlFlow<()>>,
) -> rusqlite::Result<()> {
    let (text, lane) = match (source, way) {
        (Source::Ids(ids), way) => return walk_ids(connection, sql, ids, stretch, way, see),
        (Source::Ended(lane, state), way) => {
            return walk_ended(connection, sql, (lane.as_deref(), state), stretch, way, see);
        }
        (Source::Log, Way::Up) => (&sql.scan_log_up, None),
        (Source::Log, Way::Down) => (&sql.scan_log_down, None),
        (Source::Parked(Some(lane)), Way::Up) => (&sql.scan_parked_up, Some(lane)),
        (Source::Parked(Some(lane)), Way::Down) => (&sql.scan_parked_down, Some(lane)),
        (Source::Parked(None), Way::Up) => (&sql.scan_parked_any_up, None),
        (Source::Parked(None), Way::Down) => (&sql.scan_parked_any_down, None),
    };
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = match lane {
        Some(lane) => statement.query(params![stretch.first, stretch.last, lane])?,
        None => statement.query(params![stretch.first, stretch.last])?,
    };
    let mut before = None;
    while let Some(row) = rows.next()? {
        let head = head(row)?;
        // An event that several lanes have parked comes once for each.
        if before.replace(head.seq) == Some(head.seq) {
            continue;
        }
        if see(head)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Of each lane a page, and of these pages together the first one, until there is none.
fn walk_ended(
    connection: &Connection,
    sql: &SqliteSql,
    (lane, state): (Option<&str>, &str),
    mut stretch: Stretch,
    way: Way,
    mut see: impl FnMut(Head) -> rusqlite::Result<ControlFlow<()>>,
) -> rusqlite::Result<()> {
    let lanes = match lane {
        Some(lane) => vec![lane.to_owned()],
        None => lanes::known(connection, sql)?.iter().map(|lane| lane.name.to_string()).collect(),
    };
    let text = if way == Way::Up { &sql.scan_ended_up } else { &sql.scan_ended_down };
    let mut statement = connection.prepare_cached(text)?;
    loop {
        let mut heads = Vec::new();
        for lane in &lanes {
            let values = params![stretch.first, stretch.last, lane, state, ENDED_PAGE as i64];
            for head in statement.query_map(values, head)? {
                heads.push(head?);
            }
        }
        heads.sort_unstable_by_key(|head| if way == Way::Up { head.seq } else { -head.seq });
        heads.dedup_by_key(|head| head.seq);
        let has_more = heads.len() >= ENDED_PAGE;
        heads.truncate(ENDED_PAGE);
        for head in heads {
            match way {
                Way::Up => stretch.first = head.seq + 1,
                Way::Down => stretch.last = head.seq - 1,
            }
            if see(head)?.is_break() {
                return Ok(());
            }
        }
        if !has_more {
            return Ok(());
        }
    }
}

fn walk_ids(
    connection: &Connection,
    sql: &SqliteSql,
    ids: &[String],
    stretch: Stretch,
    way: Way,
    mut see: impl FnMut(Head) -> rusqlite::Result<ControlFlow<()>>,
) -> rusqlite::Result<()> {
    let mut seqs: Vec<i64> = Vec::new();
    let mut by_id = connection.prepare_cached(&sql.event_seqs)?;
    for id in ids {
        for seq in by_id.query_map([id], |row| row.get(0))? {
            seqs.push(seq?);
        }
    }
    seqs.sort_unstable();
    seqs.dedup();
    if way == Way::Down {
        seqs.reverse();
    }
    let mut one = connection.prepare_cached(&sql.scan_one)?;
    for seq in seqs.into_iter().filter(|seq| (stretch.first..=stretch.last).contains(seq)) {
        let head = one.query_row([seq], head).optional()?;
        if head.map(&mut see).transpose()?.is_some_and(|flow| flow.is_break()) {
            break;
        }
    }
    Ok(())
}
