//! `posthaste doctor`: looks at everything that the configuration names and says what is wrong, or will be, and how to mend it.
//!
//! A check is one that a store or a target makes of itself (`Schema::examine`, `Target::examine`), or a function in one of the
//! files here. Each has an end, none changes anything, and one that fails hides no other.

mod certificates;
mod files;
mod lanes;
pub(super) mod report;
mod store;
mod targets;

use posthaste::findings::{Finding, Mend};

use self::report::Style;
use super::context::Context;
use super::report::{ShowArgs, of_configuration};
use crate::config::Problem;
use crate::exit::Failure;

/// What `doctor` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also look at the queues of this group at every broker: the name of a consumer
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    #[command(flatten)]
    pub(super) show: ShowArgs,
}

/// The configuration was read before this is called, so it has no mistakes.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    context.refuse_server()?;
    let config = &context.config;
    let mut found = vec![of_configuration(context)];
    let notes = context.notes().iter();
    found.extend(
        notes.map(|note| Finding::warning("environment", note, Mend::words("look at the environment"))),
    );
    found.extend(files::examine(config, context.key_file()));
    found.extend(certificates::of_files(config));
    found.extend(store::examine(context).await);
    found.extend(targets::examine(config, &args.group).await);
    found.extend(certificates::of_servers());
    let style = Style { is_json: context.json(), is_coloured: context.is_coloured() };
    report::show(&found, args.show, style)
}

/// What is said about a configuration that cannot be read: without it nobody knows where to look.
pub(super) fn unreadable(args: &Args, problems: &[Problem], style: Style) -> Result<(), Failure> {
    let mend = || Mend::words("correct it; posthaste check --print shows every setting with its meaning");
    let told = |problem: &Problem| Finding::failure("configuration", problem.to_string(), mend());
    report::show(&problems.iter().map(told).collect::<Vec<_>>(), args.show, style)
}
