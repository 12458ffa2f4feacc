//! `[relay]`: how lanes are driven, and the relay that the whole configuration describes.

use std::time::Duration;

use super::section::Section;

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
    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self {
            id: section.text("id"),
            lease: section.duration("lease"),
            poll_max: section.duration("poll_max"),
            grace: section.duration("grace"),
        };
        section.within("lease", config.lease, Duration::from_secs(1)..=Duration::from_secs(3600));
        section.within("poll_max", config.poll_max, Duration::from_millis(1)..=Duration::from_secs(60));
        section.within("grace", config.grace, Duration::ZERO..=Duration::from_secs(3600));
        section.require("id", config.id.len() <= 128 && !config.id.chars().any(char::is_control), || {
            "must have at most 128 bytes and no control characters".to_owned()
        });
        config
    }
}
