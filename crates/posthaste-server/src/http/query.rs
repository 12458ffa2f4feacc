//! Queries: what a request asks for, read and written.
//!
//! A handler takes the parameters that it knows out of [`Asked`] and then ends it, which refuses the rest.
//! Fields of filters and settings of commands stand in tables ([`Filter::FIELDS`],
//! `CommandKind::settings`); both directions follow them, so that the command line sends what the server
//! reads.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::Query;
use axum::http::Uri;
use posthaste::admin::field::{Field, FieldKind};
use posthaste::admin::{EventState, Filter, Page, Seek};
use posthaste::lane::LaneName;
use posthaste::pattern::Pattern;
use posthaste::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::{Kind, Problem};
use crate::config::unit;

const PAGE_SIZE_DEFAULT: u32 = 50;
/// The number of ids that a query has at most.
const IDS_MAX: usize = 1_000;
/// What is said about an `after` that is not one of this store.
pub(super) const NO_PAGE: &str = "after must be what next of the page before said, with the same query";

/// Reads a query into a type; an unknown parameter is refused with its name.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let read = Query::<T>::try_from_uri(uri);
    read.map(|query| query.0).map_err(|error| {
        // Two layers of words lead to the one that names the parameter.
        let text = error.body_text();
        unreadable(text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text))
    })
}

fn unreadable(why: impl Display) -> Problem {
    malformed(format!("the query cannot be read: {why}"))
}

/// A request that says something wrong.
pub(super) fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Malformed, detail)
}

/// Says which parameter cannot be read, and why.
pub(super) fn bad<E: Display>(name: &'static str) -> impl Fn(E) -> Problem {
    move |error| malformed(format!("{name}: {error}"))
}

/// The parameters of a request that nothing has taken yet.
pub(super) struct Asked {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Asked {
    /// Those of this request.
    pub(super) fn of(uri: &Uri) -> Result<Self, Problem> {
        Ok(Self { given: query(uri)?, known: Vec::new() })
    }

    /// The names that are left.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|(name, _)| name.as_str())
    }

    /// Takes every value of a parameter.
    fn all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        self.given.extract_if(.., |(given, _)| given == name).map(|(_, value)| value).collect()
    }

    /// Takes a parameter.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let mut values = self.all(name);
        let value = values.pop();
        if values.is_empty() { Ok(value) } else { Err(unreadable(format!("duplicate field `{name}`"))) }
    }

    /// Takes a parameter that is parsed.
    pub(super) fn parsed<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Problem> {
        self.text(name)?.map(|text| text.parse()).transpose().map_err(bad(name))
    }

    /// Takes a yes or no; no, if it is not there.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        Ok(self.parsed(name)?.unwrap_or(false))
    }

    /// Takes the page.
    pub(super) fn page(&mut self) -> Result<Page, Problem> {
        let size = self.parsed("limit")?.unwrap_or(PAGE_SIZE_DEFAULT);
        if !(1..=Page::SIZE_MAX).contains(&size) {
            return Err(malformed(format!(
                "limit must be between 1 and {}; read on with after",
                Page::SIZE_MAX
            )));
        }
        let mut page = Page::first(size);
        page.after = self.text("after")?;
        Ok(page)
    }

    /// Takes these fields of a filter.
    pub(super) fn filter(&mut self, fields: impl Iterator<Item = &'static Field>) -> Result<Filter, Problem> {
        let told = self.told(fields)?;
        serde_json::from_value(Value::Object(told)).map_err(unreadable)
    }

    /// Takes these fields, by their names in JSON.
    pub(super) fn told(
        &mut self,
        fields: impl Iterator<Item = &'static Field>,
    ) -> Result<Map<String, Value>, Problem> {
        let mut told = Map::new();
        for field in fields {
            let value = match field.kind {
                FieldKind::Ids => ids(self.all(field.name))?,
                _ => self
                    .text(field.name)?
                    .map(|text| value(field, text))
                    .transpose()
                    .map_err(bad(field.name))?,
            };
            told.extend(value.map(|value| (field.json.to_owned(), value)));
        }
        Ok(told)
    }

    /// Refuses what was not taken.
    pub(super) fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.given.first() else { return Ok(()) };
        let known: Vec<_> = self.known.iter().map(|known| format!("`{known}`")).collect();
        let known = if known.is_empty() {
            "there are no fields".to_owned()
        } else {
            format!("expected one of {}", known.join(", "))
        };
        Err(unreadable(format!("unknown field `{name}`, {known}")))
    }
}

fn ids(ids: Vec<String>) -> Result<Option<Value>, Problem> {
    if ids.len() > IDS_MAX {
        return Err(malformed(format!("at most {IDS_MAX} ids at a time; ask again for the others")));
    }
    Ok((!ids.is_empty()).then(|| ids.into()))
}

/// Reads the value of a field into JSON.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn value(field: &Field, text: String) -> Result<Value, String> {
    fn checked<T: FromStr<Err: Display>>(text: String) -> Result<Value, String> {
        text.parse::<T>().map_err(|error| error.to_string())?;
        Ok(text.into())
    }
    match field.kind {
        FieldKind::Text { .. } | FieldKind::Ids => Ok(text.into()),
        FieldKind::Part { bytes_max } if (1..=bytes_max).contains(&text.len()) => Ok(text.into()),
        FieldKind::Part { bytes_max } => Err(format!("write between 1 and {bytes_max} bytes")),
        FieldKind::Lane => checked::<LaneName>(text),
        FieldKind::State => checked::<EventState>(text),
        FieldKind::Pattern => checked::<Pattern>(text),
        FieldKind::Time => checked::<Timestamp>(text),
        FieldKind::Place => checked::<Seek>(text),
        FieldKind::Flag => text.parse::<bool>().map(Value::Bool).map_err(|error| error.to_string()),
        FieldKind::Age => unit::duration(&text).map(seconds),
    }
}

fn seconds(span: Duration) -> Value {
    if span.subsec_nanos() == 0 { span.as_secs().into() } else { span.as_secs_f64().into() }
}

/// Writes fields as parameters; those that are not set are left out.
pub(crate) fn pairs(
    fields: impl Iterator<Item = &'static Field>,
    told: &Map<String, Value>,
) -> Vec<(&'static str, Option<String>)> {
    let mut pairs = Vec::new();
    for field in fields {
        match told.get(field.json) {
            None | Some(Value::Null) => {}
            Some(Value::Array(values)) => {
                pairs.extend(values.iter().map(|value| (field.name, Some(text(field, value)))));
            }
            Some(value) => pairs.push((field.name, Some(text(field, value)))),
        }
    }
    pairs
}

fn text(field: &Field, value: &Value) -> String {
    let age = value.as_f64().filter(|_| field.kind == FieldKind::Age);
    match (age.map(Duration::try_from_secs_f64), value) {
        (Some(Ok(age)), _) => unit::show_duration(age),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// The fields by which lists and commands choose events; a state is the verb's own.
pub(crate) fn choosing() -> impl Iterator<Item = &'static Field> {
    Filter::FIELDS.iter().filter(|field| field.kind != FieldKind::State)
}

#[cfg(test)]
mod tests {
    use posthaste::admin::{Command, CommandKind};
    use posthaste::time::Moment;

    use super::*;

    fn asked(query: &str) -> Asked {
        Asked::of(&format!("/v1/events?{query}").parse().unwrap()).unwrap()
    }

    fn filter(query: &str) -> Result<Filter, String> {
        let mut asked = asked(query);
        let filter = asked.filter(Filter::FIELDS.iter()).map_err(|problem| problem.document().detail)?;
        asked.end().map_err(|problem| problem.document().detail)?;
        Ok(filter)
    }

    #[test]
    fn there_may_be_several_ids_and_everything_else_stands_once() {
        let read = filter("id=a&lane=main&id=b%26c&state=dead").unwrap();
        assert_eq!((read.ids, read.state), (vec!["a".to_owned(), "b&c".to_owned()], Some(EventState::Dead)));
        assert_eq!(filter(""), Ok(Filter::default()));
        for (query, says) in [
            ("lane=a&lane=b", "duplicate field `lane`"),
            ("nonsense=1", "unknown field `nonsense`, expected one of `lane`, `state`"),
            ("lane=a%20b", "lane: "),
            ("since=soon", "since: "),
            ("error=", "error: write between 1 and 255 bytes"),
            (&"id=a&".repeat(IDS_MAX + 1), "at most 1000 ids"),
        ] {
            let refused = filter(query).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let all = "lane=main&id=1&id=2%203&type=t&topic=a.*&key=a%26b%3Dc&since=2026-11-15T21:52:03Z\
                   &until=2026-11-16T21:52:03Z&code=c&error=no%20answer";
        let read = filter(all).unwrap();
        let written = pairs(Filter::FIELDS.iter(), &read.given());
        let query: Vec<_> = written
            .iter()
            .map(|(name, value)| {
                format!("{name}={}", value.as_ref().unwrap().replace('&', "%26").replace(' ', "+"))
            })
            .collect();
        assert_eq!(filter(&query.join("&")), Ok(read));
    }

    #[test]
    fn a_command_is_written_and_read_as_the_same() {
        let at = Moment::At("2026-11-15T21:52:03Z".parse().unwrap());
        let (day, odd) = (Duration::from_secs(86_400), Duration::from_millis(1_500));
        for command in [
            Command::Redrive { dry_run: true },
            Command::Discard { reason: "a & b".to_owned(), dry_run: false },
            Command::Schedule { at, dry_run: false },
            Command::Pause,
            Command::Seek { to: Seek::Time("2026-11-15T21:52:03.5Z".parse().unwrap()), dry_run: true },
            Command::Prune { delivered_age: Some(odd), dead_age: None, dry_run: true },
            Command::Prune { delivered_age: None, dead_age: Some(day), dry_run: true },
            Command::PruneInbox { age: day, dry_run: false },
            Command::Rebase { upgraded: true, dry_run: false },
        ] {
            let kind: &'static CommandKind = command.kind();
            let given = pairs(kind.settings.iter(), &command.told());
            let given = given.into_iter().map(|(name, value)| (name.to_owned(), value.unwrap())).collect();
            let mut asked = Asked { given, known: Vec::new() };
            let told =
                asked.told(kind.settings.iter()).unwrap_or_else(|problem| panic!("{:?}", problem.document()));
            let read = Command::from_told(kind, told, command.is_dry_run()).unwrap();
            assert_eq!(read, command);
        }
    }
}
