//! `[log]`: what the process says about itself, on stderr.

use tracing_subscriber::EnvFilter;

use super::section::Section;

/// What the process says about itself.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// What is said: a level, or directives like `info,posthaste_core=debug`.
    pub level: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

impl LogConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let formats = [("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
        let config = Self { format: section.choice("format", &formats), level: section.text("level") };
        section.require("level", EnvFilter::try_new(&config.level).is_ok(), || {
            "is not a level; write error, warn, info, debug or trace, or directives like info,posthaste_core=debug"
                .to_owned()
        });
        config
    }
}
