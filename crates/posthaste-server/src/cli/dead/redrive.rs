//! `posthaste dead redrive`: sends dead events again.

use posthaste::admin::Command;

use super::super::act::{Action, DryRun};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use super::dead_of_a_lane;
use crate::exit::Failure;

/// What `dead redrive` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    dry_run: DryRun,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let filter = dead_of_a_lane(&args.filter)?;
    let store = context.existing_store().await?;
    let action = Action {
        context,
        store: &*store,
        filter: &filter,
        object: String::new(),
        what: "dead events",
        nothing_fails: true,
    };
    action.run(args.dry_run, |dry_run| Command::Redrive { dry_run }).await
}
