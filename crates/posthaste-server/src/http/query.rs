//! Reading the queries of lists.

use axum::extract::Query;
use axum::http::Uri;
use posthaste::admin::{EventState, Filter, Page};
use posthaste::time::Timestamp;
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};

const PAGE_SIZE_DEFAULT: u32 = 50;
const PAGE_SIZE_MAX: u32 = 1_000;
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
    pub(super) id: Option<String>,
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
        filter.ids = self.id.into_iter().collect();
        Ok(filter)
    }
}

fn state(name: &str) -> Result<EventState, Problem> {
    EventState::named(name).ok_or_else(|| {
        let detail =
            "state must be pending, retrying, scheduled, behind, delivering, delivered, dead or discarded";
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
