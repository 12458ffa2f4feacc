//! `GET /v1/audit`: what was changed, and by whom.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::Page;
use posthaste::review::{AuditFilter, VERBS};
use serde::Deserialize;

use super::app::App;
use super::problem::{Kind, Problem, is_own_words};
use super::query::{NO_PAGE, page, query, time};
use super::wire::AuditPage;

/// The query of `GET /v1/audit`; everything that is there must match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    actor: Option<String>,
    verb: Option<String>,
    since: Option<String>,
    /// Also what changed nothing.
    #[serde(default)]
    all: bool,
    limit: Option<u32>,
    after: Option<String>,
}

/// What was changed and by whom, the newest first.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<AuditPage>, Problem> {
    let (filter, page) = query::<AuditQuery>(&uri)?.understood()?;
    let begins = page.after.is_none();
    let audited = app.store.audited(&filter, page).await.map_err(|error| match error.kind() {
        // Without a page there is nothing wrong with the query: the store keeps no record, and says so.
        ErrorKind::Rejected if begins && is_own_words(&error) => {
            Problem::new(Kind::NotFound, error.to_string())
        }
        ErrorKind::Rejected if !begins => Problem::new(Kind::Malformed, NO_PAGE),
        _ => error.into(),
    })?;
    Ok(Json(AuditPage::of(&audited)))
}

impl AuditQuery {
    fn understood(self) -> Result<(AuditFilter, Page), Problem> {
        let mut filter = AuditFilter::default();
        filter.actor = self.actor;
        if let Some(verb) = self.verb.as_deref().filter(|verb| !VERBS.contains(verb)) {
            let detail = format!("verb: {verb:?} is none of {}", VERBS.join(", "));
            return Err(Problem::new(Kind::Malformed, detail));
        }
        filter.verb = self.verb;
        filter.since = time("since", self.since)?;
        filter.with_unchanged = self.all;
        Ok((filter, page(self.limit, self.after)?))
    }
}
