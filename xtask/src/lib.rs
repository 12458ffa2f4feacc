//! The project's own tasks: `cargo xtask servers up|down`, `cargo xtask test`, `cargo xtask laws`, `cargo
//! xtask nemesis`.

mod binaries;
mod features;
mod flaky;
mod laws;
mod map;
mod nemesis;
mod report;
mod scratch;
mod servers;
mod steps;
mod table;
mod trials;
mod whole_check;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use posthaste_testservers::{Error, Interrupt, Kind, Result};

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Private servers for tests, by hand.
    Servers {
        #[command(subcommand)]
        verb: ServersVerb,
    },
    /// The whole check: format, clippy, every feature alone, all tests against private servers, docs.
    Test,
    /// The laws as a table, a row for each law and a column for each backend.
    Laws {
        /// Only laws whose name contains this.
        filter: Option<String>,
        /// Only on these backends.
        #[arg(long, value_delimiter = ',', value_name = "BACKEND,…")]
        on: Vec<String>,
    },
    /// The words of changed lines: wide comments, phrases that have a plainer form, long commit subjects;
    /// and the size and the paths of ARCHITECTURE.md.
    Words {
        /// Lines that were added since this commit, in place of the one in `xtask/fixtures/words-since`.
        #[arg(long, value_name = "COMMIT")]
        since: Option<String>,
    },
    /// A line of real processes under kills, stops and cuts, and a check of what came of it; `--help` says more.
    #[command(disable_help_flag = true)]
    Nemesis {
        /// As the nemesis understands them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum ServersVerb {
    /// Starts servers (all if none is named), installs what is missing if root, and prints `export` lines.
    Up {
        /// Which ones.
        kinds: Vec<Kind>,
    },
    /// Ends what `up` started.
    Down,
}

/// Does the task that the command line names. Exit code 0: all is well; 1: something failed; 2: usage; 128 and more:
/// ended by a signal.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let interrupt = match Interrupt::on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return fail(&error),
    };
    match perform(arguments.task, &interrupt) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => match interrupt.exit_code() {
            Some(code) => {
                eprintln!("\ninterrupted; everything that was started has ended");
                ExitCode::from(code)
            }
            None => fail(&error),
        },
    }
}

fn perform(task: Task, interrupt: &Interrupt) -> Result<bool> {
    match task {
        Task::Servers { verb: ServersVerb::Up { kinds } } => {
            let kinds = if kinds.is_empty() { Kind::ALL.to_vec() } else { kinds };
            servers::up(&kinds, interrupt).map(|()| true)
        }
        Task::Servers { verb: ServersVerb::Down } => servers::down().map(|()| true),
        Task::Test => whole_check::test(interrupt),
        Task::Laws { filter, on } => laws::laws(filter.as_deref(), &on, interrupt),
        Task::Words { since } => words::words(since.as_deref()),
        Task::Nemesis { arguments } => nemesis::nemesis(&arguments, interrupt),
    }
}

fn fail(error: &Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
