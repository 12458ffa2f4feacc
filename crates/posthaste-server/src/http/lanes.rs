//! `GET /v1/lanes`: every lane with its totals.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::app::App;
use super::problem::Problem;
use super::wire::LanePage;

/// Every lane with its totals.
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<LanePage>, Problem> {
    Ok(Json(LanePage::of(&app.store.lanes().await?)))
}
