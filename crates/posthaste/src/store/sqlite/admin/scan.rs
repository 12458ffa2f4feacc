//! Walking over events: along the log, along what is parked, or to given ids.

use std::ops::ControlFlow;

use posthaste_core::admin::{EventState, Filter};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

use super::lanes;
use crate::store::sqlite::{log, rows};

/// How far the times of neighbours in the log may be out of order, by clocks that differ or are set back.
const SKEW: Duration = Duration::from_secs(300);

/// How many events of each lane are looked at together where several lanes have them.
const ENDED_PAGE: usize = 1_000;

/// As much of an event as decides whether it is meant.
pub(super) struct Head {
    pub(super) seq: i64,
    pub(super) event_type: String,
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) created_at: Timestamp,
}

impl Head {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let event_type = rows::text(row, 1)?;
        Ok(Self {
            seq: row.get(0)?,
            topic: rows::maybe_text(row, 2)?.unwrap_or_else(|| event_type.clone()),
            event_type,
            key: rows::maybe_text(row, 3)?,
            created_at: rows::time(row, 4)?,
        })
    }
}

/// Where to look.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Log,
    /// What this lane has parked.
    Parked(String),
    /// What any lane has parked.
    ParkedByAny,
    /// What this lane has parked in this state, or any lane.
    Ended(Option<String>, &'static str),
    /// These events.
    Ids(Vec<String>),
}

impl Source {
    /// The narrowest that holds everything the filter can match.
    pub(super) fn of(filter: &Filter) -> Self {
        let only_parked = filter.asks_a_failure()
            || filter
                .state
                .is_some_and(|state| !matches!(state, EventState::Pending | EventState::Delivered));
        let lane = filter.lane.as_ref().map(|lane| lane.as_str().to_owned());
        match (filter.state, lane) {
            _ if !filter.ids.is_empty() => Self::Ids(filter.ids.clone()),
            // They may be few among very many others.
            (Some(state @ (EventState::Dead | EventState::Discarded)), lane) => {
                Self::Ended(lane, state.name())
            }
            (_, Some(lane)) if only_parked => Self::Parked(lane),
            (_, None) if only_parked => Self::ParkedByAny,
            _ => Self::Log,
        }
    }
}

/// A stretch of the log: numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Stretch {
    /// The stretch that holds everything between the filter's times, found without an index on them.
    pub(super) fn of(connection: &Connection, sql: &SqliteSql, filter: &Filter) -> rusqlite::Result<Self> {
        let first = match filter.since {
            Some(since) => log::before(connection, sql, since.before(SKEW))? + 1,
            None => 0,
        };
        let last = match filter.until {
            Some(until) => log::before(connection, sql, until.after(SKEW))?,
            None => log::last(connection, sql)?,
        };
        Ok(Self { first, last })
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
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
        (Source::Parked(lane), Way::Up) => (&sql.scan_parked_up, Some(lane)),
        (Source::Parked(lane), Way::Down) => (&sql.scan_parked_down, Some(lane)),
        (Source::ParkedByAny, Way::Up) => (&sql.scan_parked_any_up, None),
        (Source::ParkedByAny, Way::Down) => (&sql.scan_parked_any_down, None),
    };
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = match lane {
        Some(lane) => statement.query(params![stretch.first, stretch.last, lane])?,
        None => statement.query(params![stretch.first, stretch.last])?,
    };
    let mut before = None;
    while let Some(row) = rows.next()? {
        let head = Head::read(row)?;
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
            for head in statement.query_map(values, Head::read)? {
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
        let head = one.query_row([seq], Head::read).optional()?;
        if head.map(&mut see).transpose()?.is_some_and(|flow| flow.is_break()) {
            break;
        }
    }
    Ok(())
}
