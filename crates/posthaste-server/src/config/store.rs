//! `[store]`: where events are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste::prefix::TablePrefix;
use secrecy::{ExposeSecret, SecretString};

use super::section::Section;

/// The file beside an embedded database that holds the API key of the first start.
pub const KEY_FILE: &str = "posthaste.key";

/// Where events are kept, and for how long.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Its address; may hold a password.
    pub url: SecretString,
    /// What the names of its tables begin with.
    pub prefix: TablePrefix,
    /// How long delivered events are kept.
    pub retain: Duration,
    /// How long a lane that nobody drives may hold events back.
    pub retain_max: Duration,
    /// Whether every commit waits for the disk.
    pub synchronous: Synchronous,
}

/// When a commit of an embedded store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// After the disk has it: an acknowledged event survives a power cut.
    Full,
    /// Before: it survives the end of the process, but not a power cut.
    Normal,
}

impl StoreConfig {
    /// The file of an embedded store, without asking whether it is there.
    pub fn database_file(&self) -> Option<PathBuf> {
        let rest = self.url.expose_secret().strip_prefix("sqlite:")?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        let path = path.split('?').next().unwrap_or(path);
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    /// Where the API key of the first start lies: beside the database file.
    pub fn key_file(&self) -> Option<PathBuf> {
        let file = self.database_file()?;
        Some(file.parent().unwrap_or(Path::new("")).join(KEY_FILE))
    }

    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self {
            url: section.secret("url"),
            prefix: section.parsed("prefix"),
            retain: section.duration("retain"),
            retain_max: section.duration("retain_max"),
            synchronous: section
                .choice("synchronous", &[("full", Synchronous::Full), ("normal", Synchronous::Normal)]),
        };
        section.choice("engine", &[("log", ())]);
        section.require("url", config.has_known_scheme(), || {
            "is not the address of a store that this build has; write sqlite://FILE".to_owned()
        });
        section.require("retain_max", config.retain_max >= config.retain, || {
            "is shorter than retain; a lane that nobody drives would lose what a driven one keeps".to_owned()
        });
        config
    }

    fn has_known_scheme(&self) -> bool {
        self.database_file().is_some()
    }
}
