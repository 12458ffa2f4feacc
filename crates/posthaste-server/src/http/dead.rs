//! `GET /v1/dead` and `GET /v1/dead/codes`: what died, and of what; in the store, or at a broker.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::{EventState, Filter, Page};
use posthaste::review::DeadCodes;
use serde::Deserialize;

use super::app::App;
use super::problem::{Kind, Problem, is_own_words};
use super::query::{FilterText, bad, error_text, page, query, query_and_ids};
use super::wire::{DeadCodePage, EventPage};
use super::{events, letters};

/// How many dead letters of a broker are counted by code: it gives them one by one, and takes them back.
pub(crate) const LETTERS_MAX: u32 = 1_000;

/// The query of `GET /v1/dead`; everything that is there must match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    lane: Option<String>,
    broker: Option<String>,
    group: Option<String>,
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

/// Dead events, the newest first, without their payloads.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<EventPage>, Problem> {
    let (asked, ids) = query_and_ids::<ListQuery>(&uri)?;
    let ListQuery { lane, broker, group, event_type, topic, key, since, until, code, error, limit, after } =
        asked;
    let text = FilterText { lane, state: None, ids, event_type, topic, key, since, until, code, error };
    let (mut filter, page) = (text.understood()?, page(limit, after)?);
    filter.state = Some(EventState::Dead);
    let found = match app.letters.asked((broker.as_deref(), group.as_deref()), &mut filter)? {
        Some(letters) => letters.find(&filter, page).await.map_err(letters::refused)?,
        None => app.store.find(&filter, page).await.map_err(events::refused)?,
    };
    Ok(Json(EventPage::of(&found)))
}

/// The query of `GET /v1/dead/codes`; everything that is there must match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodesQuery {
    lane: Option<String>,
    broker: Option<String>,
    group: Option<String>,
    code: Option<String>,
    error: Option<String>,
}

/// Dead events counted by lane and code, the most frequent first.
pub(super) async fn codes(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<DeadCodePage>, Problem> {
    let asked: CodesQuery = query(&uri)?;
    let mut filter = Filter::default();
    filter.lane = asked.lane.map(|lane| lane.parse()).transpose().map_err(bad("lane"))?;
    filter.code = asked.code;
    filter.error = error_text(asked.error)?;
    let at = (asked.broker.as_deref(), asked.group.as_deref());
    if let Some(letters) = app.letters.asked(at, &mut filter)? {
        filter.state = Some(EventState::Dead);
        let found = letters.find(&filter, Page::first(LETTERS_MAX)).await.map_err(letters::refused)?;
        let codes = DeadCodes::of(&filter, &found.records, found.next.is_some());
        return Ok(Json(DeadCodePage::of(&codes)));
    }
    let codes = app.store.dead_by_code(&filter).await.map_err(|error| match error.kind() {
        // There is nothing wrong with the query: the store has no codes, and says so.
        ErrorKind::Rejected if is_own_words(&error) => Problem::new(Kind::NotFound, error.to_string()),
        _ => error.into(),
    })?;
    Ok(Json(DeadCodePage::of(&codes)))
}
