//! Logs: JSON in production, text on a terminal, never on stdout.

use std::io::{self, IsTerminal};

use posthaste::telemetry::AUDIT_TARGET;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Config;
use crate::config::log::LogFormat;

/// Begins to log on stderr as configured. `long_running` verbs say what they do; the others speak only when something is
/// wrong, unless a level was chosen.
pub fn start(config: &Config, long_running: bool) {
    let chosen = config.log.level != Config::defaults().log.level;
    let level = if long_running || chosen { config.log.level.as_str() } else { "warn" };
    let filter = EnvFilter::try_new(quiet(level)).unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = io::stderr().is_terminal();
    let json = match config.log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => long_running && !terminal,
    };
    let registry = tracing_subscriber::registry().with(filter);
    // A second call in one process (a test) keeps what the first has set.
    let _ = if json {
        registry.with(fmt::layer().json().flatten_event(true).with_writer(io::stderr)).try_init()
    } else {
        registry.with(fmt::layer().with_ansi(terminal).with_target(false).with_writer(io::stderr)).try_init()
    };
}

/// RabbitMQ's client logs whole messages, payload and all, and what we log about its connections ourselves: it is heard only
/// when it is asked for. What is the only record of a command is always heard.
fn quiet(level: &str) -> String {
    let lapin = if level.contains("lapin") { "" } else { ",lapin=off" };
    format!("{level}{lapin},{AUDIT_TARGET}=info")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_of_rabbitmq_is_quiet_unless_it_is_asked_for() {
        assert_eq!(quiet("info"), "info,lapin=off,posthaste::audit=info");
        assert_eq!(quiet("warn,lapin=debug"), "warn,lapin=debug,posthaste::audit=info");
        assert!(EnvFilter::try_new(quiet("info,posthaste_core=debug")).is_ok());
    }
}
