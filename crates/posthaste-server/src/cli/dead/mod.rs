//! `posthaste dead`: events that failed for good.

mod at;
mod codes;
mod discard;
mod list;
mod redrive;
mod show;
mod wait;

use clap::Subcommand;
use posthaste::admin::{EventState, Filter};

use super::context::Context;
use super::filter::FilterArgs;
use crate::exit::Failure;

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

/// The dead ones among these, of a lane that must be named.
fn dead_of_a_lane(args: &FilterArgs) -> Result<Filter, Failure> {
    if args.lane.is_none() {
        return Err(Failure::usage(
            "choose dead events: say --lane LANE (posthaste lane list shows the lanes), or --broker TARGET --group GROUP",
        ));
    }
    Ok(args.filter(Some(EventState::Dead)))
}
