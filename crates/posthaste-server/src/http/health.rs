//! `/healthz`, `/readyz`, `/startupz`, `/stats` and `/version`: for whoever keeps the process running. They tell no secrets, and
//! no names of hosts: why something is away is in the log, and told to those who have a key.

mod kept;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use posthaste::admin::{LaneState, LaneStats, all_lanes};
use posthaste::heartbeat::Heartbeat;
use posthaste::relay::{Tenure, Trouble};
use posthaste::schema::Backend;
use posthaste::target::Target;
use posthaste::time::{Clock as _, SystemClock};
use tokio::time::{Instant, timeout, timeout_at};

use self::kept::Kept;
use super::app::App;
use super::problem::{Kind, Problem};
use super::wire::{CheckDocument, ReadinessDocument, StatsDocument, VersionDocument};

/// How long whatever is asked may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

const OK: &str = "ok";
const FAILED: &str = "failed";
const WAITING: &str = "waiting";

/// The process is alive and its loops turn: 200, or 503 with those that do not. A lane that ends by itself ends the process.
pub(super) async fn alive(State(app): State<Arc<App>>) -> (StatusCode, String) {
    let late = app.watched.loops.iter().filter(|heartbeat| heartbeat.is_late());
    let told = |heartbeat: &Heartbeat| {
        format!("{}: its loop has not turned for {} s\n", heartbeat.name(), heartbeat.age().as_secs())
    };
    let late: String = late.map(told).collect();
    if late.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, late)
}

/// Which server this is.
pub(super) async fn version() -> Json<VersionDocument> {
    Json(VersionDocument { name: "posthaste".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Whether the server can work: 200, or 503 with what is wrong.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let checks = app.readiness.look(&app).await;
    answered(checks.iter().all(|check| check.status != FAILED), ["ready", "not ready"], checks)
}

/// Whether the start is over: 503 until the store was there and of this version once, 200 ever after.
pub(super) async fn started(State(app): State<Arc<App>>) -> Response {
    let readiness = &app.readiness;
    let checks = if readiness.has_started() { Vec::new() } else { readiness.look(&app).await };
    answered(readiness.has_started(), ["started", "starting"], checks)
}

fn answered(is_well: bool, [well, otherwise]: [&str; 2], checks: Vec<CheckDocument>) -> Response {
    let (status, word) =
        if is_well { (StatusCode::OK, well) } else { (StatusCode::SERVICE_UNAVAILABLE, otherwise) };
    (status, Json(ReadinessDocument { status: word.to_owned(), checks })).into_response()
}

/// How much is to be done, over all lanes.
pub(super) async fn stats(State(app): State<Arc<App>>) -> Result<Json<StatsDocument>, Problem> {
    let counted = app.readiness.stats.get(|| async {
        match timeout(ANSWER_WITHIN, all_lanes(&*app.store)).await {
            Ok(Ok(lanes)) => Ok(StatsDocument::of(&lanes, SystemClock.now())),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store does not say how much is to be done");
                Err("the store answers with an error; the server's log says which")
            }
            Err(_) => Err("the store did not answer within 2 s"),
        }
    });
    counted.await.map(Json).map_err(|why| Problem::new(Kind::Unavailable, why))
}

/// What readiness and liveness look at: targets, loops that must turn, and lanes that somebody must drive.
#[derive(Clone, Default)]
pub struct Watched {
    /// Each with a name that may be told to anybody.
    pub targets: Vec<(String, Arc<dyn Target>)>,
    /// Whether an unreachable target, or a lane that nobody drives, makes the process unready. A process that
    /// accepts events and keeps them is ready without.
    pub are_needed: bool,
    /// What must turn for the process to count as alive.
    pub loops: Vec<Heartbeat>,
    /// The lanes that this process drives.
    pub tenures: Vec<Tenure>,
}

/// What was answered a moment ago, and whether the start is over.
#[derive(Default)]
pub(super) struct Readiness {
    checks: Kept<Vec<CheckDocument>>,
    stats: Kept<Result<StatsDocument, &'static str>>,
    has_started: AtomicBool,
}

impl Readiness {
    fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Relaxed)
    }

    /// Asks the store and the targets, each by itself, so that one that hangs hides no other.
    async fn look(&self, app: &App) -> Vec<CheckDocument> {
        let ask = || async {
            let (store, targets) = tokio::join!(of_store(&*app.store), of_targets(&app.watched));
            if store.iter().all(|check| check.status != FAILED) {
                self.has_started.store(true, Ordering::Relaxed);
            }
            let lanes: Vec<_> =
                app.watched.tenures.iter().filter_map(|tenure| of_tenure(tenure, &app.watched)).collect();
            let mut store = store;
            // What this process knows of a lane says more than the lane's row.
            store.retain(|check| lanes.iter().all(|lane| lane.name != check.name));
            [store, lanes, targets].concat()
        };
        self.checks.get(ask).await
    }
}

fn check(name: String, status: &str, detail: Option<&str>) -> CheckDocument {
    CheckDocument { name, status: status.to_owned(), detail: detail.map(str::to_owned) }
}

async fn of_store(store: &dyn Backend) -> Vec<CheckDocument> {
    // One limit for both questions: whoever asks us has one too.
    let answer_by = Instant::now() + ANSWER_WITHIN;
    match why_not(store, answer_by).await {
        Some(why) => vec![check("store".to_owned(), FAILED, Some(why))],
        None => {
            let mut checks = vec![check("store".to_owned(), OK, None)];
            let lanes = timeout_at(answer_by, all_lanes(store)).await;
            checks.extend(lanes.into_iter().flatten().flatten().filter_map(of_lane));
            checks
        }
    }
}

async fn why_not(store: &dyn Backend, answer_by: Instant) -> Option<&'static str> {
    match timeout_at(answer_by, store.status()).await {
        Ok(Ok(status)) if status.usable() => None,
        Ok(Ok(_)) => Some("the store's schema does not fit this version; run posthaste migrate status"),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store is not ready");
            Some("the store answers with an error; the server's log says which")
        }
        Err(_) => Some("the store did not answer within 2 s"),
    }
}

/// A lane that does not go on. No reason for a 503: events are taken, kept, and delivered later.
fn of_lane(lane: LaneStats) -> Option<CheckDocument> {
    let detail = match lane.state {
        LaneState::Active => return None,
        LaneState::Paused => "an operator paused it; posthaste lane resume ends that",
        LaneState::Unavailable => "its target does not take events; posthaste lane list says why",
        _ => "something must be mended first; posthaste lane list says what",
    };
    Some(check(format!("lane {}", lane.lane), WAITING, Some(detail)))
}

/// A lane that nobody seems to drive.
fn of_tenure(tenure: &Tenure, watched: &Watched) -> Option<CheckDocument> {
    let detail = match tenure.trouble()? {
        Trouble::NoLease(since) => {
            format!("the relay has had no lease for {} s; the server's log says why", since.as_secs())
        }
        _ => {
            "the relay gave it up, because the store is not as it must be; posthaste doctor says what to fix"
                .to_owned()
        }
    };
    let status = if watched.are_needed { FAILED } else { WAITING };
    Some(check(format!("lane {}", tenure.lane()), status, Some(&detail)))
}

async fn of_targets(watched: &Watched) -> Vec<CheckDocument> {
    let status_of_away = if watched.are_needed { FAILED } else { WAITING };
    let asked = watched.targets.iter().map(|(name, target)| async move {
        let detail = match timeout(ANSWER_WITHIN, target.ping()).await {
            Ok(Ok(())) => return check(name.clone(), OK, None),
            Ok(Err(error)) => {
                tracing::debug!(%error, target = name, "a target would not take events");
                "it would not take events now; posthaste doctor says why"
            }
            Err(_) => "it did not answer within 2 s; posthaste doctor says more",
        };
        check(name.clone(), status_of_away, Some(detail))
    });
    join_all(asked).await
}
