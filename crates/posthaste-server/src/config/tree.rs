//! Settings before they are understood: a tree of values, each with where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// The layers, in the order in which one covers the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    Default,
    File,
    Dotenv,
    Environment,
    Flag,
}

/// Where a value came from: `posthaste.toml:3`, `POSTHASTE__RELAY__LEASE`, `--store`.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) layer: Layer,
    place: Arc<str>,
}

impl Origin {
    pub(super) fn new(layer: Layer, place: impl Into<Arc<str>>) -> Self {
        Self { layer, place: place.into() }
    }

    /// Whether its values are plain text that gets its type from the setting it is for.
    pub(super) fn is_untyped(&self) -> bool {
        matches!(self.layer, Layer::Dotenv | Layer::Environment | Layer::Flag)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Value, Origin),
    Table(Table, Origin),
}

impl Node {
    pub(super) fn origin(&self) -> &Origin {
        match self {
            Self::Leaf(_, origin) | Self::Table(_, origin) => origin,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table(pub(super) BTreeMap<String, Node>);

impl Table {
    /// Reads a file's text. Mistakes of its syntax are all reported; what could be read is there nevertheless.
    pub(super) fn parse(text: &str, layer: Layer, name: &str, problems: &mut Vec<Problem>) -> Self {
        let line_of = |at: usize| text[..at.min(text.len())].bytes().filter(|b| *b == b'\n').count() + 1;
        let place = |at: usize| Origin::new(layer, format!("{name}:{}", line_of(at)));
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            problems.push(Problem::at(&place(at), error.message().to_owned()));
        }
        Self::from_toml(table.get_ref(), &place)
    }

    fn from_toml(table: &DeTable<'_>, place: &impl Fn(usize) -> Origin) -> Self {
        let node = |value: &DeValue<'_>, origin| match value {
            DeValue::Table(inner) => Node::Table(Self::from_toml(inner, place), origin),
            leaf => Node::Leaf(owned(leaf), origin),
        };
        let entries = table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), node(value.get_ref(), place(key.span().start))));
        Self(entries.collect())
    }

    /// Lays another layer over this one: its leaves win, tables are joined.
    pub(super) fn overlay(&mut self, above: Self) {
        for (key, node) in above.0 {
            match (self.0.get_mut(&key), node) {
                (Some(Node::Table(below, _)), Node::Table(over, _)) => below.overlay(over),
                (_, node) => {
                    self.0.insert(key, node);
                }
            }
        }
    }

    /// Puts a plain text at a path, making the tables on the way.
    ///
    /// Names that somebody chose (of lanes and targets) may be written as a variable can be: `POSTHASTE__LANES__MY_LANE` is
    /// the lane `my-lane` if there is one.
    pub(super) fn put(&mut self, path: &[String], text: String, origin: Origin) {
        let Some((first, rest)) = path.split_first() else { return };
        let key = self.0.keys().find(|key| as_variable(key) == as_variable(first)).unwrap_or(first).clone();
        if rest.is_empty() {
            self.0.insert(key, Node::Leaf(Value::String(text), origin));
            return;
        }
        let node = self.0.entry(key).or_insert_with(|| Node::Table(Self::default(), origin.clone()));
        if let Node::Leaf(..) = node {
            *node = Node::Table(Self::default(), origin.clone());
        }
        if let Node::Table(table, _) = node {
            table.put(rest, text, origin);
        }
    }

    pub(super) fn table(&self, key: &str) -> Option<&Self> {
        match self.0.get(key)? {
            Node::Table(table, _) => Some(table),
            Node::Leaf(..) => None,
        }
    }
}

/// A name as far as an environment variable can tell it.
fn as_variable(name: &str) -> String {
    name.replace(['-', '.'], "_").to_ascii_lowercase()
}

fn owned(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::String(number.to_string()), Value::Float)
        }
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| owned(item.get_ref())).collect()),
        DeValue::Table(_) => Value::String("{…}".to_owned()),
    }
}
