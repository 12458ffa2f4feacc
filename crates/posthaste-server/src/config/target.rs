//! `[targets.NAME]`: where lanes deliver to.

use secrecy::{ExposeSecret, SecretString};

use super::Config;
use super::section::Section;

/// A target with a name: one connection for all lanes that name it.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Its address; may hold a password.
    pub url: SecretString,
}

impl TargetConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self { url: section.secret("url") };
        section.require_present("url", config.url.expose_secret());
        let known = posthaste::target::check(config.url.expose_secret());
        section.require("url", known.is_ok(), || {
            format!("is wrong: {}", known.err().map_or(String::new(), |error| error.to_string()))
        });
        config
    }
}

/// Every address that lanes deliver to, with what it is called: targets by their names, and what lanes name directly.
pub fn addresses(config: &Config) -> Vec<(String, String)> {
    let named = config.targets.iter();
    let named = named.map(|(name, target)| (format!("target {name}"), target.url.expose_secret().to_owned()));
    let direct = config.lanes.iter().filter(|(_, lane)| lane.goes_to_url());
    named.chain(direct.map(|(name, lane)| (format!("target of lane {name}"), lane.to.clone()))).collect()
}
