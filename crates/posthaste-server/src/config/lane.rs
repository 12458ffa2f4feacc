//! `[lanes.NAME]`: which events go where, in what order, how many at once.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::lane::{OnDead, Order, Start};
use posthaste::pattern::Pattern;
use posthaste::retry::Backoff;

use super::retry;
use super::section::Section;
use super::target::TargetConfig;
use super::unit;

/// Which events go where.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// The topics it reads.
    pub topics: Vec<Pattern>,
    /// Where they go: a target's name or a URL.
    pub to: String,
    /// Where a new lane begins.
    pub start: Start,
    /// Whether it keeps the order of a key.
    pub order: Order,
    /// What a dead event does to its key.
    pub on_dead: OnDead,
    /// How many events may be sent and not answered; unless it is said, as many as the target proposes.
    pub window: Option<u32>,
    /// How many bytes these may have together.
    pub window_bytes: u64,
    /// How long an event's answer may take.
    pub timeout: Duration,
    /// When a failed event is tried again.
    pub retry: Backoff,
}

impl LaneConfig {
    pub(super) fn read(
        section: &Section<'_>,
        lease: Duration,
        targets: &BTreeMap<String, TargetConfig>,
        is_table: bool,
    ) -> Self {
        let orders = [("key", Order::PerKey), ("none", Order::None)];
        let mut config = Self {
            topics: section.list("topics"),
            to: section.text("to"),
            start: section.convert("start", start),
            order: section.choice("order", &orders),
            on_dead: section.choice("on_dead", &[("go on", OnDead::GoOn), ("block", OnDead::Block)]),
            window: Some(section.integer("window", 0..=100_000)).filter(|events| *events > 0),
            window_bytes: section.size("window_bytes", 64 * 1024..=1024 * 1024 * 1024),
            timeout: section.duration("timeout"),
            retry: section.table("retry", retry::read),
        };
        if is_table && section.is_default("order") {
            // In order per key, relays of one table claim one after another: only whoever wants it pays for it.
            config.order = Order::None;
        }
        section.require("topics", !config.topics.is_empty(), || {
            "names no topic, so nothing would go down this lane; write [\"#\"] for all".to_owned()
        });
        section.within("timeout", config.timeout, Duration::from_millis(1)..=Duration::from_secs(900));
        section.require("timeout", config.timeout < lease, || {
            let lease = unit::show_duration(lease);
            format!(
                "must be shorter than relay.lease ({lease}), so that an answer comes while the lane is owned"
            )
        });
        section.require_present("to", &config.to);
        if config.goes_to_url() {
            let known = posthaste::target::check(&config.to);
            section.require("to", known.is_ok(), || {
                format!("is wrong: {}", known.err().map_or(String::new(), |e| e.to_string()))
            });
        } else {
            section.require("to", targets.contains_key(&config.to), || {
                format!(
                    "names the target {:?}, which is not there; add [targets.{}] or write a URL",
                    config.to, config.to
                )
            });
        }
        config
    }

    /// Whether `to` is a URL rather than a target's name.
    pub fn goes_to_url(&self) -> bool {
        self.to.contains(':')
    }
}

fn start(text: &str) -> Result<Start, String> {
    match text {
        "beginning" => Ok(Start::Beginning),
        "now" => Ok(Start::Now),
        time => time.parse().map(Start::At).map_err(|_| {
            "is not a start; write \"beginning\", \"now\" or a time like 2026-11-15T21:52:03Z".to_owned()
        }),
    }
}
