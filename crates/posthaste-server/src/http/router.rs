//! The table of routes, and the layers around every request.

use std::any::Any;
use std::sync::Arc;

use ::metrics::{counter, histogram};
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use posthaste::telemetry::{label, metric, span};
use tokio::time::{Instant, timeout};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;

use super::app::App;
use super::problem::{Kind, Problem};
use super::{audit, auth, commands, dead, events, health, jobs, lanes, metrics, proof, publish, strict};

/// Which address a router serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// REST, health, and figures and metrics for whoever has a key.
    Public,
    /// Health, figures and metrics on an address that the operator keeps private, for which no key is asked; and looking and commands, which
    /// need one here too.
    Admin,
}

/// A path and what answers there.
type Route = (&'static str, MethodRouter<Arc<App>>);

/// What anybody may ask.
fn open() -> Vec<Route> {
    vec![
        ("/healthz", get(health::alive)),
        ("/readyz", get(health::ready)),
        ("/startupz", get(health::started)),
        ("/version", get(health::version)),
        ("/openapi.json", get(openapi)),
        (crate::proof::PATH, get(proof::prove)),
    ]
}

/// Whether a request for this path is answered although the server has no room for more connections.
pub(super) fn is_for_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/startupz" | "/metrics")
}

/// Figures, which need a key but on the admin address.
fn figures() -> Vec<Route> {
    vec![("/metrics", get(metrics::scrape)), ("/stats", get(health::stats))]
}

/// What needs a key; publishing is not for the admin address.
fn keyed(face: Face) -> Vec<Route> {
    let events = get(events::list);
    vec![
        ("/v1/events", if face == Face::Public { events.post(publish::publish) } else { events }),
        ("/v1/events/{id}", get(events::show)),
        ("/v1/dead", get(dead::list)),
        ("/v1/dead/codes", get(dead::codes)),
        ("/v1/lanes", get(lanes::list)),
        ("/v1/lanes/{lane}", get(lanes::show)),
        ("/v1/audit", get(audit::list)),
        ("/v1/commands/{verb}", post(commands::give)),
        ("/v1/jobs", get(jobs::list)),
        ("/v1/jobs/{job}", get(jobs::show).delete(jobs::stop)),
    ]
}

/// Every path of this face.
pub fn paths(face: Face) -> Vec<&'static str> {
    [open(), figures(), keyed(face)].concat().into_iter().map(|(path, _)| path).collect()
}

fn with(routes: Vec<Route>) -> Router<Arc<App>> {
    routes.into_iter().fold(Router::new(), |router, (path, answers)| router.route(path, answers))
}

/// The routes of this face. Whatever is not named as open here needs a key, also paths that do not exist.
pub fn router(app: Arc<App>, face: Face) -> Router {
    let (open, keyed) = match face {
        Face::Admin => ([open(), figures()].concat(), keyed(face)),
        Face::Public => (open(), [figures(), keyed(face)].concat()),
    };
    let keyed = with(keyed)
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&app), auth::need_key));
    with(open)
        .merge(keyed)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(strict::need_well_formed))
        .layer(from_fn_with_state(Arc::clone(&app), in_time))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe))
        .with_state(app)
}

/// All of it for programs.
async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("openapi.json"))
}

async fn not_found() -> Problem {
    Problem::new(
        Kind::NotFound,
        "there is nothing at this path; events are at /v1/events, lanes at /v1/lanes, the record of commands at /v1/audit; /openapi.json describes all",
    )
}

async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "use one of the methods that the header Allow names")
}

/// Ends a request that takes too long. What it asked of the store may still happen.
async fn in_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match timeout(app.limits.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = "the request took too long and may or may not have been carried out; send it again, with the same ids";
            Problem::new(Kind::Unavailable, detail).into_response()
        }
    }
}

fn panicked(cause: Box<dyn Any + Send + 'static>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(error = text, "a request's handler panicked");
    Problem::new(Kind::Internal, "the server's log says what went wrong; tell whoever operates it")
        .into_response()
}

/// Counts and times every request by its route, never by its path, and says that answers are not to be stored.
async fn observe(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let span = tracing::debug_span!(span::REQUEST, method = %request.method(), route);
    let begun = Instant::now();
    let mut response = next.run(request).instrument(span).await;
    let status = response.status().as_u16().to_string();
    histogram!(metric::HTTP_SECONDS, label::ROUTE => route.clone()).record(begun.elapsed());
    counter!(metric::HTTP_REQUESTS_TOTAL, label::ROUTE => route, label::STATUS => status).increment(1);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
