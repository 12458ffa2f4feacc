//! `posthaste event list`: a page of events, the newest first.

use posthaste::admin::{EventState, Page};

use super::super::context::{Access, Context};
use super::super::filter::{FilterArgs, state};
use super::super::output;
use crate::exit::Failure;
use crate::http::wire::{EventDocument, EventPage};

/// The columns of a list of events.
pub(in crate::cli) const HEAD: [&str; 6] = ["TIME (UTC)", "ID", "TYPE", "TOPIC", "KEY", "LANES"];

/// What `event list` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// In this state: pending, retrying, scheduled, behind, delivering, delivered, dead or discarded
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

pub(in crate::cli) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let access = context.access(false).await?;
    let page = fetch(&access, &args.filter, args.state, &args.page).await?;
    if context.json() {
        return output::json(&page);
    }
    output::table(&HEAD, page.events.iter().map(row).collect(), "no events")?;
    tell_next(&page);
    Ok(())
}

/// A page of events by the server or from the store: the same document.
pub(in crate::cli) async fn fetch(
    access: &Access,
    filter: &FilterArgs,
    state: Option<EventState>,
    page: &PageArgs,
) -> Result<EventPage, Failure> {
    match access {
        Access::Server(client) => {
            let path = filter.query(state, page.limit, page.after.as_deref());
            let page = client.get(&path).await?;
            page.ok_or_else(|| Failure::other("list events: the server does not know /v1/events"))
        }
        Access::Store(store) => {
            let mut wanted = Page::first(page.limit);
            wanted.after = page.after.clone();
            let found = store.find(&filter.filter(state), wanted).await;
            Ok(EventPage::of(&found.map_err(|error| error.during("list events"))?))
        }
    }
}

/// One event as a row under [`HEAD`].
pub(in crate::cli) fn row(event: &EventDocument) -> Vec<String> {
    let lanes: Vec<_> = event.lanes.iter().map(|view| format!("{} {}", view.lane, view.state)).collect();
    vec![
        output::time(&event.created_at),
        event.id.clone(),
        event.event_type.clone(),
        event.topic.clone(),
        event.key.clone().unwrap_or_default(),
        lanes.join(", "),
    ]
}

/// Says on stderr how to read on.
pub(in crate::cli) fn tell_next(page: &EventPage) {
    if let Some(next) = &page.next {
        output::note(&format!("there are more: --after {next}"));
    }
}
