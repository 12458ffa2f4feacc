//! `POST /v1/events`: one event or a batch, in any of the forms that [`form`] knows, answered after the commit.

mod body;
mod cloudevents;
mod data;
mod form;
mod members;
pub(crate) mod percent;
mod plain;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use metrics::counter;
use posthaste::envelope::Envelope;
use posthaste::publisher::Published;
use posthaste::telemetry::{label, metric};

pub(super) use body::{Budget, discard};
use form::{Events, Form};

use super::app::App;
use super::problem::{Kind, Problem};
use super::wire::{PublishedBatch, PublishedEvent};
use crate::depth;

/// Stores the request's events, all or none: 201, or 200 when all of them were there before.
pub(super) async fn publish(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let form = Form::of(&headers)?;
    let limit = if form == Form::Binary { app.limits.payload_bytes_max } else { app.limits.json_bytes_max() };
    // Held until the commit: it bounds what all requests together keep in memory.
    let (body, _room) = body::read(&app, body, limit).await?;
    match form.read(&headers, body, &app.limits.source)? {
        Events::One(event) => {
            check(&app, &event)?;
            let id = event.id.clone();
            let status = store(&app, vec![*event]).await?;
            Ok((status, Json(PublishedEvent { id })).into_response())
        }
        Events::Many(events) => {
            for (index, event) in events.iter().enumerate() {
                check(&app, event).map_err(|problem| problem.in_event(index + 1))?;
            }
            let ids = events.iter().map(|event| event.id.clone()).collect();
            let status = store(&app, events).await?;
            Ok((status, Json(PublishedBatch { ids })).into_response())
        }
    }
}

/// Only a payload is "too large" to HTTP; a name or header over its limit is a mistake in the event.
fn check(app: &App, event: &Envelope) -> Result<(), Problem> {
    let payload_bytes_max = app.limits.payload_bytes_max;
    event.check(payload_bytes_max).map_err(|error| {
        let too_large = event.payload.len() > payload_bytes_max;
        Problem::new(if too_large { Kind::TooLarge } else { Kind::Invalid }, error.to_string())
    })?;
    depth::check(event, app.limits.json_depth_max)
        .map_err(|error| Problem::new(Kind::Invalid, error.to_string()))?;
    app.limits.lanes.check(event).map_err(|error| Problem::new(Kind::TooLarge, error.to_string()))
}

async fn store(app: &App, events: Vec<Envelope>) -> Result<StatusCode, Problem> {
    let outcomes = app.store.publish(events).await?;
    let new = outcomes.iter().filter(|outcome| **outcome == Published::Now).count();
    counter!(metric::PUBLISHED_TOTAL, label::VIA => "rest").increment(new as u64);
    Ok(if new == 0 { StatusCode::OK } else { StatusCode::CREATED })
}
