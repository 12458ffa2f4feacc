//! `posthaste lane`: looks at lanes and steers them.

pub(super) mod list;
mod pause;
mod rebase;
mod remove;
mod seek;
mod show;

use clap::Subcommand;
use posthaste::admin::Filter;
use posthaste::lane::LaneName;

use super::context::Context;
use crate::exit::Failure;

/// What `lane` does.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List lanes with their totals
    List,
    /// Show one lane with its totals, and why it is as it is
    Show(show::Args),
    /// Stop driving a lane; what is in flight is finished
    Pause(pause::Args),
    /// Drive a lane again
    Resume(pause::Args),
    /// Continue a lane from another place in the log: skips or repeats what lies between
    Seek(seek::Args),
    /// Make a database that was restored, copied or upgraded this server's own: what not every lane has passed comes again
    Rebase(rebase::Args),
    /// Forget a lane and what it has parked
    Remove(remove::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List => list::run(context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Pause(args) => pause::run(&args, true, context).await,
        Verb::Resume(args) => pause::run(&args, false, context).await,
        Verb::Seek(args) => seek::run(&args, context).await,
        Verb::Rebase(args) => rebase::run(&args, context).await,
        Verb::Remove(args) => remove::run(&args, context).await,
    }
}

/// Everything of this lane; of all lanes without one.
fn only(lane: Option<&LaneName>) -> Filter {
    let mut filter = Filter::default();
    filter.lane = lane.cloned();
    filter
}
