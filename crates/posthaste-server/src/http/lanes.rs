//! `GET /v1/lanes` and `GET /v1/lanes/{lane}`: lanes with their totals.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use posthaste::admin::all_lanes;

use super::app::App;
use super::problem::{Kind, Problem};
use super::wire::{LaneDocument, LanePage};

/// One lane with its totals.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<LaneDocument>, Problem> {
    let lanes = all_lanes(&*app.store).await?;
    let lane = lanes.iter().find(|stats| stats.lane.as_str() == name);
    let lane =
        lane.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such lane; GET /v1/lanes lists them"))?;
    Ok(Json(LaneDocument::of(lane)))
}

/// Every lane with its totals.
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<LanePage>, Problem> {
    Ok(Json(LanePage::of(&all_lanes(&*app.store).await?)))
}
