//! `posthaste event`: looks at events.

pub(super) mod list;
pub(super) mod show;
mod tail;

use clap::Subcommand;

use super::context::Context;
use crate::exit::Failure;

/// What `event` does.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List events, the newest first
    List(list::Args),
    /// Show one event with its payload and what the lanes did with it
    Show(show::Args),
    /// Show events as they come; with --output json, one document per line
    Tail(tail::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Tail(args) => tail::run(&args, context).await,
    }
}
