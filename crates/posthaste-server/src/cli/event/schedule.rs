//! `posthaste event schedule`: sets when events are tried that wait for their time.

use posthaste::admin::Command;
use posthaste::time::Moment;

use super::super::act::{Action, DryRun, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use super::super::moment::future;
use crate::exit::Failure;

/// What `event schedule` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// When: a time, or how long from now
    #[arg(long, value_name = "TIME", value_parser = future)]
    at: Moment,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let schedule = |dry_run| Command::Schedule { at: args.at, dry_run };
    let filter = args.filter.meant_by(schedule(true).kind())?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "scheduled or retrying events");
    let how = How::from(args.dry_run).at(args.rate);
    action.run(how, schedule).await
}
