//! `GET /v1/dead/codes`: what events died of.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::Filter;
use serde::Deserialize;

use super::app::App;
use super::problem::{Kind, Problem};
use super::query::{bad, error_text, query};
use super::wire::DeadCodePage;

/// The query of `GET /v1/dead/codes`; everything that is there must match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodesQuery {
    lane: Option<String>,
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
    let codes = app.store.dead_by_code(&filter).await.map_err(|error| match error.kind() {
        // There is nothing wrong with the query: the store has no codes, and says so.
        ErrorKind::Rejected => Problem::new(Kind::NotFound, error.to_string()),
        _ => error.into(),
    })?;
    Ok(Json(DeadCodePage::of(&codes)))
}
