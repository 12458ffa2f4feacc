//! The command line: one file per verb.
//!
//! A verb takes its arguments and a `Context`, and answers or fails with a [`Failure`] that knows its exit code.
//! Results go to stdout, everything else to stderr; `--output json` puts exactly one document on stdout.

mod act;
mod actor;
mod audit;
mod check;
mod client;
mod completions;
#[cfg(feature = "conformance")]
mod conformance;
mod context;
mod dead;
mod doctor;
mod event;
mod filter;
mod key;
mod lane;
mod migrate;
mod moment;
mod produce;
mod prune;
mod publish;
mod relay;
mod replay;
mod report;
mod serve;
mod stats;
mod way;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use posthaste_terminal::{output, visible, words};

use crate::config::{Flag, Problem, Sources};
use crate::exit::{Code, Failure};
use crate::{config, logging};
use context::{Context, Globals, Output};
use doctor::report::Style;

/// Carries an application's events from the database transaction that caused them to everyone who must know.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 ok · 2 usage · 3 configuration · 4 store unreachable · 5 target unreachable · \
                          6 nothing matched · 7 not all delivered (--wait) · 1 anything else.\nSettings: posthaste check --print";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve REST and drive the configured lanes
    Serve(serve::Args),
    /// Drive the configured lanes without a server
    Relay(relay::Args),
    /// Make and check the store's tables
    #[command(subcommand)]
    Migrate(migrate::Verb),
    /// Check the configuration
    Check(check::Args),
    /// Look for what goes wrong in practice, in configuration, store and targets, and say how to mend it
    Doctor(doctor::Args),
    /// Publish an event
    Publish(publish::Args),
    /// Publish events that are made up, so many or again and again, for trying things out
    Produce(produce::Args),
    /// Look at events
    #[command(subcommand)]
    Event(event::Verb),
    /// Look at lanes and steer them
    #[command(subcommand)]
    Lane(lane::Verb),
    /// Look at dead events, send them again or give them up
    #[command(subcommand)]
    Dead(dead::Verb),
    /// Deliver events again that were delivered; they may arrive after later events of their key
    Replay(replay::Args),
    /// Remove old events that every lane has passed
    Prune(prune::Args),
    /// Show the totals of every lane
    Stats,
    /// Make API keys
    #[command(subcommand)]
    Key(key::Verb),
    /// List what was changed, by whom and from where
    Audit(audit::Args),
    /// Hold an outbox table and a relay to the requirements of the open-outbox specification
    #[cfg(feature = "conformance")]
    Conformance(conformance::Args),
    /// Measure this machine
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(posthaste_bench::BenchCommand),
    /// Print completions for a shell
    Completions(completions::Args),
}

impl Verb {
    fn is_long_running(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Relay(_))
    }

    /// Settings that the verb's own flags make.
    fn flags(&self) -> Vec<Flag> {
        match self {
            Self::Serve(args) => args.flags(),
            Self::Relay(args) => args.flags(),
            #[cfg(feature = "conformance")]
            Self::Conformance(args) => args.flags(),
            _ => Vec::new(),
        }
    }
}

/// Reads the command line, does what it says and answers the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            match error.kind() {
                // Help and version are errors to clap; nobody reading them is no failure.
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
                _ => output::complain(&misread(&error)),
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8));
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_quiet() {
                output::complain(&failure);
            }
            ExitCode::from(failure.code() as u8)
        }
    }
}

/// What clap says about the command line, as every other failure is said.
fn misread(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Failure::usage(format!("read the command line: {}", text.trim_end()))
}

/// All mistakes of a configuration in one failure.
fn misconfigured(problems: Vec<Problem>) -> Failure {
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    let count = words::counted(problems.len(), "mistakes");
    Failure::new(Code::Config, format!("read the configuration, which has {count}:{lines}"))
}

fn run(cli: Cli) -> Result<(), Failure> {
    // These two must work where the configuration is broken.
    match cli.verb {
        Verb::Completions(args) => return completions::run(&args),
        Verb::Check(check::Args { print: true, .. }) => return output::write(config::DEFAULTS.as_bytes()),
        _ => {}
    }
    let mut flags = cli.globals.flags();
    flags.extend(cli.verb.flags());
    let environment = config::Environment::of_process();
    let is_coloured = environment.is_coloured();
    let sources = Sources {
        file: cli.globals.config.clone(),
        environment,
        flags,
        reference: matches!(cli.verb, Verb::Relay(_) | Verb::Doctor(_)),
    };
    let (config, environment) = match (sources.load(), &cli.verb) {
        (Err(problems), Verb::Doctor(args)) => {
            let style = Style { is_json: cli.globals.output == Output::Json, is_coloured };
            return doctor::unreadable(args, &problems, style);
        }
        (loaded, _) => loaded.map_err(misconfigured)?,
    };
    logging::start(&config, cli.verb.is_long_running());
    let context = Context::new(config, environment, cli.globals);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match dispatch(cli.verb, &context).await {
            Err(failure) => match context.hint(&failure).await {
                Some(hint) => Err(failure.with_hint(&hint)),
                None => Err(failure),
            },
            done => done,
        }
    });
    // What is still running was told to stop and is safe to leave: nothing waits for a thread that hangs.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Serve(_) => serve::run(context).await,
        Verb::Relay(args) => relay::run(&args, context).await,
        Verb::Migrate(verb) => migrate::run(&verb, context).await,
        Verb::Check(args) => check::run(&args, context).await,
        Verb::Doctor(args) => doctor::run(&args, context).await,
        Verb::Publish(args) => publish::run(args, context).await,
        Verb::Produce(args) => produce::run(args, context).await,
        Verb::Event(verb) => event::run(verb, context).await,
        Verb::Lane(verb) => lane::run(verb, context).await,
        Verb::Dead(verb) => dead::run(verb, context).await,
        Verb::Replay(args) => replay::run(args, context).await,
        Verb::Prune(args) => prune::run(&args, context).await,
        Verb::Stats => stats::run(context).await,
        Verb::Key(verb) => key::run(&verb, context).await,
        Verb::Audit(args) => audit::run(&args, context).await,
        #[cfg(feature = "conformance")]
        Verb::Conformance(args) => conformance::run(&args, context).await,
        #[cfg(feature = "bench")]
        Verb::Bench(command) => posthaste_bench::run(command, context.json()).await,
        Verb::Completions(args) => completions::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use posthaste::admin::CommandKind;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// The verb of a command, wherever it stands.
    fn verb<'a>(below: &'a clap::Command, name: &str) -> Option<&'a clap::Command> {
        below
            .get_subcommands()
            .find_map(|verb| if verb.get_name() == name { Some(verb) } else { self::verb(verb, name) })
    }

    #[test]
    fn each_command_has_the_flags_that_the_table_of_commands_says() {
        let cli = Cli::command();
        for kind in CommandKind::given() {
            // What consumers remember is pruned by a flag of prune.
            let name = if kind.name == "prune-inbox" { "prune" } else { kind.name };
            let verb = verb(&cli, name).unwrap_or_else(|| panic!("{name} is not on the command line"));
            let has = |flag: &str| verb.get_arguments().any(|argument| argument.get_long() == Some(flag));
            assert_eq!(has("dry-run"), kind.takes_dry_run, "{name} --dry-run");
            assert_eq!(has("yes"), kind.is_for_good || kind.is_for_dead_letters, "{name} --yes");
            assert_eq!(has("rate"), kind.takes_rate, "{name} --rate");
            assert_eq!(has("key"), kind.takes_filter, "{name} --key");
            assert_eq!(has("broker"), kind.is_for_dead_letters, "{name} --broker");
            for setting in kind.settings.iter().filter(|_| kind.name == name) {
                let flag = setting.name.replace('_', "-");
                assert!(has(&flag), "{name} --{flag}");
            }
        }
    }
}
