//! `posthaste lane remove`: forgets a lane and what it has parked.

use posthaste::admin::Command;
use posthaste::lane::LaneName;

use super::super::act::{Action, Consent};
use super::super::context::Context;
use super::super::filter;
use super::only;
use crate::exit::Failure;

/// What `lane remove` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which lane; take it out of the configuration first, or the next relay makes it anew
    #[arg(value_parser = filter::lane)]
    lane: LaneName,
    #[command(flatten)]
    consent: Consent,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.existing_store().await?;
    let filter = only(Some(&args.lane));
    let action = Action {
        context,
        admin: &*store,
        filter: &filter,
        object: format!("lane {} with ", args.lane),
        what: "parked events",
        nothing_fails: false,
        failure: Failure::from,
    };
    action.run_for_good(args.consent, |dry_run| Command::Remove { dry_run }).await
}
