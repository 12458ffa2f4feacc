//! `posthaste lane seek`: continues a lane from another place in the log.

use posthaste::admin::{Command, Seek};
use posthaste::lane::LaneName;

use super::super::act::{Action, Consent};
use super::super::context::Context;
use super::super::filter;
use super::super::moment::past;
use super::only;
use crate::exit::Failure;

/// What `lane seek` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which lane
    #[arg(value_parser = filter::lane)]
    lane: LaneName,
    /// Where: beginning, end, a time, or how long ago
    #[arg(long, value_name = "PLACE", value_parser = place)]
    to: Seek,
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
        object: format!("lane {} past ", args.lane),
        what: "events, skipped or sent again",
        nothing_fails: false,
    };
    action.run(args.consent, |dry_run| Command::Seek { to: args.to, dry_run }).await
}

fn place(text: &str) -> Result<Seek, String> {
    match text {
        "beginning" => Ok(Seek::Beginning),
        "end" => Ok(Seek::End),
        time => past(time).map(Seek::Time).map_err(|error| format!("write beginning or end, or {error}")),
    }
}
