//! Reads one table of the configuration: every key once, every mistake reported, nothing left over.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;
use toml::Value;

use super::problem::Problem;
use super::tree::{Layer, Node, Origin, Table};
use super::unit;

const DEFAULTS_HOLD: &str =
    "the embedded defaults have this key and its value is valid: a test reads them all";

/// One table. A value that is wrong is reported and its default taken, so that the next mistakes are found too.
pub(super) struct Section<'a> {
    path: String,
    origin: Origin,
    table: &'a Table,
    defaults: &'a Table,
    problems: &'a RefCell<Vec<Problem>>,
    known: RefCell<BTreeSet<String>>,
    failed: RefCell<BTreeSet<String>>,
}

impl<'a> Section<'a> {
    /// The whole tree.
    pub(super) fn root(table: &'a Table, defaults: &'a Table, problems: &'a RefCell<Vec<Problem>>) -> Self {
        Self::new(String::new(), Origin::new(Layer::Default, "configuration"), table, defaults, problems)
    }

    fn new(
        path: String,
        origin: Origin,
        table: &'a Table,
        defaults: &'a Table,
        problems: &'a RefCell<Vec<Problem>>,
    ) -> Self {
        let (known, failed) = (RefCell::default(), RefCell::default());
        Self { path, origin, table, defaults, problems, known, failed }
    }

    /// Reads what this table holds, then reports every key that nobody asked for.
    pub(super) fn finish<T>(self, read: impl FnOnce(&Self) -> T) -> T {
        let value = read(&self);
        let known = self.known.borrow();
        for (key, node) in self.table.0.iter().filter(|(key, _)| !known.contains(*key)) {
            let names: Vec<_> = known.iter().map(String::as_str).collect();
            let message = format!("{} is not a setting; there are {}", self.name(key), names.join(", "));
            self.report(node.origin(), message);
        }
        drop(known);
        value
    }

    /// A table inside this one.
    pub(super) fn table<T>(&self, key: &str, read: impl FnOnce(&Section<'_>) -> T) -> T {
        self.know(key);
        let defaults = self.defaults.table(key).expect(DEFAULTS_HOLD);
        let (table, origin) = match self.table.0.get(key) {
            Some(Node::Table(table, origin)) => (table, origin),
            Some(Node::Leaf(_, origin)) => {
                self.report(origin, format!("{} must be a table", self.name(key)));
                (defaults, origin)
            }
            None => (defaults, &self.origin),
        };
        Section::new(self.name(key), origin.clone(), table, defaults, self.problems).finish(read)
    }

    /// Every table inside the table `key`, by its name; `*` holds the defaults of all others and is no entry.
    pub(super) fn each<T>(&self, key: &str, read: impl Fn(&str, &Section<'_>) -> T) -> Vec<T> {
        self.know(key);
        let defaults = self.defaults.table(key).and_then(|all| all.table("*")).expect(DEFAULTS_HOLD);
        let empty = Table::default();
        let entries = self.table.table(key).unwrap_or(&empty);
        let shared = entries.table("*").unwrap_or(&empty);
        let mut values = Vec::new();
        for (name, node) in entries.0.iter().filter(|(name, _)| *name != "*") {
            let Node::Table(own, origin) = node else {
                self.report(node.origin(), format!("{key}.{name} must be a table"));
                continue;
            };
            let mut table = shared.clone();
            table.overlay(own.clone());
            let section =
                Section::new(format!("{key}.{name}"), origin.clone(), &table, defaults, self.problems);
            values.push(section.finish(|section| read(name, section)));
        }
        values
    }

    pub(super) fn text(&self, key: &str) -> String {
        self.convert(key, |text| Ok(text.to_owned()))
    }

    pub(super) fn secret(&self, key: &str) -> SecretString {
        self.know(&format!("{key}_file"));
        SecretString::from(self.text(key))
    }

    pub(super) fn duration(&self, key: &str) -> Duration {
        self.convert(key, unit::duration)
    }

    pub(super) fn size(&self, key: &str, bounds: RangeInclusive<u64>) -> u64 {
        let bytes = self.convert(key, unit::size);
        self.require(key, bounds.contains(&bytes), || {
            let (low, high) = (unit::show_size(*bounds.start()), unit::show_size(*bounds.end()));
            format!("must be between {low} and {high}")
        });
        bytes
    }

    pub(super) fn address(&self, key: &str) -> SocketAddr {
        self.convert(key, address)
    }

    pub(super) fn address_or_none(&self, key: &str) -> Option<SocketAddr> {
        self.convert(key, |text| if text.is_empty() { Ok(None) } else { address(text).map(Some) })
    }

    /// A text that a type can read; the type's error says what it must look like.
    pub(super) fn parsed<T: FromStr<Err = posthaste::Error>>(&self, key: &str) -> T {
        self.convert(key, |text| text.parse().map_err(|error: posthaste::Error| format!("is wrong: {error}")))
    }

    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> T {
        self.convert(key, |text| {
            choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<_> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
                format!("cannot be used; write {}", names.join(" or "))
            })
        })
    }

    pub(super) fn convert<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> T {
        self.read(key, |value, _| match value {
            Value::String(text) => read(text),
            _ => Err("must be a text in quotes".to_owned()),
        })
    }

    pub(super) fn integer<T: TryFrom<i64>>(&self, key: &str, bounds: RangeInclusive<i64>) -> T {
        self.read(key, |value, origin| {
            let number = match value {
                Value::Integer(number) => Some(*number),
                Value::String(text) if origin.is_untyped() => text.trim().parse().ok(),
                _ => None,
            };
            let fitting =
                number.filter(|number| bounds.contains(number)).and_then(|number| T::try_from(number).ok());
            fitting
                .ok_or_else(|| format!("must be a whole number from {} to {}", bounds.start(), bounds.end()))
        })
    }

    pub(super) fn number(&self, key: &str, bounds: RangeInclusive<f64>) -> f64 {
        self.read(key, |value, origin| {
            let number = match value {
                Value::Float(number) => Some(*number),
                Value::Integer(number) => Some(*number as f64),
                Value::String(text) if origin.is_untyped() => text.trim().parse().ok(),
                _ => None,
            };
            number
                .filter(|number| bounds.contains(number))
                .ok_or_else(|| format!("must be a number from {} to {}", bounds.start(), bounds.end()))
        })
    }

    /// A list of texts; outside of files they are separated by commas.
    pub(super) fn list<T: FromStr<Err = posthaste::Error>>(&self, key: &str) -> Vec<T> {
        self.read(key, |value, origin| {
            let texts: Option<Vec<&str>> = match value {
                Value::Array(items) => items.iter().map(Value::as_str).collect(),
                Value::String(text) if origin.is_untyped() => {
                    Some(text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect())
                }
                _ => None,
            };
            let texts = texts.ok_or("must be a list of texts, like [\"orders\", \"stock.*\"]")?;
            let parse =
                |text: &str| text.parse().map_err(|error: posthaste::Error| format!("is wrong: {error}"));
            texts.into_iter().map(parse).collect()
        })
    }

    /// Reports the key unless this holds; the message goes on after the key and its value. A value that could not be read
    /// was replaced by its default and has been reported: it is not blamed twice.
    pub(super) fn require(&self, key: &str, holds: bool, message: impl FnOnce() -> String) {
        if !holds
            && let Some(node) = self.table.0.get(key)
            && !self.failed.borrow().contains(key)
        {
            self.fail(key, node, &message());
        }
    }

    pub(super) fn within(&self, key: &str, value: Duration, bounds: RangeInclusive<Duration>) {
        self.require(key, bounds.contains(&value), || {
            let (low, high) = (unit::show_duration(*bounds.start()), unit::show_duration(*bounds.end()));
            format!("must be between {low} and {high}")
        });
    }

    /// Reports a setting that has no default and was not made, where its table stands.
    pub(super) fn require_present(&self, key: &str, value: &str) {
        if value.is_empty() && self.failed.borrow_mut().insert(key.to_owned()) {
            self.report(&self.origin, format!("{} is missing; it has no default", self.name(key)));
        }
    }

    /// The table's own name, where somebody chose it.
    pub(super) fn named<T: FromStr<Err = posthaste::Error>>(&self, name: &str) -> Option<T> {
        let report = |error| self.report(&self.origin, format!("{} is wrong: {error}", self.path));
        name.parse().map_err(report).ok()
    }

    pub(super) fn is_default(&self, key: &str) -> bool {
        self.table.0.get(key).is_none_or(|node| node.origin().layer == Layer::Default)
    }

    fn read<T>(&self, key: &str, read: impl Fn(&Value, &Origin) -> Result<T, String>) -> T {
        self.know(key);
        let default = || match self.defaults.0.get(key).expect(DEFAULTS_HOLD) {
            Node::Leaf(value, origin) => read(value, origin).expect(DEFAULTS_HOLD),
            Node::Table(..) => panic!("{DEFAULTS_HOLD}"),
        };
        let Some(node) = self.table.0.get(key) else { return default() };
        let result = match node {
            Node::Leaf(value, origin) => read(value, origin),
            Node::Table(..) => Err("must not be a table".to_owned()),
        };
        result.unwrap_or_else(|message| {
            self.fail(key, node, &message);
            default()
        })
    }

    fn know(&self, key: &str) {
        self.known.borrow_mut().insert(key.to_owned());
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// `relay.lease = "5" is not a duration`; without the value where it may be a secret.
    fn fail(&self, key: &str, node: &Node, message: &str) {
        self.failed.borrow_mut().insert(key.to_owned());
        // A default is wrong only beside what somebody has set: it is reported where its table stands, not in a file that
        // nobody has.
        let is_default = node.origin().layer == Layer::Default;
        let origin = if is_default { &self.origin } else { node.origin() };
        let by_default = if is_default { " (the default)" } else { "" };
        let sentence = match node {
            Node::Leaf(value, _) if !is_secret(key) => {
                format!("{} = {value}{by_default} {message}", self.name(key))
            }
            _ => format!("{} {message}", self.name(key)),
        };
        self.report(origin, sentence);
    }

    fn report(&self, origin: &Origin, message: String) {
        self.problems.borrow_mut().push(Problem::at(origin, message));
    }
}

/// Addresses may hold a password.
fn is_secret(key: &str) -> bool {
    key == "url" || key == "to"
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let resolved = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    resolved
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "is not an address; write it as IP:PORT, like 127.0.0.1:7070".to_owned())
}
