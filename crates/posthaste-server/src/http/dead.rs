//! `GET /v1/dead` and `GET /v1/dead/codes`: what died, and of what; in the store, or at a broker.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::field::Field;
use posthaste::admin::{EventState, Page};
use posthaste::review::DeadCodes;

use super::app::App;
use super::problem::{Kind, Problem, is_own_words};
use super::query::{Asked, choosing};
use super::wire::{DeadCodePage, EventPage};
use super::{events, letters};

/// How many dead letters of a broker are counted by code: it gives them one by one, and takes them back.
pub(crate) const LETTERS_MAX: u32 = 1_000;

/// Dead events, the newest first, without their payloads.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<EventPage>, Problem> {
    let mut asked = Asked::of(&uri)?;
    let (broker, group) = (asked.text("broker")?, asked.text("group")?);
    let (mut filter, page) = (asked.filter(choosing())?, asked.page()?);
    asked.end()?;
    filter.state = Some(EventState::Dead);
    let found = match app.letters.asked((broker.as_deref(), group.as_deref()), &mut filter)? {
        Some(letters) => letters.find(&filter, page).await.map_err(letters::refused)?,
        None => app.store.find(&filter, page).await.map_err(events::refused)?,
    };
    Ok(Json(EventPage::of(&found)))
}

/// Dead events counted by lane and code, the most frequent first.
pub(super) async fn codes(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<DeadCodePage>, Problem> {
    let mut asked = Asked::of(&uri)?;
    let (broker, group) = (asked.text("broker")?, asked.text("group")?);
    let mut filter = asked.filter(counting())?;
    asked.end()?;
    let at = (broker.as_deref(), group.as_deref());
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

/// The fields by which dead events are chosen that are counted by code.
pub(crate) fn counting() -> impl Iterator<Item = &'static Field> {
    choosing().filter(|field| matches!(field.name, "lane" | "code" | "error"))
}
