//! Where the reference publishes, as the URL of a target that writes what the reference writes.

use super::super::environment::Environment;
use super::super::problem::Problem;
use super::super::tree::Table;
use super::put;
use super::variables::{Meaning, VARIABLES, span};

/// A kind of broker that the reference publishes to.
struct Broker {
    /// Its name in `PUBLISHER_TYPE`.
    name: &'static str,
    /// How a URL of it begins.
    schemes: &'static [&'static str],
    /// The variable that says how long an answer may take, and how long that is unless it does.
    timeout: (&'static str, &'static str),
    /// What the reference does that our URLs must say, unless there is something with which it cannot be.
    defaults: &'static [(&'static str, &'static str)],
    /// What is no wire of the reference: one place for all topics.
    not_with: &'static [&'static str],
}

static BROKERS: [Broker; 3] = [
    Broker {
        name: "nats",
        schemes: &["nats", "tls"],
        timeout: ("NATS_PUBLISH_TIMEOUT", "5s"),
        defaults: &[("format", "raw")],
        not_with: &[],
    },
    Broker {
        name: "redis",
        schemes: &["redis", "rediss"],
        timeout: ("REDIS_WRITE_TIMEOUT", "1s"),
        defaults: &[("format", "raw")],
        not_with: &["stream"],
    },
    Broker {
        name: "kafka",
        schemes: &["kafka", "kafkas"],
        timeout: ("KAFKA_WRITE_TIMEOUT", "10s"),
        defaults: &[("format", "raw"), ("compression", "snappy")],
        not_with: &["topic"],
    },
];

/// Puts where events go over these settings, and how long an answer may take.
pub(super) fn overlay(
    environment: &Environment,
    settings: &mut Table,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<String>,
) {
    let to = match address(environment.get("PUBLISHER_TYPE"), environment.get("PUBLISHER_URL")) {
        Ok(to) => to,
        Err(problem) => return problems.push(Problem::new("PUBLISHER_TYPE", problem)),
    };
    let broker = to.as_deref().and_then(|to| {
        let scheme = to.split("://").next()?;
        BROKERS.iter().find(|broker| broker.schemes.contains(&scheme))
    });
    let mut to = to;
    for (name, meaning) in &VARIABLES {
        let (Meaning::InUrl(of, key, change), Some(value)) = (meaning, environment.get(name)) else {
            continue;
        };
        match (broker.filter(|broker| broker.name == *of), &mut to) {
            (Some(_), Some(to)) => match change(value) {
                Ok(value) => *to = with(to, key, &value),
                Err(problem) => problems.push(Problem::new(*name, problem)),
            },
            _ => notes.push(format!("{name} has no effect: nothing is published to {of}")),
        }
    }
    let Some(mut to) = to else { return };
    if let Some(broker) = broker {
        if !broker.not_with.iter().any(|key| says(&to, key)) {
            to = broker.defaults.iter().fold(to, |to, (key, value)| with(&to, key, value));
        }
        let (variable, default) = broker.timeout;
        // What cannot be read was said already.
        if let Ok(timeout) = span(environment.get(variable).unwrap_or(default)) {
            put(settings, "lanes.main.timeout", timeout, variable);
        }
    }
    put(settings, "lanes.main.to", to, "PUBLISHER_URL");
}

/// The URL of a target, without what the reference's other variables say.
fn address(kind: Option<&str>, url: Option<&str>) -> Result<Option<String>, String> {
    Ok(match (kind, url) {
        (None, None) => None,
        (Some("stdout"), _) => Some("stdout:".to_owned()),
        (Some("null"), _) => Some("null:".to_owned()),
        (Some(kind @ ("kafka" | "nats" | "redis")), Some(url)) if !url.contains("://") => {
            Some(format!("{kind}://{url}"))
        }
        (None | Some("kafka" | "nats" | "redis"), Some(url)) => Some(one_scheme(url)),
        (Some(kind @ ("kafka" | "nats" | "redis")), None) => {
            return Err(format!("{kind} needs PUBLISHER_URL, which is not set"));
        }
        (Some(kind), _) => return Err(format!("{kind:?} is not one of nats, kafka, redis, stdout, null")),
    })
}

/// Of several servers each may have its scheme in the reference; here they share the first one.
fn one_scheme(url: &str) -> String {
    let scheme = url.split("://").next().unwrap_or_default();
    url.replace(&format!(",{scheme}://"), ",")
}

/// Whether a URL says this.
fn says(url: &str, key: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|setting| setting.split('=').next() == Some(key))
}

/// The URL with a setting that it does not say yet: what stands in it has the last word.
fn with(url: &str, key: &str, value: &str) -> String {
    match url.contains('?') {
        _ if says(url, key) => url.to_owned(),
        true => format!("{url}&{key}={value}"),
        false => format!("{url}?{key}={value}"),
    }
}
