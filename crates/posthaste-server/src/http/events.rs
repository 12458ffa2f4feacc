//! `GET /v1/events` and `GET /v1/events/{id}`: looking at the log.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::{EventState, Filter, Page, Record};

use super::app::App;
use super::problem::{Kind, Problem};
use super::query::{Asked, NO_PAGE};
use super::wire::{EventDocument, EventPage};
use super::{history, letters};

/// How many events of one id, from several sources, are looked at.
const SAME_ID_MAX: u32 = 16;

/// Events that match, the newest first, without their payloads.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<EventPage>, Problem> {
    let mut asked = Asked::of(&uri)?;
    let (filter, page) = (asked.filter(Filter::FIELDS.iter())?, asked.page()?);
    asked.end()?;
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

/// One event with its payload, how the lanes see it, and what happened to it. `?source=` chooses where several sources use the id;
/// with `?broker=` and `?group=` it is a dead letter there.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<EventDocument>, Problem> {
    let mut asked = Asked::of(&uri)?;
    let [source, broker, group] = ["source", "broker", "group"].map(|name| asked.text(name));
    let (source, broker, group) = (source?, broker?, group?);
    asked.end()?;
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
