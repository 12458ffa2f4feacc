//! Reading the queries of lists.

use axum::extract::Query;
use axum::http::Uri;
use posthaste::admin::{EventState, Filter, Page};
use posthaste::time::Timestamp;
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};

const PAGE_SIZE_DEFAULT: u32 = 50;
const PAGE_SIZE_MAX: u32 = 1_000;
/// How many ids a query has at most.
const IDS_MAX: usize = 1_000;
/// How long a text may be that errors are searched for.
pub(crate) const ERROR_TEXT_BYTES_MAX: usize = 255;
/// What is said about a page that is none.
pub(super) const NO_PAGE: &str = "after must be what next of the page before said, with the same query";

/// Reads the query; a parameter that is not known is refused with its name.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let read = Query::<T>::try_from_uri(uri);
    read.map(|query| query.0).map_err(|error| {
        // Two layers of words lead to the one that names the parameter.
        let text = error.body_text();
        let named = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        Problem::new(Kind::Malformed, format!("the query cannot be read: {named}"))
    })
}

/// Reads the query, and apart from it the ids, of which there may be several: `id=a&id=b`.
pub(super) fn query_and_ids<T: DeserializeOwned>(uri: &Uri) -> Result<(T, Vec<String>), Problem> {
    let parts = uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty());
    let (ids, others): (Vec<&str>, Vec<&str>) =
        parts.partition(|part| part.split('=').next().is_some_and(|name| name == "id"));
    let asked = |parts: Vec<&str>| {
        let unread = |_| Problem::new(Kind::Malformed, "the query cannot be read");
        format!("/?{}", parts.join("&")).parse::<Uri>().map_err(unread)
    };
    let ids: Vec<(String, String)> = query(&asked(ids)?)?;
    if ids.len() > IDS_MAX {
        let detail = format!("at most {IDS_MAX} ids at a time; ask again for the others");
        return Err(Problem::new(Kind::Malformed, detail));
    }
    Ok((query(&asked(others)?)?, ids.into_iter().map(|(_, id)| id).collect()))
}

/// Which page.
pub(super) fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Problem> {
    let size = limit.unwrap_or(PAGE_SIZE_DEFAULT);
    if !(1..=PAGE_SIZE_MAX).contains(&size) {
        let detail = format!("limit must be between 1 and {PAGE_SIZE_MAX}; read on with after");
        return Err(Problem::new(Kind::Malformed, detail));
    }
    let mut page = Page::first(size);
    page.after = after;
    Ok(page)
}

/// A text to look for in errors, which are read one by one: not too long.
pub(super) fn error_text(text: Option<String>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if !(1..=ERROR_TEXT_BYTES_MAX).contains(&text.len()) => {
            let detail = format!("error must have between 1 and {ERROR_TEXT_BYTES_MAX} bytes");
            Err(Problem::new(Kind::Malformed, detail))
        }
        text => Ok(text),
    }
}

/// Which events, in the words of a query; everything that is there must match.
#[derive(Default)]
pub(super) struct FilterText {
    pub(super) lane: Option<String>,
    pub(super) state: Option<String>,
    pub(super) ids: Vec<String>,
    pub(super) event_type: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) key: Option<String>,
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
    pub(super) code: Option<String>,
    pub(super) error: Option<String>,
}

impl FilterText {
    pub(super) fn understood(self) -> Result<Filter, Problem> {
        let mut filter = Filter::default();
        filter.lane = self.lane.map(|lane| lane.parse()).transpose().map_err(bad("lane"))?;
        filter.state = self.state.map(|name| state(&name)).transpose()?;
        filter.event_type = self.event_type;
        filter.topic = self.topic.map(|topic| topic.parse()).transpose().map_err(bad("topic"))?;
        filter.key = self.key;
        filter.since = time("since", self.since)?;
        filter.until = time("until", self.until)?;
        filter.code = self.code;
        filter.error = error_text(self.error)?;
        filter.ids = self.ids;
        Ok(filter)
    }
}

fn state(name: &str) -> Result<EventState, Problem> {
    EventState::named(name).ok_or_else(|| {
        let detail =
            "state must be pending, retrying, scheduled, behind, delivering, delivered, dead, discarded or unknown";
        Problem::new(Kind::Malformed, detail)
    })
}

/// Reads a time.
pub(super) fn time(name: &'static str, text: Option<String>) -> Result<Option<Timestamp>, Problem> {
    text.map(|text| text.parse()).transpose().map_err(bad(name))
}

/// Says which parameter cannot be read, and why.
pub(super) fn bad(name: &'static str) -> impl Fn(posthaste::Error) -> Problem {
    move |error| Problem::new(Kind::Malformed, format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        lane: Option<String>,
        limit: Option<u32>,
    }

    #[test]
    fn there_may_be_several_ids_and_everything_else_stands_once() {
        let read = |text: &str| query_and_ids::<Asked>(&text.parse().unwrap());
        let (asked, ids) = read("/v1/events?id=a&lane=main&id=b%26c&limit=5").unwrap();
        assert_eq!((asked.lane.as_deref(), asked.limit), (Some("main"), Some(5)));
        assert_eq!(ids, ["a", "b&c"]);
        assert_eq!(read("/v1/events").unwrap().1, Vec::<String>::new());
        assert!(read("/v1/events?lane=a&lane=b").is_err());
        assert!(read("/v1/events?nonsense=1").is_err());
        assert!(read(&format!("/v1/events?{}", "id=a&".repeat(IDS_MAX + 1))).is_err());
    }
}
