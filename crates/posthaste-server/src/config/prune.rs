//! `[prune]`: how often the server removes what it need not keep.

use std::time::Duration;

use super::section::Section;

/// How often the server removes what it need not keep.
#[derive(Clone, Debug)]
pub struct PruneConfig {
    /// The pause between two rounds.
    pub interval: Duration,
}

impl PruneConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self { interval: section.duration("interval") };
        section.within(
            "interval",
            config.interval,
            Duration::from_secs(1)..=Duration::from_secs(30 * 86_400),
        );
        config
    }
}
