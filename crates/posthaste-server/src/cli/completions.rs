//! `posthaste completions`: completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, output};
use crate::exit::Failure;

/// What `completions` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "posthaste", &mut script);
    output::write(&script)
}
