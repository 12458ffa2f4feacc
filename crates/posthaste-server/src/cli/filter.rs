//! Which events: the same flags on every verb that looks for some, and the same question to store and server.
//!
//! The flags are those fields of [`Filter::FIELDS`] that lists and commands have in common.

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use posthaste::admin::field::{Field, FieldKind};
use posthaste::admin::{CommandKind, EventState, Filter, LaneNeed};
use posthaste::lane::LaneName;
use serde_json::{Map, Value};

use super::moment::past;
use crate::exit::Failure;
use crate::http::query::{choosing, pairs, value};

/// Which events; every flag that is given must match.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterArgs(Filter);

impl clap::Args for FilterArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        choosing().fold(command, |command, field| command.arg(flag(field)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Map::new();
        for field in choosing() {
            let Some(mut values) = matches.get_many::<Value>(field.name).map(|values| values.cloned()) else {
                continue;
            };
            let value = match field.kind {
                FieldKind::Ids => Some(values.collect()),
                _ => values.next(),
            };
            given.extend(value.map(|value| (field.json.to_owned(), value)));
        }
        let filter = serde_json::from_value(Value::Object(given));
        filter.map(Self).map_err(|error| clap::Error::raw(clap::error::ErrorKind::InvalidValue, error))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A field of a filter as a flag.
fn flag(field: &'static Field) -> Arg {
    let (placeholder, more) = match field.kind {
        FieldKind::Lane => ("LANE", ""),
        FieldKind::State => ("STATE", ""),
        FieldKind::Ids => ("ID", ""),
        FieldKind::Pattern => ("PATTERN", ""),
        FieldKind::Time => ("TIME", ": a time, or how long ago"),
        FieldKind::Part { .. } => ("TEXT", ""),
        FieldKind::Text { placeholder } => (placeholder, ""),
        FieldKind::Place | FieldKind::Age | FieldKind::Flag => ("VALUE", ""),
    };
    let action = if field.kind == FieldKind::Ids { ArgAction::Append } else { ArgAction::Set };
    let read = move |text: &str| match field.kind {
        FieldKind::Time => past(text).map(|time| Value::from(time.to_string())),
        _ => value(field, text.to_owned()),
    };
    Arg::new(field.name)
        .long(field.name)
        .value_name(placeholder)
        .help(format!("{}{more}", field.about))
        .action(action)
        .value_parser(read)
}

impl FilterArgs {
    /// As somebody said it.
    pub(super) fn filter(&self) -> &Filter {
        &self.0
    }

    /// The same in a state.
    pub(super) fn in_state(&self, state: Option<EventState>) -> Filter {
        let mut filter = self.0.clone();
        filter.state = state;
        filter
    }

    /// The events of a command.
    ///
    /// # Errors
    /// The command needs a lane, or at least some choice, and none was said.
    pub(super) fn meant_by(&self, kind: &CommandKind) -> Result<Filter, Failure> {
        let name = kind.name;
        if kind.lanes == LaneNeed::One && self.0.lane.is_none() {
            let or = if kind.is_for_dead_letters { ", or --broker TARGET --group GROUP" } else { "" };
            return Err(Failure::usage(format!(
                "{name}: say --lane LANE{or}; posthaste lane list shows the lanes"
            )));
        }
        if kind.lanes == LaneNeed::Any && self.0.is_empty() {
            let flags: Vec<_> = choosing().map(|field| format!("--{}", field.name)).collect();
            return Err(Failure::usage(format!("{name}: say which events, by {}", flags.join(", "))));
        }
        Ok(self.in_state(kind.state))
    }
}

/// As the server is asked: `GET /v1/events`.
pub(super) fn events_query(filter: &Filter, limit: u32, after: Option<&str>) -> String {
    let mut pairs = pairs(Filter::FIELDS.iter(), &filter.given());
    pairs.push(("after", after.map(str::to_owned)));
    with_query(&format!("/v1/events?limit={limit}"), pairs)
}

/// A path with these parameters, as far as they are given.
pub(super) fn with_query(
    path: &str,
    pairs: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> String {
    let mut query = path.to_owned();
    for (name, value) in pairs {
        if let Some(value) = value {
            query.push_str(&format!("&{name}={}", encoded(&value)));
        }
    }
    query
}

/// Percent-encodes everything but what may stand anywhere in a URL.
pub(super) fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Reads a state by its name.
pub(super) fn state(text: &str) -> Result<EventState, String> {
    EventState::named(text).ok_or_else(|| {
        "write pending, retrying, scheduled, behind, delivering, delivered, dead, discarded or unknown"
            .to_owned()
    })
}

pub(super) fn lane(text: &str) -> Result<LaneName, String> {
    text.parse().map_err(|error: posthaste::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    fn read(flags: &[&str]) -> Result<Filter, String> {
        let command = FilterArgs::augment_args(clap::Command::new("list").no_binary_name(true));
        let matches = command.try_get_matches_from(flags).map_err(|error| error.to_string())?;
        Ok(FilterArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?.0)
    }

    #[test]
    fn the_query_asks_for_the_same_as_the_flags() {
        let mut filter = read(&["--lane", "main", "--key", "a&b=c d/ü", "--id", "1", "--id", "2"]).unwrap();
        assert_eq!((filter.key.as_deref(), filter.ids.len()), (Some("a&b=c d/ü"), 2));
        filter.state = Some(EventState::Dead);
        assert_eq!(
            events_query(&filter, 5, None),
            "/v1/events?limit=5&lane=main&state=dead&id=1&id=2&key=a%26b%3Dc%20d%2F%C3%BC"
        );
        assert!(read(&["--since", "1h"]).unwrap().since.is_some());
        for (flags, says) in [
            (["--lane", "a b"], "lane name"),
            (["--topic", ""], "topic pattern"),
            (["--since", "soon"], "--since"),
            (["--error", ""], "between 1 and 255 bytes"),
        ] {
            let refused = read(&flags).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn a_command_without_what_it_needs_is_refused() {
        let of = |flags: &[&str], name: &str| {
            let kind = CommandKind::named(name).unwrap();
            FilterArgs(read(flags).unwrap()).meant_by(kind).map_err(|failure| failure.to_string())
        };
        assert_eq!(of(&["--lane", "main"], "redrive").unwrap().state, Some(EventState::Dead));
        assert!(of(&[], "replay").unwrap_err().contains("replay: say --lane LANE;"));
        assert!(of(&[], "discard").unwrap_err().contains("or --broker TARGET"));
        assert!(of(&[], "erase").unwrap_err().contains("--lane, --id, --type"));
        assert!(of(&["--key", "k"], "erase").is_ok());
    }
}
