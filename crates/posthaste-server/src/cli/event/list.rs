//! `posthaste event list`: a page of events, the newest first.

use std::collections::BTreeMap;

use posthaste::admin::{EventState, Filter, Page};

use super::super::context::{Access, Context};
use super::super::filter::{FilterArgs, events_query, state};
use super::super::output;
use crate::exit::Failure;
use crate::http::wire::{EventDocument, EventPage, LaneViewDocument};

/// Which column of [`row`] is the topic.
const TOPIC: usize = 3;

/// How many pages without an event are read on; each looks at 20,000.
const EMPTY_PAGES_MAX: usize = 50;

/// What `event list` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// In this state: pending, retrying, scheduled, behind, delivering, delivered, dead, discarded or unknown
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<EventState>,
    #[command(flatten)]
    page: PageArgs,
}

/// Which page.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PageArgs {
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(in crate::cli) limit: u32,
    /// Read on where the page before ended
    #[arg(long, value_name = "NEXT")]
    pub(in crate::cli) after: Option<String>,
}

impl PageArgs {
    pub(in crate::cli) fn wanted(&self) -> Page {
        let mut page = Page::first(self.limit);
        page.after.clone_from(&self.after);
        page
    }
}

pub(in crate::cli) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let access = context.access(false).await?;
    let page = fetch(&access, &args.filter.in_state(args.state), &args.page).await?;
    if context.json() {
        return output::json(&page);
    }
    show(&page)?;
    output::tell_next(page.next.as_deref());
    Ok(())
}

/// A table for people. Most topics are the type; then a column less leaves room for the rest.
pub(in crate::cli) fn show(page: &EventPage) -> Result<(), Failure> {
    let mut head = vec!["TIME (UTC)", "ID", "TYPE", "TOPIC", "KEY", "LANES"];
    let mut rows: Vec<_> = page.events.iter().map(row).collect();
    if page.events.iter().all(|event| event.topic == event.event_type) {
        head.remove(TOPIC);
        rows.iter_mut().for_each(|row| drop(row.remove(TOPIC)));
    }
    output::table(&head, rows, &none_of(page, "no events"))
}

/// A page of events by the server or from the store: the same document. Reads on while it finds none, but not for ever.
pub(in crate::cli) async fn fetch(
    access: &Access,
    filter: &Filter,
    page: &PageArgs,
) -> Result<EventPage, Failure> {
    let mut after = page.after.clone();
    for _ in 1..EMPTY_PAGES_MAX {
        let found = one_page(access, filter, page.limit, after.as_deref()).await?;
        if !found.events.is_empty() || found.next.is_none() {
            return Ok(found);
        }
        after = found.next;
    }
    one_page(access, filter, page.limit, after.as_deref()).await
}

async fn one_page(
    access: &Access,
    filter: &Filter,
    limit: u32,
    after: Option<&str>,
) -> Result<EventPage, Failure> {
    match access {
        Access::Server(client) => {
            let page = client.get(&events_query(filter, limit, after)).await?;
            // A server of ours knows the path: what is not there is the lane.
            page.ok_or_else(|| match &filter.lane {
                Some(lane) => Failure::nothing(format!("list events: there is no lane {lane}")),
                None => Failure::other("list events: the server does not know /v1/events"),
            })
        }
        Access::Store(store) => {
            let mut page = Page::first(limit);
            page.after = after.map(str::to_owned);
            let found = store.find(filter, page).await;
            Ok(EventPage::of(&found.map_err(|error| error.during("list events"))?))
        }
    }
}

/// What is said of a page without events: there are none, or none so far.
pub(in crate::cli) fn none_of(page: &EventPage, what: &str) -> String {
    match &page.next {
        Some(_) => format!("{what} among those that were looked at; there are older ones"),
        None => what.to_owned(),
    }
}

/// One event as a row: time, id, type, topic, key, lanes.
pub(in crate::cli) fn row(event: &EventDocument) -> Vec<String> {
    vec![
        output::time(&event.created_at),
        event.id.clone(),
        event.event_type.clone(),
        event.topic.clone(),
        event.key.clone().unwrap_or_default(),
        lanes(&event.lanes),
    ]
}

/// `main delivered`, or of several lanes `2 delivered, 1 dead`: `event show` names them.
fn lanes(views: &[LaneViewDocument]) -> String {
    if let [view] = views {
        return format!("{} {}", view.lane, view.state);
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    for view in views {
        *counts.entry(&view.state).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    counts.join(", ")
}
