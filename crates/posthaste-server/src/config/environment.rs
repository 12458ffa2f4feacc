//! The one place where the environment is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;

use super::problem::Problem;
use super::reference;
use super::tree::{Layer, Origin, Table};

const SETTING: &str = "POSTHASTE__";
const API_KEY: &str = "POSTHASTE_API_KEY";
/// What the system, sudo and systemd set.
const OF_OTHERS: [&str; 6] =
    ["USER", "SUDO_USER", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "NO_COLOR"];

/// What the process was started in: variables, and whether a person is looking.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    terminal: bool,
    notes: Vec<String>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let ours = |(name, value): (OsString, OsString)| {
            let name = name.into_string().ok()?;
            let is_ours = name.starts_with("POSTHASTE")
                || OF_OTHERS.contains(&name.as_str())
                || reference::is_one(&name);
            is_ours.then_some((name, value))
        };
        Self {
            variables: std::env::vars_os().filter_map(ours).collect(),
            terminal: std::io::stderr().is_terminal(),
            notes: Vec::new(),
        }
    }

    /// An environment made up for a test.
    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
        Self { variables: variables.collect(), terminal: false, notes: Vec::new() }
    }

    /// A variable, if it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// The names of all variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// What is worth saying about the variables once the log is open.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn note(&mut self, notes: Vec<String>) {
        self.notes.extend(notes);
    }

    /// The API key that was handed in by `POSTHASTE_API_KEY`.
    pub fn api_key(&self) -> Option<&str> {
        self.get(API_KEY)
    }

    /// Whether answers for people are in colour: stdout is a terminal, and `NO_COLOR` is not set.
    pub fn is_coloured(&self) -> bool {
        std::io::stdout().is_terminal() && self.get("NO_COLOR").is_none()
    }

    /// Whether this is development: `POSTHASTE_ENV` says so, or it is unset and stderr is a terminal.
    pub fn is_development(&self) -> bool {
        self.get("POSTHASTE_ENV").map_or(self.terminal, |name| name == "development")
    }

    /// Adds what a `.env` file says, below what is set already.
    pub(super) fn under(&mut self, name: &str, value: &str) {
        self.variables.entry(name.to_owned()).or_insert_with(|| value.into());
    }

    /// Puts every `POSTHASTE__SECTION__KEY` over these settings.
    pub(super) fn overlay(&self, settings: &mut Table, problems: &mut Vec<Problem>) {
        for (name, value) in &self.variables {
            let Some(rest) = name.strip_prefix(SETTING) else { continue };
            match value.to_str() {
                Some(text) => put(settings, rest, text, Origin::new(Layer::Environment, name.as_str())),
                None => problems.push(Problem::new(name.as_str(), "the value is not valid UTF-8")),
            }
        }
    }
}

/// Reads `.env`: `NAME=value` per line, with or without quotes and `export`. Settings go over the given ones; the API key
/// and the variables of the reference relay go under the environment's.
pub(super) fn overlay_dotenv(
    text: &str,
    settings: &mut Table,
    environment: &mut Environment,
    problems: &mut Vec<Problem>,
) {
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let origin = Origin::new(Layer::Dotenv, format!(".env:{number}"));
        let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
            problems.push(Problem::at(&origin, "is not a line like NAME=value".to_owned()));
            continue;
        };
        let (name, value) = (name.trim(), unquoted(value.trim()));
        if let Some(rest) = name.strip_prefix(SETTING) {
            put(settings, rest, value, origin);
        } else if name == API_KEY || reference::is_one(name) {
            environment.under(name, value);
        }
    }
}

fn put(settings: &mut Table, name: &str, text: &str, origin: Origin) {
    let path: Vec<String> = name.split("__").map(str::to_ascii_lowercase).collect();
    settings.put(&path, text.to_owned(), origin);
}

fn unquoted(value: &str) -> &str {
    ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}
