//! The environment variables of the open-outbox reference relay, so that its deployment need not change.
//!
//! They count for `posthaste relay` when `STORAGE_URL` is set, with the reference's defaults. They lie above the file and below
//! `POSTHASTE__…`. What has no meaning here, and what the reference does not know either, is reported.

mod publisher;
mod variables;

use super::environment::Environment;
use super::problem::Problem;
use super::tree::{Layer, Origin, Table};
pub(crate) use variables::is_one;
use variables::{Meaning, VARIABLES, is_exporting, is_known};

/// The variable that says that the others count.
const SWITCH: &str = "STORAGE_URL";

/// What the reference does unless told otherwise, in our words.
const DEFAULTS: [(&str, &str); 10] = [
    ("store.engine", "table"),
    ("store.profile", "open-outbox"),
    ("store.sweep_rows", "100"),
    ("relay.lease", "3m"),
    ("relay.poll_max", "500ms"),
    ("lanes.main.to", "stdout:"),
    ("lanes.main.window", "100"),
    ("lanes.main.order", "none"),
    ("lanes.main.retry.jitter", "additive:0.15"),
    ("log.format", "json"),
];

/// Whether the reference's variables count.
pub(super) fn counts(environment: &Environment) -> bool {
    environment.get(SWITCH).is_some()
}

/// A note about variables that are set and do not count, because nothing says that they do. What any program may have (`ENVIRONMENT`,
/// `SERVER_PORT`) is not worth one.
pub(super) fn not_counted(environment: &Environment) -> Option<String> {
    const OWN: [&str; 6] =
        ["STORAGE_", "PUBLISHER_", "BATCH_SIZE", "LEASE_TIMEOUT", "REAP_BATCH_SIZE", "RETRY_"];
    let is_own = |name: &&str| OWN.iter().any(|own| name.starts_with(own));
    let set: Vec<_> = VARIABLES.iter().map(|(name, _)| *name).filter(is_own).collect();
    let set: Vec<_> = set.into_iter().filter(|name| environment.get(name).is_some()).collect();
    (!counts(environment) && !set.is_empty()).then(|| {
        format!("{} do not count without {SWITCH}, the variable of the reference relay", set.join(", "))
    })
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
            Meaning::Is(path) => put(settings, path, value.to_owned(), name),
            Meaning::Becomes(path, change) => match change(value) {
                Ok(value) => put(settings, path, value, name),
                Err(problem) => problems.push(Problem::new(*name, problem)),
            },
            Meaning::Part | Meaning::InUrl(..) => {}
            Meaning::Nothing(why) => notes.push(format!("{name} has no effect: {why}")),
        }
    }
    publisher::overlay(environment, settings, problems, &mut notes);
    if let Some(kind) = environment.get("STORAGE_TYPE")
        && !["postgres", "postgresql", "mysql", "mariadb", "sqlite"].contains(&kind)
    {
        problems.push(Problem::new(
            "STORAGE_TYPE",
            format!("{kind:?} cannot be relayed; write postgres, mysql or sqlite"),
        ));
    }
    for name in environment.names().filter(|name| is_one(name)) {
        if is_exporting(name) {
            notes.push(format!("{name} has no effect: nothing is exported"));
        } else if !is_known(name) {
            notes.push(format!("{name} is not a setting of the reference relay, and has no effect"));
        }
    }
    notes
}

fn put(settings: &mut Table, path: &str, value: String, name: &str) {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    settings.put(&path, value, Origin::new(Layer::Environment, name));
}

#[cfg(test)]
mod tests;
