//! `posthaste dead`: events that failed for good.

mod at;
mod codes;
mod discard;
mod list;
mod redrive;
mod show;
mod wait;

use super::context::Context;
use crate::exit::Failure;
use clap::Subcommand;

/// What `dead` does.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List dead events with why they died
    List(list::Args),
    /// Show one event with its payload and what the lanes did with it
    Show(show::ShowArgs),
    /// Send dead events again; they may arrive after later events of their key
    Redrive(redrive::Args),
    /// Give dead events up, with a record
    Discard(discard::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Redrive(args) => redrive::run(&args, context).await,
        Verb::Discard(args) => discard::run(&args, context).await,
    }
}
