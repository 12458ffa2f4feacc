//! `posthaste lane rebase`: after a restore, a copy or an upgrade of the database.

use posthaste::admin::{Command, Filter};

use super::super::act::{Action, Consent};
use super::super::context::Context;
use crate::exit::Failure;

/// What `lane rebase` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The server was upgraded by pg_upgrade, which keeps every id: nothing comes again
    #[arg(long)]
    upgraded: bool,
    #[command(flatten)]
    consent: Consent,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let way = context.way().await?;
    let action = Action {
        context,
        way: &way,
        filter: &Filter::default(),
        object: "all lanes with ".to_owned(),
        what: "events, sent again or for the first time",
        nothing_fails: false,
    };
    action.run(args.consent, |dry_run| Command::Rebase { upgraded: args.upgraded, dry_run }).await
}
