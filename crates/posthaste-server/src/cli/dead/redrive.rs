//! `posthaste dead redrive`: sends dead events again and, with `--wait`, waits for what becomes of them.

use std::time::Duration;

use super::super::act::{Action, Consent, DryRun, How, RateArgs};
use super::super::context::Context;
use super::super::filter::FilterArgs;
use super::at::{BrokerArgs, redrive};
use super::wait::Awaited;
use crate::config::unit;
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
    /// Wait until each of them is delivered or dead again; exit code 7 if not all are delivered
    #[arg(long, conflicts_with_all = ["broker", "dry_run"])]
    wait: bool,
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", value_parser = unit::duration, default_value = "5m", requires = "wait")]
    timeout: Duration,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let Some(letters) = args.at.letters(args.filter.filter(), context)? {
        return letters.action(context).run(How::from(args.consent).at(args.rate), redrive).await;
    }
    let filter = args.filter.meant_by(redrive(true).kind())?;
    let way = context.way().await?;
    let action = Action::on_events(context, &way, &filter, "dead events");
    if !args.wait {
        return action.run(How::from(DryRun { dry_run: args.consent.dry_run }).at(args.rate), redrive).await;
    }
    // Which they are is known as long as they are dead.
    let awaited = Awaited::find(&way, &filter).await?;
    let Some((applied, is_stopped)) = action.apply(args.rate.rate, redrive).await? else { return Ok(()) };
    // As JSON, what was done and what became of it are one document.
    if !context.json() || applied.matched == 0 {
        action.tell("redrive", applied, false, is_stopped, Vec::new())?;
    }
    let timeout = if is_stopped { Duration::ZERO } else { args.timeout };
    match awaited.wait(&way, timeout).await? {
        Some(settled) => settled.tell(applied, is_stopped, context),
        None => Ok(()),
    }
}
