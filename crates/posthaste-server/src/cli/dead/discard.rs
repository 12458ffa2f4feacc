//! `posthaste dead discard`: gives dead events up, with a record.

use posthaste::admin::Command;

use super::super::act::{Action, Consent, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use super::at::BrokerArgs;
use crate::exit::Failure;

/// What `dead discard` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    at: BrokerArgs,
    /// Why, for the record
    #[arg(long, default_value = "discarded by an operator")]
    reason: String,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let discard = |dry_run| Command::Discard { reason: args.reason.clone(), dry_run };
    let how = How::from(args.consent).at(args.rate);
    if let Some(letters) = args.at.letters(args.filter.filter(), context)? {
        return letters.action(context).run(how, discard).await;
    }
    let filter = args.filter.meant_by(discard(true).kind())?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "dead events");
    action.run(how, discard).await
}
