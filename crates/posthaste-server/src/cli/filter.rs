//! Which events: the same flags on every verb that looks for some, and the same question to store and server.

use posthaste::admin::{EventState, Filter};
use posthaste::lane::LaneName;
use posthaste::pattern::Pattern;
use posthaste::time::Timestamp;

use super::moment::past;
use crate::http::query::ERROR_TEXT_BYTES_MAX;

/// Which events; every flag that is given must match.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct FilterArgs {
    /// As this lane sees them
    #[arg(long, value_name = "LANE", value_parser = lane)]
    pub(super) lane: Option<LaneName>,
    /// With this id; may be given several times
    #[arg(long = "id", value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// With a topic that matches, like orders or stock.*
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(super) topic: Option<Pattern>,
    /// With this key
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Taken in at or after: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub(super) since: Option<Timestamp>,
    /// Taken in before: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub(super) until: Option<Timestamp>,
    /// Failed with this code, like timeout
    #[arg(long, value_name = "CODE")]
    pub(super) code: Option<String>,
    /// Failed with this text in what the failure said
    #[arg(long, value_name = "TEXT", value_parser = error_text)]
    pub(super) error: Option<String>,
}

impl FilterArgs {
    /// As the store is asked.
    pub(super) fn filter(&self, state: Option<EventState>) -> Filter {
        let mut filter = Filter::default();
        filter.lane = self.lane.clone();
        filter.state = state;
        filter.ids = self.ids.clone();
        filter.event_type = self.event_type.clone();
        filter.topic = self.topic.clone();
        filter.key = self.key.clone();
        filter.since = self.since;
        filter.until = self.until;
        filter.code = self.code.clone();
        filter.error = self.error.clone();
        filter
    }

    /// As the server is asked: the query of `GET /v1/events`.
    pub(super) fn query(&self, state: Option<EventState>, limit: u32, after: Option<&str>) -> String {
        let mut pairs = filter_pairs(&self.filter(None));
        pairs.push(("state", state.map(|state| state.name().to_owned())));
        pairs.push(("after", after.map(str::to_owned)));
        with_query(&format!("/v1/events?limit={limit}"), pairs)
    }

    /// As the server is asked: the query of `GET /v1/dead/codes`.
    pub(super) fn codes_query(&self) -> String {
        let lane = self.lane.as_ref().map(ToString::to_string);
        let pairs = [("lane", lane), ("code", self.code.clone()), ("error", self.error.clone())];
        with_query("/v1/dead/codes?", pairs)
    }
}

/// A filter as a server is told of it, but for the state: that is the command's own.
pub(super) fn filter_pairs(filter: &Filter) -> Vec<(&'static str, Option<String>)> {
    let mut pairs = vec![
        ("lane", filter.lane.as_ref().map(ToString::to_string)),
        ("type", filter.event_type.clone()),
        ("topic", filter.topic.as_ref().map(ToString::to_string)),
        ("key", filter.key.clone()),
        ("since", filter.since.map(|time| time.to_string())),
        ("until", filter.until.map(|time| time.to_string())),
        ("code", filter.code.clone()),
        ("error", filter.error.clone()),
    ];
    pairs.extend(filter.ids.iter().map(|id| ("id", Some(id.clone()))));
    pairs
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

/// Reads a text to look for in errors.
fn error_text(text: &str) -> Result<String, String> {
    if (1..=ERROR_TEXT_BYTES_MAX).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("write between 1 and {ERROR_TEXT_BYTES_MAX} bytes"))
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

fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(|error: posthaste::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_asks_for_the_same_as_the_filter() {
        let args = FilterArgs {
            lane: Some("main".parse().unwrap()),
            key: Some("a&b=c d/ü".to_owned()),
            ids: vec!["1".to_owned(), "2".to_owned()],
            ..FilterArgs::default()
        };
        assert_eq!(
            args.query(Some(EventState::Dead), 5, None),
            "/v1/events?limit=5&lane=main&key=a%26b%3Dc%20d%2F%C3%BC&id=1&id=2&state=dead"
        );
        assert_eq!(args.filter(None).key.as_deref(), Some("a&b=c d/ü"));
    }
}
