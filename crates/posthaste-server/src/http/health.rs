//! `/healthz`, `/readyz` and `/version`: for whoever keeps the process running. They need no key and tell no secrets.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
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

/// Whether the server can work: 200, or 503 with what is wrong.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let check = app.readiness.store(&*app.store).await;
    let ok = check.detail.is_none();
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = if ok { "ready" } else { "not ready" };
    (status, Json(ReadinessDocument { status: word.to_owned(), checks: vec![check] })).into_response()
}

/// The last answer of the store.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, CheckDocument)>>);

impl Readiness {
    /// Asks the store, unless it was asked a moment ago. Whoever comes meanwhile waits for the same answer.
    async fn store(&self, store: &dyn Backend) -> CheckDocument {
        let mut last = self.0.lock().await;
        if let Some((at, check)) = &*last
            && at.elapsed() < ANSWER_KEPT_FOR
        {
            return check.clone();
        }
        let detail = why_not(store).await.map(str::to_owned);
        let status = if detail.is_none() { "ok" } else { "failed" };
        let check = CheckDocument { name: "store".to_owned(), status: status.to_owned(), detail };
        *last = Some((Instant::now(), check.clone()));
        check
    }
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
