//! `posthaste event`: looks at events, puts them forward, back or aside, and erases payloads.

mod bury;
mod erase;
mod indent;
pub(super) mod list;
mod payload;
mod schedule;
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
    /// Make events dead that a lane would try again; a redrive brings them back
    Bury(bury::Args),
    /// Set when events are tried that wait for their time
    Schedule(schedule::Args),
    /// Overwrite payloads; the rest of the event stays
    Erase(erase::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Tail(args) => tail::run(&args, context).await,
        Verb::Bury(args) => bury::run(&args, context).await,
        Verb::Schedule(args) => schedule::run(&args, context).await,
        Verb::Erase(args) => erase::run(&args, context).await,
    }
}
