//! `GET /v1/events` and `GET /v1/events/{id}`: looking at the log.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::{EventState, Filter, Page, Record};
use serde::Deserialize;

use super::app::App;
use super::problem::{Kind, Problem};
use super::query::{FilterText, NO_PAGE, page, query, query_and_ids};
use super::wire::{EventDocument, EventPage};
use super::{history, letters};

/// How many events of one id, from several sources, are looked at.
const SAME_ID_MAX: u32 = 16;

/// The query of `GET /v1/events`; everything that is there must match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    lane: Option<String>,
    state: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    topic: Option<String>,
    key: Option<String>,
    since: Option<String>,
    until: Option<String>,
    code: Option<String>,
    error: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

/// Events that match, the newest first, without their payloads.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<EventPage>, Problem> {
    let (asked, ids) = query_and_ids::<ListQuery>(&uri)?;
    let (filter, page) = asked.understood(ids)?;
    let found = app.store.find(&filter, page).await.map_err(refused)?;
    Ok(Json(EventPage::of(&found)))
}

/// What a store refuses here is a part of the query, and not an event.
pub(super) fn refused(error: posthaste::Error) -> Problem {
    match error.kind() {
        ErrorKind::Rejected => Problem::new(Kind::Malformed, NO_PAGE),
        ErrorKind::NotFound => {
            Problem::new(Kind::NotFound, "there is no such lane; GET /v1/lanes lists them")
        }
        _ => error.into(),
    }
}

impl ListQuery {
    fn understood(self, ids: Vec<String>) -> Result<(Filter, Page), Problem> {
        let Self { lane, state, event_type, topic, key, since, until, code, error, limit, after } = self;
        let text = FilterText { lane, state, ids, event_type, topic, key, since, until, code, error };
        Ok((text.understood()?, page(limit, after)?))
    }
}

/// The query of `GET /v1/events/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowQuery {
    source: Option<String>,
    broker: Option<String>,
    group: Option<String>,
}

/// One event with its payload, how the lanes see it, and what happened to it. `?source=` chooses where several sources use the id;
/// with `?broker=` and `?group=` it is a dead letter there.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<EventDocument>, Problem> {
    let ShowQuery { source, broker, group } = query(&uri)?;
    let mut filter = Filter::default();
    filter.ids = vec![id];
    let letters = app.letters.asked((broker.as_deref(), group.as_deref()), &mut filter)?;
    if letters.is_some() {
        filter.state = Some(EventState::Dead);
    }
    let page = page_of_one();
    let mut records = match &letters {
        Some(letters) => letters.find(&filter, page).await.map_err(letters::refused)?.records,
        None => app.store.find(&filter, page).await?.records,
    };
    if let Some(source) = source {
        records.retain(|record| record.envelope.source == source);
    }
    let record = only(records)?;
    if letters.is_some() {
        return Ok(Json(history::without_commands(&record)));
    }
    Ok(Json(history::of(&*app.store, &record).await?))
}

/// All events with one id, with their payloads.
pub(crate) fn page_of_one() -> Page {
    let mut page = Page::first(SAME_ID_MAX);
    page.with_payload = true;
    page
}

fn only(mut records: Vec<Record>) -> Result<Record, Problem> {
    let found = records.pop();
    if !records.is_empty() {
        let detail = "several sources have an event with this id; say which one by source";
        return Err(Problem::new(Kind::Conflict, detail));
    }
    found.ok_or_else(|| {
        Problem::new(Kind::NotFound, "no event has this id (and source); it may have been pruned")
    })
}
