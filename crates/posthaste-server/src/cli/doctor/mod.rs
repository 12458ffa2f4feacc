//! `posthaste doctor`: looks at everything that the configuration names and says what is wrong, or will be, and how to mend it.
//!
//! A check is one that a store or a target makes of itself (`Schema::examine`, `Target::examine`), or a function in one of the
//! files here. Each has an end, none changes anything, and one that fails hides no other.

mod certificates;
mod files;
mod lanes;
mod report;
mod store;
mod targets;

use posthaste::findings::{Finding, Mend};

use super::context::Context;
use crate::config::Problem;
use crate::exit::Failure;

/// What `doctor` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also look at the queues of this group at every broker: the name of a consumer
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
}

/// The configuration was read before this is called, so it has no mistakes.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    context.refuse_server()?;
    let config = &context.config;
    let (lanes, targets) = (config.lanes.len(), config.targets.len());
    let mut found = vec![Finding::ok("configuration", format!("valid, {lanes} lanes, {targets} targets"))];
    let notes = context.notes().iter();
    found.extend(
        notes.map(|note| Finding::warning("environment", note, Mend::words("look at the environment"))),
    );
    found.extend(files::examine(config, context.key_file()));
    found.extend(certificates::of_files(config));
    found.extend(store::examine(context).await);
    found.extend(targets::examine(config, &args.group).await);
    found.extend(certificates::of_servers());
    report::show(&found, context.json())
}

/// What is said about a configuration that cannot be read: without it nobody knows where to look.
pub(super) fn unreadable(problems: &[Problem], is_json: bool) -> Result<(), Failure> {
    let mend = || Mend::words("correct it; posthaste check --print shows every setting with its meaning");
    let told = |problem: &Problem| Finding::failure("configuration", problem.to_string(), mend());
    report::show(&problems.iter().map(told).collect::<Vec<_>>(), is_json)
}
