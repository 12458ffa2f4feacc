//! `posthaste lane pause` and `posthaste lane resume`.

use posthaste::admin::Command;
use posthaste::lane::LaneName;

use super::super::act::{Action, DryRun};
use super::super::context::Context;
use super::super::filter;
use super::only;
use crate::exit::Failure;

/// What `lane pause` and `lane resume` take.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which lane
    #[arg(value_parser = filter::lane, required_unless_present = "all")]
    lane: Option<LaneName>,
    /// All lanes
    #[arg(long, conflicts_with = "lane")]
    all: bool,
}

pub(super) async fn run(args: &Args, pause: bool, context: &Context) -> Result<(), Failure> {
    let way = context.way().await?;
    let filter = only(args.lane.as_ref());
    let action = Action {
        context,
        way: &way,
        filter: &filter,
        object: String::new(),
        what: "lanes",
        nothing_fails: true,
    };
    let command = move |_| if pause { Command::Pause } else { Command::Resume };
    action.run(DryRun { dry_run: false }, command).await
}
