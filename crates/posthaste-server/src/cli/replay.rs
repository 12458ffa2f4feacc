//! `posthaste replay`: delivers events again that a lane has delivered.

use posthaste::admin::Command;

use super::act::{Action, DryRun, How, RateArgs};
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
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let replay = |dry_run| Command::Replay { dry_run };
    let filter = args.filter.meant_by(replay(true).kind())?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "delivered events");
    action.run(How::from(args.dry_run).at(args.rate), replay).await
}
