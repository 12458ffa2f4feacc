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
    let way = context.way().await?;
    let filter = only(Some(&args.lane));
    let action = Action {
        context,
        way: &way,
        filter: &filter,
        object: format!("lane {} with ", args.lane),
        what: "parked events",
        nothing_fails: false,
    };
    action.run(args.consent, |dry_run| Command::Remove { dry_run }).await
}
