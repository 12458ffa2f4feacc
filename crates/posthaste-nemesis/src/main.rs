//! `cargo xtask nemesis`: a line of real processes under kills, stops and cuts, and a check of what came of it.
//!
//! ```text
//! producers ──proxy──► database ◄──a proxy each── relays ──► a file for each lane
//!     │                   ▲                         ▲
//!     └── journals        └──────── faults ─────────┘
//! ```
//!
//! With `--consume` the lanes end in consumers, and with `--to` and the name of a broker (`rabbitmq`, `nats`, `redis`, `kafka`) that
//! one stands between: relays publish to it, consumer processes read from it, and it is killed and cut like everybody else.
//!
//! Producers write what they publish into a table of truth in the same transaction. Relays append every delivery to a
//! file before they acknowledge it. Two hands inflict the faults that the seed decides. Then everything is healed and
//! drained, and truth and files are compared.

mod base;
mod brokers;
mod check;
mod consumer;
mod engine;
mod fault;
mod hands;
mod journal;
mod lanes;
mod plan;
mod producer;
mod relay;
mod run;
mod stage;
mod truth;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What anything here ends with when it cannot go on.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A line of real processes under kills, stops and cuts, and a check of what came of it.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask nemesis",
    bin_name = "cargo xtask nemesis",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    child: Option<Child>,
    #[command(flatten)]
    run: run::Options,
}

/// What this program is when it starts itself.
#[derive(Debug, Subcommand)]
enum Child {
    /// Publishes until it is told to stop.
    #[command(hide = true)]
    Producer(producer::Options),
    /// Relays until it is told to stop.
    #[command(hide = true)]
    Relay(relay::Options),
    /// Consumes until it is told to stop.
    #[command(hide = true)]
    Consumer(consumer::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.child {
        Some(Child::Producer(options)) => producer::main(options).map(|()| true),
        Some(Child::Relay(options)) => relay::main(options).map(|()| true),
        Some(Child::Consumer(options)) => consumer::main(&options).map(|()| true),
        None => run::main(&arguments.run),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
