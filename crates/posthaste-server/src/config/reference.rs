//! The environment variables of the open-outbox reference relay, so that its deployment need not change.
//!
//! They count for `posthaste relay` when `STORAGE_URL` is set, with the reference's defaults. They lie above the file and below
//! `POSTHASTE__…`. What has no meaning here, and what the reference does not know either, is reported.

use super::environment::Environment;
use super::problem::Problem;
use super::tree::{Layer, Origin, Table};

/// The variable that says that the others count.
const SWITCH: &str = "STORAGE_URL";

/// What the reference does unless told otherwise, in our words.
const DEFAULTS: [(&str, &str); 9] = [
    ("store.engine", "table"),
    ("store.profile", "open-outbox"),
    ("store.sweep_rows", "100"),
    ("relay.lease", "3m"),
    ("relay.poll_max", "500ms"),
    ("lanes.main.to", "stdout:"),
    ("lanes.main.window", "100"),
    ("lanes.main.order", "none"),
    ("lanes.main.retry.jitter", "additive:0.15"),
];

/// What becomes of a variable.
enum Meaning {
    /// It is this setting, as it is.
    Is(&'static str),
    /// It is this setting, after a change.
    Becomes(&'static str, fn(&str) -> Result<String, String>),
    /// It is part of what another one says.
    Part,
    /// It has no effect here, and why.
    Nothing(&'static str),
}

use Meaning::{Becomes, Is, Nothing, Part};

const LATER: &str = "the target's URL says it, or its default holds";

/// Every variable of the reference.
const VARIABLES: [(&str, Meaning); 37] = [
    ("STORAGE_URL", Is("store.url")),
    ("STORAGE_TYPE", Part),
    ("STORAGE_TABLE_NAME", Is("store.table")),
    ("PUBLISHER_TYPE", Part),
    ("PUBLISHER_URL", Part),
    ("POLL_INTERVAL", Is("relay.poll_max")),
    ("BATCH_SIZE", Is("lanes.main.window")),
    ("LEASE_TIMEOUT", Is("relay.lease")),
    ("REAP_BATCH_SIZE", Is("store.sweep_rows")),
    ("RELAY_ID", Is("relay.id")),
    ("RETRY_MAX_ATTEMPTS", Is("lanes.main.retry.attempts")),
    ("RETRY_BASE_DELAY", Is("lanes.main.retry.first")),
    ("RETRY_MAX_DELAY", Is("lanes.main.retry.cap")),
    ("RETRY_JITTER", Becomes("lanes.main.retry.jitter", jitter)),
    ("ENVIRONMENT", Becomes("log.format", format)),
    ("PUBLISHER_CONNECT_RETRY_INTERVAL", Nothing("a target that is away is asked again by itself")),
    ("HEALTH_CHECK_INTERVAL", Nothing("a target that is away is asked again by itself")),
    ("ENABLE_STATS", Nothing("totals are counted when somebody asks")),
    ("SERVER_PORT", Nothing("the relay listens nowhere")),
    ("NATS_PUBLISH_TIMEOUT", Is("lanes.main.timeout")),
    ("NATS_CONNECTION_TIMEOUT", Nothing(LATER)),
    ("REDIS_CONNECTION_TIMEOUT", Nothing(LATER)),
    ("REDIS_WRITE_TIMEOUT", Is("lanes.main.timeout")),
    ("KAFKA_BATCH_SIZE", Nothing(LATER)),
    ("KAFKA_BATCH_BYTES", Nothing(LATER)),
    ("KAFKA_BATCH_TIMEOUT", Nothing(LATER)),
    ("KAFKA_MAX_ATTEMPTS", Nothing("one attempt is one attempt")),
    ("KAFKA_WRITE_TIMEOUT", Is("lanes.main.timeout")),
    ("KAFKA_READ_TIMEOUT", Nothing(LATER)),
    ("KAFKA_CONNECTION_TIMEOUT", Nothing(LATER)),
    ("KAFKA_COMPRESSION", Nothing(LATER)),
    ("KAFKA_REQUIRED_ACKS", Nothing("all replicas are waited for")),
    ("KAFKA_ASYNC", Nothing("an event is delivered when the broker says so")),
    ("OTEL_TRACES_EXPORTER", Nothing("nothing is exported")),
    ("OTEL_METRICS_EXPORTER", Nothing("nothing is exported")),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", Nothing("nothing is exported")),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", Nothing("nothing is exported")),
];

/// What begins so is meant for the reference, or misspelt.
const PREFIXES: [&str; 7] = ["STORAGE_", "PUBLISHER_", "RETRY_", "REAP_", "KAFKA_", "NATS_", "REDIS_"];

/// Whether the environment is asked for this variable at all.
pub(super) fn is_one(name: &str) -> bool {
    VARIABLES.iter().any(|(known, _)| *known == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the reference's variables count.
pub(super) fn counts(environment: &Environment) -> bool {
    environment.get(SWITCH).is_some()
}

/// The reference's defaults, below everything that somebody set.
pub(super) fn defaults() -> Table {
    let mut settings = Table::default();
    for (path, value) in DEFAULTS {
        put(&mut settings, path, value.to_owned(), SWITCH);
    }
    settings
}

/// Puts the variables over these settings; answers what is worth a note.
pub(super) fn overlay(
    environment: &Environment,
    settings: &mut Table,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, meaning) in &VARIABLES {
        let Some(value) = environment.get(name) else { continue };
        match meaning {
            Is(path) => put(settings, path, value.to_owned(), name),
            Becomes(path, change) => match change(value) {
                Ok(value) => put(settings, path, value, name),
                Err(problem) => problems.push(Problem::new(*name, problem)),
            },
            Part => {}
            Nothing(why) => notes.push(format!("{name} has no effect: {why}")),
        }
    }
    match publisher(environment.get("PUBLISHER_TYPE"), environment.get("PUBLISHER_URL")) {
        Ok(Some(to)) => put(settings, "lanes.main.to", to, "PUBLISHER_URL"),
        Ok(None) => {}
        Err(problem) => problems.push(Problem::new("PUBLISHER_TYPE", problem)),
    }
    if let Some(kind) = environment.get("STORAGE_TYPE")
        && !["postgres", "postgresql", "mysql", "mariadb", "sqlite"].contains(&kind)
    {
        problems.push(Problem::new(
            "STORAGE_TYPE",
            format!("{kind:?} cannot be relayed; write postgres, mysql or sqlite"),
        ));
    }
    for name in environment.names() {
        if is_one(name) && !VARIABLES.iter().any(|(known, _)| *known == name) {
            notes.push(format!("{name} is not a setting of the reference relay, and has no effect"));
        }
    }
    notes
}

/// Where the reference would publish, as a URL of a target.
fn publisher(kind: Option<&str>, url: Option<&str>) -> Result<Option<String>, String> {
    Ok(match (kind, url) {
        (None, None) => None,
        (Some("stdout"), _) => Some("stdout:".to_owned()),
        (Some("null"), _) => Some("null:".to_owned()),
        (Some(kind @ ("kafka" | "nats" | "redis")), Some(url)) if !url.contains("://") => {
            Some(format!("{kind}://{url}"))
        }
        (None | Some("kafka" | "nats" | "redis"), Some(url)) => Some(url.to_owned()),
        (Some(kind @ ("kafka" | "nats" | "redis")), None) => {
            return Err(format!("{kind} needs PUBLISHER_URL, which is not set"));
        }
        (Some(kind), _) => return Err(format!("{kind:?} is not one of nats, kafka, redis, stdout, null")),
    })
}

fn jitter(text: &str) -> Result<String, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(format!("additive:{share}")),
        _ => Err("is not a share; write a number from 0 to 1, like 0.15".to_owned()),
    }
}

fn format(text: &str) -> Result<String, String> {
    match text {
        "development" => Ok("text".to_owned()),
        _ => Ok("json".to_owned()),
    }
}

fn put(settings: &mut Table, path: &str, value: String, name: &str) {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    settings.put(&path, value, Origin::new(Layer::Environment, name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::time::Duration;

    fn load(variables: &[(&str, &str)]) -> (Result<Config, Vec<Problem>>, Vec<String>) {
        let environment = Environment::of(variables);
        let (mut settings, mut problems) = (defaults(), Vec::new());
        let notes = overlay(&environment, &mut settings, &mut problems);
        let config = Config::read(&settings);
        (if problems.is_empty() { config } else { Err(problems) }, notes)
    }

    #[test]
    fn a_url_is_enough_and_the_rest_is_as_in_the_reference() {
        let (config, notes) = load(&[("STORAGE_URL", "postgres://u@localhost/d")]);
        let config = config.unwrap();
        let lane = config.lanes.values().next().unwrap();
        assert_eq!((lane.window, lane.to.as_str()), (100, "stdout:"));
        assert_eq!(config.relay.lease, Duration::from_secs(180));
        assert_eq!(config.relay.poll_max, Duration::from_millis(500));
        assert_eq!(lane.retry, posthaste::retry::Backoff::open_outbox());
        assert_eq!(config.store.table.unwrap().profile.table.to_string(), "openoutbox_events");
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn every_variable_is_a_setting_or_says_why_not() {
        let (config, notes) = load(&[
            ("STORAGE_URL", "postgres://u@localhost/d"),
            ("STORAGE_TABLE_NAME", "events_2"),
            ("PUBLISHER_TYPE", "null"),
            ("BATCH_SIZE", "1000"),
            ("LEASE_TIMEOUT", "1m30s"),
            ("RETRY_MAX_ATTEMPTS", "7"),
            ("RETRY_JITTER", "0.5"),
            ("KAFKA_ASYNC", "false"),
            ("STORAGE_TABEL_NAME", "x"),
        ]);
        let config = config.unwrap();
        let lane = config.lanes.values().next().unwrap();
        assert_eq!((lane.window, lane.to.as_str(), lane.retry.attempts_max()), (1000, "null:", 7));
        assert_eq!(config.relay.lease, Duration::from_secs(90));
        assert_eq!(config.store.table.unwrap().profile.table.to_string(), "events_2");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("STORAGE_TABEL_NAME is not a setting")), "{notes:?}");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        for (name, value, says) in [
            ("PUBLISHER_TYPE", "carrier-pigeon", "is not one of nats"),
            ("PUBLISHER_TYPE", "kafka", "needs PUBLISHER_URL"),
            ("STORAGE_TYPE", "oracle", "cannot be relayed"),
            ("RETRY_JITTER", "lots", "is not a share"),
        ] {
            let (config, _) = load(&[("STORAGE_URL", "postgres://u@localhost/d"), (name, value)]);
            let problems: Vec<_> = config.unwrap_err().iter().map(ToString::to_string).collect();
            assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:?}");
        }
    }
}
