//! `posthaste dead redrive`: sends dead events again.

use super::super::act::{Action, Consent, DryRun, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use super::at::{BrokerArgs, redrive};
use super::dead_of_a_lane;
use crate::exit::Failure;

/// What `dead redrive` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    at: BrokerArgs,
    /// `--yes` is needed with --broker only.
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let Some(letters) = args.at.letters(&args.filter, context)? {
        return letters.action(context).run(How::from(args.consent).at(args.rate), redrive).await;
    }
    let filter = dead_of_a_lane(&args.filter)?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "dead events");
    action.run(How::from(DryRun { dry_run: args.consent.dry_run }).at(args.rate), redrive).await
}
