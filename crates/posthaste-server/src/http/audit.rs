//! `GET /v1/audit`: what was changed, and by whom.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::review::{AuditFilter, VERBS};

use super::app::App;
use super::problem::{Kind, Problem, is_own_words};
use super::query::{Asked, NO_PAGE, malformed};
use super::wire::AuditPage;

/// What was changed and by whom, the newest first.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<AuditPage>, Problem> {
    let mut asked = Asked::of(&uri)?;
    let (filter, page) = (filter(&mut asked)?, asked.page()?);
    asked.end()?;
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

/// Which records; everything that is there must match.
fn filter(asked: &mut Asked) -> Result<AuditFilter, Problem> {
    let mut filter = AuditFilter::default();
    filter.actor = asked.text("actor")?;
    filter.verb = asked.text("verb")?;
    if let Some(verb) = filter.verb.as_deref().filter(|verb| !VERBS.contains(verb)) {
        return Err(malformed(format!("verb: {verb:?} is none of {}", VERBS.join(", "))));
    }
    filter.since = asked.parsed("since")?;
    filter.with_unchanged = asked.flag("all")?;
    Ok(filter)
}
