//! The child that publishes: transactions of all kinds, each with its truth in the same transaction.

mod shape;
mod transaction;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fastrand::Rng;
use tokio::signal::unix::{SignalKind, signal};

use self::shape::Shape;
use self::transaction::{Fate, Session};
use crate::Result;
use crate::base::{Base, Wire};
use crate::engine::Engine;
use crate::journal::Pen;

/// No statement takes nearly so long; a connection that is silent for longer is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(6);
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Prepared transactions that were left behind are looked for after so many others.
const RESOLVE_EVERY: u64 = 25;

/// What a producer is told.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    url: String,
    /// Unique to this process; the part before the dot is the same for those that come after it.
    #[arg(long)]
    name: String,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    seed: u64,
    /// How events are kept.
    #[arg(long, value_enum)]
    engine: Engine,
    /// The longest pause between two transactions, in milliseconds.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pause_max: u64,
    /// Commits without waiting for the disk.
    #[arg(long)]
    hasty: bool,
}

/// Publishes until SIGTERM; then ends the transaction at hand.
pub(crate) fn main(options: Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut told_to_stop = signal(SignalKind::terminate())?;
        let journal = Pen::append_to(&journal_file(&options.folder))?;
        let rng = Rng::with_seed(options.seed ^ hash(&options.name));
        let mut producer = Producer { options, rng, journal, count: 0 };
        loop {
            tokio::select! {
                biased;
                _ = told_to_stop.recv() => return Ok(()),
                () = producer.turn() => {}
            }
        }
    })
}

/// Where all producers write what they know.
pub(crate) fn journal_file(folder: &Path) -> PathBuf {
    folder.join("published")
}

struct Producer {
    options: Options,
    rng: Rng,
    journal: Pen,
    count: u64,
}

impl Producer {
    /// Publishes on one connection until that fails.
    async fn turn(&mut self) {
        let connected = tokio::time::timeout(ANSWER_WITHIN, self.connect()).await;
        match connected {
            Ok(Ok(wire)) => while self.one_more(&wire).await.is_ok() {},
            Ok(Err(error)) => eprintln!("{}: {error}", self.options.name),
            Err(_) => eprintln!("{}: no connection within {ANSWER_WITHIN:?}", self.options.name),
        }
        tokio::time::sleep(CONNECT_AGAIN_AFTER).await;
    }

    async fn connect(&mut self) -> Result<Wire> {
        let wire = Wire::connect(&self.options.url, true).await?;
        if self.options.hasty {
            wire.say("SET synchronous_commit = off").await?;
        }
        self.resolve(&wire).await?;
        Ok(wire)
    }

    /// One transaction; an error means that the connection is of no more use.
    async fn one_more(&mut self, wire: &Wire) -> Result<()> {
        self.count += 1;
        if self.count.is_multiple_of(RESOLVE_EVERY) {
            tokio::time::timeout(ANSWER_WITHIN, self.resolve(wire)).await??;
        }
        let name = format!("{}-{}", self.options.name, self.count);
        let shape = Shape::roll(&mut self.rng);
        let session = Session { wire, name: &name, within: ANSWER_WITHIN, engine: self.options.engine };
        let ended = session.perform(&shape).await;
        let events = ended.events;
        let hasty = if self.options.hasty { "hasty" } else { "sync" };
        match ended.fate {
            Fate::Committed => self.journal.write(&format!("ok {name} {events} {hasty}"))?,
            Fate::RolledBack => self.journal.write(&format!("no {name} {events} {hasty}"))?,
            Fate::Unknown => self.journal.write(&format!("unknown {name} {events} {hasty}"))?,
        }
        if let Some(error) = ended.broken {
            eprintln!("{name}: {error}");
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(self.rng.u64(..self.options.pause_max))).await;
        Ok(())
    }

    /// Ends what a process of this number prepared and did not end.
    async fn resolve(&mut self, wire: &Wire) -> Result<()> {
        if wire.base() == Base::Mariadb {
            return Ok(());
        }
        let (number, _) = self.options.name.split_once('.').ok_or("a producer's name has a dot")?;
        let ours = format!("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE '{number}.%' ORDER BY gid");
        for gid in wire.rows(&ours).await?.into_iter().flatten().flatten() {
            let verb = if self.rng.bool() { "COMMIT" } else { "ROLLBACK" };
            // Somebody else may have ended it meanwhile.
            let _ = wire.say(&format!("{verb} PREPARED '{gid}'")).await;
        }
        Ok(())
    }
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)))
}
