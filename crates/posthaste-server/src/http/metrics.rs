//! `/metrics`: what the process counted, and how the lanes stand at this moment.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use posthaste::admin::{LaneState, LaneStats, all_lanes};
use posthaste::telemetry::{label, metric};
use posthaste::time::{Clock, SystemClock, Timestamp};
use tokio::time::timeout;

use super::app::App;

/// How often [`Metrics::upkeep`] must be called: samples of histograms pile up in memory until it is.
pub const UPKEEP_EVERY: Duration = Duration::from_secs(5);
const LANES_WITHIN: Duration = Duration::from_secs(2);
const SECONDS_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// What this process has counted.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Counts from now on, for the whole process. The facade has one recorder per process, so a second call answers the
    /// first one's.
    ///
    /// # Errors
    /// `Config` when somebody else has installed a recorder.
    pub fn install() -> posthaste::Result<Self> {
        static INSTALLED: OnceLock<Result<Metrics, String>> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
                .and_then(|builder| builder.install_recorder())
                .map(Metrics)
                .map_err(|error| error.to_string())
        });
        installed
            .clone()
            .map_err(|error| posthaste::Error::config(format!("install the metrics recorder: {error}")))
    }

    /// Moves samples into their buckets.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Everything in the text format of Prometheus. If the store does not answer, the lanes are left out: no figure is better
/// than one of some other time.
pub(super) async fn scrape(State(app): State<Arc<App>>) -> impl IntoResponse {
    let mut text = app.metrics.0.render();
    match timeout(LANES_WITHIN, all_lanes(&*app.store)).await {
        Ok(Ok(lanes)) => {
            // A relay of this process knows only of lanes that it drove; the store knows of all, and how each is now.
            text = without(&text, metric::LANE_STATE);
            lane_gauges(&mut text, &lanes, SystemClock.now());
        }
        Ok(Err(error)) => tracing::warn!(%error, "metrics without lanes: the store failed"),
        Err(_) => tracing::warn!("metrics without lanes: the store did not answer within 2 s"),
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// The text without this metric.
fn without(text: &str, name: &str) -> String {
    let is_of =
        |line: &str| line.trim_start_matches("# TYPE ").trim_start_matches("# HELP ").starts_with(name);
    text.lines().filter(|line| !is_of(line)).map(|line| format!("{line}\n")).collect()
}

/// What [`metric::LANE_STATE`] says.
fn state_number(lane: &LaneStats) -> u8 {
    match lane.state {
        LaneState::Active => 1,
        LaneState::Error => 3,
        _ => 2,
    }
}

fn lane_gauges(text: &mut String, lanes: &[LaneStats], now: Timestamp) {
    let age = |oldest: Option<Timestamp>| oldest.map_or(0.0, |at| now.since(at).as_secs_f64());
    gauge(text, lanes, metric::LANE_STATE, state_number);
    gauge(text, lanes, metric::LANE_UNREAD, |lane| lane.unread);
    gauge(text, lanes, metric::LANE_WAITING, |lane| lane.waiting);
    gauge(text, lanes, metric::LANE_DEAD, |lane| lane.dead);
    gauge(text, lanes, metric::LANE_OLDEST_UNREAD_SECONDS, |lane| age(lane.oldest_unread_at));
    gauge(text, lanes, metric::LANE_OLDEST_WAITING_SECONDS, |lane| age(lane.oldest_waiting_at));
}

fn gauge<T: std::fmt::Display>(
    text: &mut String,
    lanes: &[LaneStats],
    name: &str,
    of: impl Fn(&LaneStats) -> T,
) {
    // Writing to a String cannot fail; a lane's name needs no escaping.
    let _ = writeln!(text, "# TYPE {name} gauge");
    for lane in lanes {
        let _ = writeln!(text, "{name}{{{}=\"{}\"}} {}", label::LANE, lane.lane, of(lane));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_s_state_is_told_once_and_as_the_store_knows_it() {
        let of_relay = "# TYPE posthaste_lane_state gauge\nposthaste_lane_state{lane=\"main\"} 1\n\n# TYPE other gauge\nother 5\n";
        let mut text = without(of_relay, metric::LANE_STATE);
        assert_eq!(text, "\n# TYPE other gauge\nother 5\n");
        let states = [
            LaneState::Active,
            LaneState::Paused,
            LaneState::Unavailable,
            LaneState::Retired,
            LaneState::Error,
        ];
        let lanes = states.map(|state| {
            let mut lane = LaneStats::new(state.name().parse().unwrap());
            lane.state = state;
            lane
        });
        lane_gauges(&mut text, &lanes, Timestamp::from_micros(0));
        for (lane, number) in [("active", 1), ("paused", 2), ("unavailable", 2), ("retired", 2), ("error", 3)]
        {
            let line = format!("posthaste_lane_state{{lane=\"{lane}\"}} {number}\n");
            assert!(text.contains(&line), "{line:?} is not in {text}");
        }
    }

    #[test]
    fn a_lane_is_shown_with_its_backlog_and_its_age() {
        let mut lane = LaneStats::new("main".parse().unwrap());
        (lane.unread, lane.dead) = (7, 2);
        lane.oldest_unread_at = Some(Timestamp::from_micros(1_000_000));
        lane.oldest_waiting_at = Some(Timestamp::from_micros(500_000));
        let mut text = String::new();
        lane_gauges(&mut text, &[lane], Timestamp::from_micros(3_500_000));
        for line in [
            "# TYPE posthaste_lane_unread gauge\nposthaste_lane_unread{lane=\"main\"} 7\n",
            "posthaste_lane_waiting{lane=\"main\"} 0\n",
            "posthaste_lane_dead{lane=\"main\"} 2\n",
            "posthaste_lane_oldest_unread_seconds{lane=\"main\"} 2.5\n",
            "posthaste_lane_oldest_waiting_seconds{lane=\"main\"} 3\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
    }
}
