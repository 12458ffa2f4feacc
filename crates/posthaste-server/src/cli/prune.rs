//! `posthaste prune`: removes old events that every lane has passed, and if asked for old dead ones, and what consumers
//! remember. All of it needs `--yes`: nothing brings back what is removed.

use std::time::Duration;

use posthaste::admin::{Command, Filter};

use super::act::{Action, Consent, How, RateArgs};
use super::context::Context;
use crate::config::unit;
use crate::exit::Failure;

/// What `prune` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Events taken in longer ago than this [default: store.retain]
    #[arg(long, visible_alias = "delivered-age", value_name = "DURATION", value_parser = unit::duration)]
    older_than: Option<Duration>,
    /// Also dead and discarded events that became so longer ago than this
    #[arg(long, visible_alias = "dead-age", value_name = "DURATION", value_parser = unit::duration)]
    dead_older_than: Option<Duration>,
    /// Instead of events, what consumers remember: inbox rows and idempotency records that ended longer ago than this. An
    /// event that comes again after that has its effect again
    #[arg(long, value_name = "DURATION", value_parser = unit::duration, conflicts_with_all = ["older_than", "dead_older_than"])]
    inbox_older_than: Option<Duration>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    rate: RateArgs,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let way = context.way().await?;
    let filter = Filter::default();
    let what = if args.inbox_older_than.is_some() { "handled events" } else { "events" };
    let action =
        Action { context, way: &way, filter: &filter, object: String::new(), what, nothing_fails: false };
    let how = How::from(args.consent).at(args.rate);
    if let Some(age) = args.inbox_older_than {
        return action.run(how, |dry_run| Command::PruneInbox { age, dry_run }).await;
    }
    let delivered_age = Some(args.older_than.unwrap_or(context.config.store.retain));
    let dead_age = args.dead_older_than;
    action.run(how, |dry_run| Command::Prune { delivered_age, dead_age, dry_run }).await
}
