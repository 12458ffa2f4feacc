//! `posthaste event bury`: makes events dead that a lane would try again.

use posthaste::admin::Command;

use super::super::act::{Action, DryRun, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use crate::exit::Failure;

/// What `event bury` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Why, for the record
    #[arg(long, default_value = "buried by an operator")]
    reason: String,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let bury = |dry_run| Command::Bury { reason: args.reason.clone(), dry_run };
    let filter = args.filter.meant_by(bury(true).kind())?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "waiting events");
    let how = How::from(args.dry_run).at(args.rate);
    action.run(how, bury).await
}
