//! `[relay]`: how lanes are driven, and the relay that the whole configuration describes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::target::Target;
use posthaste::{Error, Result};
use secrecy::ExposeSecret;

use super::Config;
use super::lane::LaneConfig;
use super::section::Section;

/// The lease of a row of a foreign table, unless configured: it is renewed in the table itself, so not often.
const TABLE_LEASE: Duration = Duration::from_secs(60);

/// How many windows of answers a lane of a foreign table keeps that are not recorded yet.
const TABLE_WINDOWS: usize = 4;

/// How lanes are driven.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The relay's name for people; empty: host name and a random suffix.
    pub id: String,
    /// How long a relay owns a lane without settling.
    pub lease: Duration,
    /// The longest pause between two looks at an idle store.
    pub poll_max: Duration,
    /// How long a stop waits for what is in flight.
    pub grace: Duration,
}

impl RelayConfig {
    pub(super) fn read(section: &Section<'_>, is_table: bool) -> Self {
        let mut config = Self {
            id: section.text("id"),
            lease: section.duration("lease"),
            poll_max: section.duration("poll_max"),
            grace: section.duration("grace"),
        };
        if is_table && section.is_default("lease") {
            config.lease = TABLE_LEASE;
        }
        section.within("lease", config.lease, Duration::from_secs(1)..=Duration::from_secs(3600));
        section.within("poll_max", config.poll_max, Duration::from_millis(1)..=Duration::from_secs(60));
        section.within("grace", config.grace, Duration::ZERO..=Duration::from_secs(3600));
        section.require("id", config.id.len() <= 128 && !config.id.chars().any(char::is_control), || {
            "must have at most 128 bytes and no control characters".to_owned()
        });
        config
    }
}

/// Everything that lanes deliver to, each opened once: by a target's name, or by the URL that a lane has instead.
#[derive(Clone, Default)]
pub struct Targets(BTreeMap<String, Opened>);

#[derive(Clone)]
struct Opened {
    /// What it may be called where anybody can read it.
    shown: String,
    target: Arc<dyn Target>,
}

impl Targets {
    /// Opens what the lanes of this configuration name, and all targets.
    ///
    /// # Errors
    /// `Config` for a target that cannot be opened.
    pub fn open(config: &Config) -> Result<Self> {
        let mut targets = Self::default();
        for (name, target) in &config.targets {
            targets.add(name, target.url.expose_secret(), &format!("target {name}"))?;
        }
        for (name, lane) in config.lanes.iter().filter(|(_, lane)| lane.goes_to_url()) {
            targets.add(&lane.to, &lane.to, &format!("target of lane {name}"))?;
        }
        Ok(targets)
    }

    /// Lanes that name the same URL share what it opens, as lanes that name the same target do.
    fn add(&mut self, called: &str, url: &str, shown: &str) -> Result<()> {
        if !self.0.contains_key(called) {
            let target = posthaste::target::open(url).map_err(|error| error.during(shown.to_owned()))?;
            self.0.insert(called.to_owned(), Opened { shown: shown.to_owned(), target });
        }
        Ok(())
    }

    /// Each with a name that may be told to anybody.
    pub fn shown(&self) -> Vec<(String, Arc<dyn Target>)> {
        self.0.values().map(|opened| (opened.shown.clone(), Arc::clone(&opened.target))).collect()
    }
}

/// The relay that a configuration describes, on this store: every configured lane, each with its target.
///
/// # Errors
/// `Config` for a lane whose target was not opened.
pub fn build(config: &Config, store: Arc<dyn Backend>, targets: &Targets) -> Result<Relay> {
    let RelayConfig { id, lease, poll_max, grace } = &config.relay;
    let id = if id.is_empty() { fresh_id() } else { id.clone() };
    let mut relay = Relay::new(store).id(id).poll_max(*poll_max).grace(*grace);
    for (name, lane) in &config.lanes {
        let opened = targets
            .0
            .get(&lane.to)
            .ok_or_else(|| Error::config(format!("lane {name}: its target was not opened")))?;
        let mut built = build_lane(name.as_str(), lane)?.to(Arc::clone(&opened.target)).lease(*lease);
        if config.store.table.is_some() {
            // What is answered and not recorded comes again after a crash; the owners of other relays expect a batch or two.
            let window = lane.window.unwrap_or(opened.target.capabilities().window);
            built = built.unsettled_max(window as usize * TABLE_WINDOWS);
        }
        relay = relay.lane(built);
    }
    Ok(relay)
}

fn build_lane(name: &str, lane: &LaneConfig) -> Result<Lane> {
    let built = Lane::named(name)?
        .topics(lane.topics.iter().map(|pattern| pattern.as_str()))?
        .start(lane.start)
        .order(lane.order)
        .on_dead(lane.on_dead)
        .window_bytes(lane.window_bytes)
        .timeout(lane.timeout)
        .retry(lane.retry.clone());
    Ok(match lane.window {
        Some(events) => built.window(events),
        None => built,
    })
}

/// The host's name and a random suffix, so that people see where a relay runs and two on one host differ.
fn fresh_id() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}-{:08x}", if host.is_empty() { "relay" } else { host }, fastrand::u32(..))
}
