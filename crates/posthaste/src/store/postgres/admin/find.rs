//! Looking for events, the newest first, with a bound on the work of each page.

use posthaste_core::admin::{Filter, Found, LaneView, Page, Record};
use posthaste_core::log::question::{Question, Source, Way};
use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::Client;

use super::{lanes, scan, views};
use crate::store::log::refusals::no_such_lane;
use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::value::args;

/// How many events a page looks at; a page that found little says where to go on.
const PAGE_EVENTS_MAX: usize = 20_000;
/// How many events are looked at together.
const STEP_EVENTS: usize = 1_000;
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
pub(super) async fn find(
    client: &Client,
    sql: &PostgresSql,
    filter: &Filter,
    page: &Page,
    below: i64,
) -> Db<Result<Found>> {
    let question = Question::new(filter, lanes::known(client, sql).await?);
    if let Some(missing) = question.missing_lane() {
        return Ok(Err(no_such_lane(missing)));
    }
    let mut stretch = scan::stretch(client, sql, filter).await?;
    stretch.last = stretch.last.min(below - 1);
    let size = page.size() as usize;
    let (mut meant, mut looked_at, mut next) = (Vec::new(), 0, None);
    'pages: while looked_at < PAGE_EVENTS_MAX {
        let heads = scan::page(client, sql, &Source::of(filter), stretch, Way::Down, STEP_EVENTS).await?;
        let answers = views::of(client, sql, &question, &heads).await?;
        for (head, views) in heads.iter().zip(answers) {
            if let Some(views) = views {
                if meant.len() == size {
                    next = Some(stretch.last + 1);
                    break 'pages;
                }
                meant.push((head.seq, views));
            }
            stretch.last = head.seq - 1;
        }
        looked_at += heads.len();
        if heads.len() < STEP_EVENTS {
            break;
        }
        next = (looked_at >= PAGE_EVENTS_MAX).then_some(stretch.last + 1);
    }
    let (records, cut) = records(client, sql, meant, page.with_payload).await?;
    let mut found = Found::default();
    found.records = records;
    found.next = cut.or(next).map(|below| below.to_string());
    Ok(Ok(found))
}

/// The records of what was found, the newest first; cut where they carry too much, and where they go on then.
async fn records(
    client: &Client,
    sql: &PostgresSql,
    meant: Vec<(i64, Vec<LaneView>)>,
    with_payload: bool,
) -> Db<(Vec<Record>, Option<i64>)> {
    let text = if with_payload { &sql.event_get } else { &sql.event_look };
    // With payloads few at a time, so that a page of large ones does not fill the memory.
    let step = if with_payload { 16 } else { meant.len().max(1) };
    let (mut records, mut bytes, mut last) = (Vec::new(), 0, None);
    for part in meant.chunks(step) {
        if bytes >= PAGE_BYTES_MAX {
            return Ok((records, last));
        }
        let seqs: Vec<i64> = part.iter().map(|(seq, _)| *seq).collect();
        let mut rows = client.query_typed(text, &args![seqs]).await?;
        // They come in the order of the log.
        rows.reverse();
        for row in &rows {
            let event = rows::event(row)?;
            let mut record = Record::new(event.seq, event.envelope, event.payload_bytes, event.created_at);
            bytes += record.envelope.payload.len() as u64;
            if let Some((_, views)) = part.iter().find(|(seq, _)| *seq == event.seq) {
                record.lanes = views.clone();
            }
            last = Some(event.seq);
            records.push(record);
        }
    }
    Ok((records, None))
}
