//! `posthaste event erase`: overwrites payloads; the rest of the event stays.

use posthaste::admin::Command;

use super::super::act::{Action, Consent, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use crate::exit::Failure;

/// What `event erase` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let erase = |dry_run| Command::Erase { dry_run };
    let filter = args.filter.meant_by(erase(true).kind())?;
    let way = context.way().await?;
    let mut action = Action::on_events(context, &way, &filter, "events");
    action.object = "the payloads of ".to_owned();
    action.run(How::from(args.consent).at(args.rate), erase).await
}
