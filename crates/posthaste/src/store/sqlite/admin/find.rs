//! Looking for events, the newest first, with a bound on the work of each page.

use std::ops::ControlFlow;

use posthaste_core::admin::{Filter, Found, LaneView, Page, Record};
use posthaste_core::log::question::{Head, Question, Source, Way};
use posthaste_core::sql::SqliteSql;
use posthaste_core::{Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::{lanes, scan, views};
use crate::store::log::refusals::no_such_lane;
use crate::store::sqlite::rows;

/// How many events a page looks at; a page that found little says where to go on.
const PAGE_EVENTS_MAX: usize = 20_000;
/// How many bytes of payload a page carries, unless a single one has more.
const PAGE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The number below which the page begins.
pub(super) fn below(page: &Page) -> Result<i64> {
    match &page.after {
        Some(token) => {
            token.parse().map_err(|_| Error::rejected(format!("{token:?} is not a page of this store")))
        }
        None => Ok(i64::MAX),
    }
}

/// One page of what the filter means; or that there is no such lane.
pub(super) fn find(
    connection: &Connection,
    sql: &SqliteSql,
    filter: &Filter,
    page: &Page,
    below: i64,
) -> rusqlite::Result<Result<Found>> {
    let question = Question::new(filter, lanes::known(connection, sql)?);
    if let Some(missing) = question.missing_lane() {
        return Ok(Err(no_such_lane(missing)));
    }
    let mut stretch = scan::stretch(connection, sql, filter)?;
    stretch.last = stretch.last.min(below - 1);
    let size = page.size() as usize;
    let (mut found, mut looked_at, mut bytes, mut last_seen) = (Found::default(), 0, 0, below);
    scan::walk(connection, sql, &Source::of(filter), stretch, Way::Down, |head| {
        if looked_at == PAGE_EVENTS_MAX || bytes >= PAGE_BYTES_MAX {
            found.next = Some(last_seen.to_string());
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        if let Some(views) = views::of(connection, sql, &question, &head)? {
            if found.records.len() == size {
                found.next = Some(last_seen.to_string());
                return Ok(ControlFlow::Break(()));
            }
            if let Some(record) = record(connection, sql, &head, views, page.with_payload)? {
                bytes += record.envelope.payload.len() as u64;
                found.records.push(record);
            }
        }
        last_seen = head.seq;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Ok(found))
}

fn record(
    connection: &Connection,
    sql: &SqliteSql,
    head: &Head,
    views: Vec<LaneView>,
    with_payload: bool,
) -> rusqlite::Result<Option<Record>> {
    let text = if with_payload { &sql.event_get } else { &sql.event_look };
    let read = |row: &Row<'_>| {
        let event = if with_payload { rows::event(row)? } else { rows::without_payload(row)? };
        let bytes = match row.get_ref(rows::PAYLOAD)? {
            ValueRef::Null => None,
            ValueRef::Integer(length) => Some(length.unsigned_abs()),
            _ => Some(event.envelope.payload.len() as u64),
        };
        Ok(Record::new(head.seq, event.envelope, bytes, event.created_at))
    };
    let mut record = connection.prepare_cached(text)?.query_row([head.seq], read).optional()?;
    if let Some(record) = &mut record {
        record.lanes = views;
    }
    Ok(record)
}
