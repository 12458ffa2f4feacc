//! `posthaste dead list`: dead events with why they died.

use clap::ValueEnum;
use posthaste::admin::EventState;

use super::super::context::Context;
use super::super::event::list::{PageArgs, fetch, none_of};
use super::super::filter::FilterArgs;
use super::super::output;
use super::at::BrokerArgs;
use super::codes;
use crate::exit::Failure;
use crate::http::wire::{EventDocument, LaneViewDocument};

/// How often it was tried is told by `dead show`: here the error needs the room.
const HEAD: [&str; 6] = ["DEAD SINCE (UTC)", "LANE", "ID", "TYPE", "CODE", "ERROR"];

/// What `dead list` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    at: BrokerArgs,
    /// Count them by what they have in common instead; of a lane, a code, a text in the error
    #[arg(long, value_enum, conflicts_with_all = ["limit", "after"])]
    by: Option<By>,
    #[command(flatten)]
    page: PageArgs,
}

/// What dead events have in common.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// The code of their failure
    Code,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let Some(By::Code) = args.by {
        return codes::run(args.filter.filter(), args.at.letters(args.filter.filter(), context)?, context)
            .await;
    }
    let page = match args.at.letters(args.filter.filter(), context)? {
        Some(letters) => letters.list(args.page.wanted()).await?,
        None => {
            let access = context.access(false).await?;
            fetch(&access, &args.filter.in_state(Some(EventState::Dead)), &args.page).await?
        }
    };
    if context.json() {
        return output::json(&page);
    }
    let rows = page.events.iter().flat_map(|event| {
        event
            .lanes
            .iter()
            .filter(|view| view.state == EventState::Dead.name())
            .map(move |view| row(event, view))
    });
    output::table(&HEAD, rows.collect(), &none_of(&page, "no dead events"))?;
    output::tell_next(page.next.as_deref());
    Ok(())
}

fn row(event: &EventDocument, view: &LaneViewDocument) -> Vec<String> {
    vec![
        view.dead_at.as_deref().map(output::time).unwrap_or_default(),
        view.lane.clone(),
        event.id.clone(),
        event.event_type.clone(),
        view.code.clone().unwrap_or_default(),
        view.last_error.clone().unwrap_or_default(),
    ]
}
