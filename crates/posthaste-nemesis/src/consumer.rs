//! Consumers in the place of files: a lane delivers into a handler whose effect is a row in the same database, straight or
//! through a broker.
//!
//! Nothing keeps an effect from being there twice but the inbox.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use posthaste::admin::{Filter, Page};
use posthaste::consumer::{Consumer, Crew, Cx, Failure as Verdict};
use posthaste::envelope::Envelope;
use posthaste::retry::Backoff;
use posthaste::sql::{Statement, Tx as _, Value};
use posthaste::target::{DeliverKind, Target};
use tokio::signal::unix::{SignalKind, signal};

use crate::brokers;
use crate::engine::Engine;
use crate::journal::Pen;
use crate::lanes::Which;
use crate::relay::{delivered_file, stumble};
use crate::truth::Direct;
use crate::{Failure, Result};

pub(crate) const TABLE: &str = "CREATE TABLE nemesis_effects (nth bigserial, consumer text NOT NULL, id text NOT NULL, \
    key text NOT NULL, number text NOT NULL, process text NOT NULL)";
const INSERT: &str =
    "INSERT INTO nemesis_effects (consumer, id, key, number, process) VALUES ($1, $2, $3, $4, $5)";
/// Where a consumer that ends itself does so: before the effect, after it, after the commit and before the answer.
pub(crate) const POINTS: [&str; 3] = ["consumer: entered", "consumer: before commit", "consumer: committed"];

const WORKERS: usize = 8;
/// Shorter than the lease, so that a handler that hears nothing any more ends before somebody else begins.
const TIMEOUT: Duration = Duration::from_millis(2_500);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Who handles.
#[derive(Clone)]
struct Hand {
    which: Which,
    process: String,
}

type Pool = deadpool_postgres::Pool;

/// What a consumer process is told.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    url: String,
    /// Its name in the rows of its effects.
    #[arg(long)]
    name: String,
    #[arg(long)]
    folder: PathBuf,
    /// Where the events are.
    #[arg(long)]
    broker: String,
    /// The point at which to end, and at the how-manieth time.
    #[arg(long, num_args = 2, value_names = ["POINT", "NTH"])]
    crash: Vec<String>,
}

/// Consumes until SIGTERM.
pub(crate) fn main(options: &Options) -> Result<()> {
    crate::relay::begin(&options.crash)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut told_to_stop = signal(SignalKind::terminate())?;
        let mut crew = Crew::new();
        for &which in Engine::Log.lanes() {
            let policy = Backoff::fixed(Duration::from_millis(50)).attempts(1_000);
            let consumer = consumer(&options.url, which, &options.name)?.retry(policy);
            crew = crew.consumer(consumer, brokers::open(&options.broker, which)?.broker);
        }
        crew.run(async move { told_to_stop.recv().await.unwrap_or_default() }).await.map_err(Failure::from)
    })
}

/// The ids of what died in each group, as the broker says.
pub(crate) async fn dead(url: &str) -> Result<HashMap<String, Vec<String>>> {
    let mut dead = HashMap::new();
    for &which in Engine::Log.lanes() {
        let (admin, mut page) = (brokers::open(url, which)?.admin, Page::first(1_000));
        let mut filter = Filter::default();
        filter.lane = Some(which.name().parse()?);
        let ids: &mut Vec<String> = dead.entry(which.name().to_owned()).or_default();
        loop {
            let found = admin.find(&filter, page.clone()).await?;
            ids.extend(found.records.into_iter().map(|record| record.envelope.id));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        ids.sort();
        // A move that was confirmed, and whose acknowledgement was lost, is made again: dead twice is dead.
        ids.dedup();
    }
    Ok(dead)
}

/// A consumer as the lane's target; its connections go the way of the relay's.
pub(crate) fn target(url: &str, which: Which, process: &str) -> Result<Arc<dyn Target>> {
    Ok(consumer(url, which, process)?.target()?)
}

fn consumer(url: &str, which: Which, process: &str) -> Result<Consumer<Pool, Hand>> {
    let mut config: tokio_postgres::Config = url.parse()?;
    config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(TIMEOUT);
    let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
    let pool = Pool::builder(manager)
        .max_size(WORKERS)
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_WITHIN))
        .create_timeout(Some(CONNECT_WITHIN))
        .build()?;
    let hand = Hand { which, process: process.to_owned() };
    Ok(Consumer::new(which.name(), pool, hand).on_any(take).workers(WORKERS).timeout(TIMEOUT))
}

async fn take(cx: &mut Cx<Pool, Hand>, envelope: Arc<Envelope>) -> std::result::Result<(), Verdict> {
    let Hand { which, process } = cx.state().clone();
    match stumble(which, &envelope, cx.attempt()).await {
        Some(DeliverKind::Rejected) => return Err(Verdict::reject("as it was to be")),
        Some(_) => Err("as it was to be")?,
        None => {}
    }
    let key = envelope.key.clone().unwrap_or_else(|| "-".to_owned());
    let number = String::from_utf8_lossy(&envelope.payload).into_owned();
    let values = [which.name().to_owned(), envelope.id.clone(), key, number, process];
    let values = values.into_iter().map(|value| Value::Text(Some(value))).collect();
    cx.tx().execute(Statement::new(INSERT, values)).await?;
    Ok(())
}

/// Writes the effects into the files in which deliveries are looked for, in the order in which they were made.
pub(crate) async fn write_down(direct: &Direct, folder: &Path) -> Result<()> {
    let all = "SELECT consumer, id, key, number, process FROM nemesis_effects ORDER BY nth";
    let rows = direct.wire.postgres()?.query_typed(all, &[]).await?;
    for &which in Engine::Log.lanes() {
        let pen = Pen::append_to(&delivered_file(folder, which))?;
        for row in rows.iter().filter(|row| row.get::<_, &str>(0) == which.name()) {
            let [id, key, number, process] = [1, 2, 3, 4].map(|column| row.get::<_, &str>(column));
            pen.write(&format!("{id} {key} {number} {process}"))?;
        }
    }
    Ok(())
}

/// How many events have had an effect, each consumer's for itself.
pub(crate) async fn count(direct: &Direct) -> Result<i64> {
    let count = "SELECT count(DISTINCT (consumer, id)) FROM nemesis_effects";
    direct.wire.number(count).await
}
