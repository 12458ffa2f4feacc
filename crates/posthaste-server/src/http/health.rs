//! `/healthz`, `/readyz` and `/version`: for whoever keeps the process running. They need no key and tell no secrets.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use posthaste::admin::LaneState;
use posthaste::schema::Backend;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::app::App;
use super::wire::{CheckDocument, ReadinessDocument, VersionDocument};

/// How long the store may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer is used again, so that questions without a key cannot load the store.
const ANSWER_KEPT_FOR: Duration = Duration::from_secs(1);

/// The process is alive; nothing else is asked.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Which server this is.
pub(super) async fn version() -> Json<VersionDocument> {
    Json(VersionDocument { name: "posthaste".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Whether the server can work: 200, or 503 with what is wrong. A lane whose target is away is told as well, and no reason
/// for a 503: events are taken, kept, and delivered later.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let checks = app.readiness.look(&*app.store).await;
    let ok = checks.iter().all(|check| check.status != FAILED);
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = if ok { "ready" } else { "not ready" };
    (status, Json(ReadinessDocument { status: word.to_owned(), checks })).into_response()
}

const FAILED: &str = "failed";
const WAITING: &str = "waiting";

/// The last answer of the store.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Vec<CheckDocument>)>>);

impl Readiness {
    /// Asks the store, unless it was asked a moment ago. Whoever comes meanwhile waits for the same answer.
    async fn look(&self, store: &dyn Backend) -> Vec<CheckDocument> {
        let mut last = self.0.lock().await;
        if let Some((at, checks)) = &*last
            && at.elapsed() < ANSWER_KEPT_FOR
        {
            return checks.clone();
        }
        let detail = why_not(store).await.map(str::to_owned);
        let status = if detail.is_none() { "ok" } else { FAILED };
        let is_there = detail.is_none();
        let mut checks = vec![CheckDocument { name: "store".to_owned(), status: status.to_owned(), detail }];
        if is_there {
            checks.extend(waiting_lanes(store).await);
        }
        *last = Some((Instant::now(), checks.clone()));
        checks
    }
}

/// The lanes whose target does not take events. Why is told to those who have a key.
async fn waiting_lanes(store: &dyn Backend) -> Vec<CheckDocument> {
    let lanes = match timeout(ANSWER_WITHIN, store.lanes()).await {
        Ok(Ok(lanes)) => lanes,
        _ => Vec::new(),
    };
    let waiting = lanes.into_iter().filter(|lane| lane.state == LaneState::Unavailable);
    waiting
        .map(|lane| CheckDocument {
            name: format!("lane {}", lane.lane),
            status: WAITING.to_owned(),
            detail: Some("its target does not take events; posthaste lane list says why".to_owned()),
        })
        .collect()
}

async fn why_not(store: &dyn Backend) -> Option<&'static str> {
    match timeout(ANSWER_WITHIN, store.status()).await {
        Ok(Ok(status)) if status.usable() => None,
        Ok(Ok(_)) => Some("the store's schema does not fit this version; run posthaste migrate status"),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store is not ready");
            Some("the store answers with an error; the server's log says which")
        }
        Err(_) => Some("the store did not answer within 2 s"),
    }
}
