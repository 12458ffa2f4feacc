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
        section.require("level", is_level(&config.level), || {
            "is not a level; write error, warn, info, debug or trace, or directives like info,posthaste_core=debug"
                .to_owned()
        });
        config
    }
}

/// Whether every directive is a level or `target=level`. The filter itself would take a misspelt level for a target, and
/// say nothing at all.
fn is_level(text: &str) -> bool {
    let known = ["off", "error", "warn", "info", "debug", "trace"];
    let directive =
        |part: &str| part.contains('=') || known.contains(&part.trim().to_ascii_lowercase().as_str());
    text.split(',').all(directive) && EnvFilter::try_new(text).is_ok()
}
