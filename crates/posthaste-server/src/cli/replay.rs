//! `posthaste replay`: delivers events again that a lane has delivered.

use posthaste::admin::{Command, EventState};

use super::act::{Action, DryRun};
use super::context::Context;
use super::filter::FilterArgs;
use crate::exit::Failure;

/// What `replay` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    dry_run: DryRun,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if args.filter.lane.is_none() {
        return Err(Failure::usage("replay: say --lane LANE; posthaste lane list shows the lanes"));
    }
    let filter = args.filter.filter(Some(EventState::Delivered));
    let store = context.existing_store().await?;
    let action = Action::on_events(context, &*store, &filter, "delivered events");
    action.run(args.dry_run, |dry_run| Command::Replay { dry_run }).await
}
