//! Configuration: everything that can be set, from `config.default.toml` up to flags.
//!
//! [`DEFAULTS`] is documentation, defaults and schema in one. Reading is in three steps: gather the layers
//! ([`Sources::load`], the only one that touches files), join them into one tree in which every value knows where it came
//! from, and understand the tree (`Config::read`), which reports every mistake and stops at none.

pub mod environment;
pub mod lane;
pub mod log;
pub mod payload;
pub mod prune;
pub mod relay;
pub mod scope;
pub mod server;
pub mod store;
pub mod table;
pub mod target;
pub mod unit;

mod gather;
mod problem;
mod reference;
mod retry;
mod section;
#[cfg(test)]
mod tests;
mod tree;

use std::cell::RefCell;
use std::collections::BTreeMap;

use posthaste::lane::LaneName;

pub use environment::Environment;
pub use gather::{Flag, STORAGE_URL, Sources};
pub use problem::Problem;
#[cfg(feature = "conformance")]
pub(crate) use reference::is_one as is_of_reference;

use lane::LaneConfig;
use log::LogConfig;
use prune::PruneConfig;
use relay::RelayConfig;
use section::Section;
use server::ServerConfig;
use store::StoreConfig;
use target::TargetConfig;
use tree::{Layer, Table};

/// The default configuration: complete, commented, and the first layer.
pub const DEFAULTS: &str = include_str!("../../config.default.toml");

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where events are kept.
    pub store: StoreConfig,
    /// How lanes are driven.
    pub relay: RelayConfig,
    /// Targets by name.
    pub targets: BTreeMap<String, TargetConfig>,
    /// Lanes by name.
    pub lanes: BTreeMap<LaneName, LaneConfig>,
    /// The server.
    pub server: ServerConfig,
    /// The log.
    pub log: LogConfig,
    /// Retention by the server.
    pub prune: PruneConfig,
}

impl Config {
    /// The defaults alone.
    pub fn defaults() -> Self {
        Self::read(&Table::default()).expect("the embedded defaults are valid: a test reads them")
    }

    /// Understands a tree of settings. Pure: no file, no network, and it never stops at the first mistake.
    fn read(settings: &Table) -> Result<Self, Vec<Problem>> {
        let mut syntax = Vec::new();
        let defaults = Table::parse(DEFAULTS, Layer::Default, "config.default.toml", &mut syntax);
        let mut all = defaults.clone();
        all.overlay(settings.clone());
        let problems = RefCell::new(syntax);
        let config = Section::root(&all, &defaults, &problems).finish(Self::read_all);
        match problems.into_inner() {
            problems if problems.is_empty() => Ok(config),
            problems => Err(problems),
        }
    }

    fn read_all(root: &Section<'_>) -> Self {
        let store = root.table("store", StoreConfig::read);
        let is_table = store.table.is_some();
        let relay = root.table("relay", |section| RelayConfig::read(section, is_table));
        let targets = root.each("targets", |name, section| (name.to_owned(), TargetConfig::read(section)));
        let targets: BTreeMap<_, _> = targets.into_iter().collect();
        let lanes = root.each("lanes", |name, section| {
            let lane = LaneConfig::read(section, relay.lease, &targets, is_table);
            section.named::<LaneName>(name).map(|name| (name, lane))
        });
        Self {
            store,
            targets,
            lanes: lanes.into_iter().flatten().collect(),
            server: root.table("server", ServerConfig::read),
            log: root.table("log", LogConfig::read),
            prune: root.table("prune", PruneConfig::read),
            relay,
        }
    }
}
