//! `posthaste bench`: how fast this machine relays and publishes, against the raw limit in the same run.
//!
//! A crate of its own, because the raw limits are measured with the bare clients of databases and brokers.
//! The binary has this crate as an optional feature and needs none of those clients itself. Publishing
//! over HTTP is measured against a server process, which [`run`] starts as `serve` of the current
//! executable. So the program that calls it must be `posthaste` itself, and the bench needs no code of the
//! server.
//!
//! Every figure is the median of several rounds that alternate between the compared sides, so that what disturbs one
//! disturbs the other. Nothing here is a test: there is no limit to pass.

mod bed;
mod client;
mod consume;
mod figures;
mod handover;
mod line;
#[cfg(feature = "postgres")]
mod postgres;
mod publish;
mod raw;
mod relay;
mod sqlite;
mod target;
#[cfg(feature = "postgres")]
mod timed;

use clap::{Args, Subcommand, ValueEnum};
use posthaste_terminal::exit::Failure;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Relay a backlog, against reading the same rows and doing nothing with them
    Relay(RelayArgs),
    /// Publish over HTTP from many clients, against handing the same events to the store in this process; or to a broker
    /// with --to, against its bare client
    Publish(PublishArgs),
    /// Handle events that wait in a broker: without a database, or with an effect in one for each event
    Consume(ConsumeArgs),
}

/// How to measure relaying.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Where to keep the events: a file that is not there yet, or a database without tables that begin with `bench_`.
    /// Both are left as they were found
    #[arg(long, default_value = "sqlite://posthaste-bench.db", value_name = "URL")]
    pub(crate) store: String,
    /// Where to deliver
    #[arg(long, default_value = "null:", value_name = "URL")]
    pub(crate) to: String,
    /// How many events to relay in a round
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) events: u64,
    /// How many bytes each payload has
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) size: u64,
    /// How many different keys the events have; 0: none
    #[arg(long, default_value_t = 1_000)]
    pub(crate) keys: u64,
    /// With a broker: whether a lane keeps the order of a key
    #[arg(long, value_enum, default_value_t = LaneOrder::Key)]
    pub(crate) order: LaneOrder,
    /// With a broker or --engine table: how many events may be unanswered, of the lane as of the bare client
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) window: u32,
    /// With RabbitMQ: of which type the queue is
    #[arg(long, value_enum, default_value_t = QueueType::Quorum)]
    pub(crate) queue: QueueType,
    /// How many rounds each side has
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Events per second while latency is measured [default: 500 on SQLite, 1000 on Postgres]. With several
    /// rates, such as 10,50,500, also what each costs the server, against the same inserts without a relay
    /// (Postgres)
    #[arg(long, value_name = "RATE,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Vec<u32>,
    /// Which engine to measure; "table" is compared with the same two UPDATEs in a bare loop (Postgres)
    #[arg(long, value_enum, default_value_t = Engine::Log)]
    pub(crate) engine: Engine,
    /// Also time claims while so many rows of an outbox table wait, and while 100,000 do (with --engine table)
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(100_000..=100_000_000))]
    pub(crate) backlog: Option<u64>,
    /// With --engine table: what ids the rows have
    #[arg(long, value_enum, default_value_t = Ids::Random)]
    pub(crate) ids: Ids,
    /// Also relay the same events with another engine (Postgres)
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) against: Option<Against>,
    /// Also relay for so many seconds while another session keeps a transaction open in which it published (Postgres)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "120",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) hold_transaction: Option<u64>,
}

/// How events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Appended once, read by every lane on its own
    Log,
    /// In an outbox table of somebody else, whose rows carry their state
    Table,
}

/// What ids the rows of an outbox table have. Every claim and every outcome writes into the index of the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ids {
    /// As gen_random_uuid() gives them, all over that index
    Random,
    /// UUIDs of version 7, at its end
    ByTime,
}

/// What the log engine is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Against {
    /// A status and a lease in every row: one UPDATE claims, one UPDATE settles
    Rows,
}

/// Whether a lane keeps the order of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LaneOrder {
    /// One event of a key after another
    Key,
    /// None
    None,
}

/// The type of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueType {
    /// Replicated
    Quorum,
    /// On one node
    Classic,
}

#[cfg(feature = "amqp")]
impl QueueType {
    fn name(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// How to measure publishing.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Publish to this broker instead (amqp://…, nats://…, redis://…, kafka://…): the target, against the bare client with as much
    /// on its way
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// With --to: how many events may be unanswered, of the target as of the bare client
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) window: u32,
    /// With RabbitMQ: of which type the queue is
    #[arg(long, value_enum, default_value_t = QueueType::Quorum)]
    pub(crate) queue: QueueType,
    /// How many clients publish at once, one event per request
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: u32,
    /// How many events to publish in a round
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) events: u64,
    /// How many bytes each payload has
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) size: u64,
    /// How many rounds each side has
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

/// How to measure consuming.
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// Where the events wait
    #[arg(long, default_value = "local:", value_name = "URL")]
    pub(crate) from: String,
    /// Where each event has its effect, once: a file that is not there yet, or a database without tables that begin with
    /// `bench_`. Both are left as they were found. Without it, handlers of envelopes and of typed JSON are measured
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Handle up to so many events in one transaction
    #[arg(long, value_name = "EVENTS", num_args = 0..=1, default_missing_value = "256",
          value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) batch: Option<u32>,
    /// How many events to handle in a round
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) events: u64,
    /// How many bytes each payload has
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) size: u64,
    /// How many different keys the events have; 0: none
    #[arg(long, default_value_t = 1_000)]
    pub(crate) keys: u64,
    /// How many events are handled at once [default: 2 without a store, 8 with one]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: Option<u32>,
    /// How many rounds there are
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

/// Measures, and prints a table for people or one JSON document.
///
/// # Errors
/// What the store or the target said; a bench that cannot run measures nothing.
pub async fn run(command: BenchCommand, json: bool) -> Result<(), Failure> {
    let summary = match command {
        BenchCommand::Relay(args) => relay::measure(&args).await?,
        BenchCommand::Publish(args) => publish::measure(&args).await?,
        BenchCommand::Consume(args) => return consume::measure(&args, json).await,
    };
    summary.print(json)
}
