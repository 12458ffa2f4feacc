//! How fast a consumer handles what waits for it: without a database, or with one effect per event in an inbox's transaction.

mod effect;
mod ledger;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "amqp")]
mod rabbitmq;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use posthaste::consumer::{Consumer, Ground};
use posthaste::local::LocalBroker;
use posthaste::publish::Publish;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ConsumeArgs;
use super::figures::{median, rss_peak_mib};

/// Events handled at once, unless configured: with a database most of them wait for it.
const WORKERS: usize = 8;
const WORKERS_WITHOUT_STORE: usize = 2;
/// Events fetched ahead for each worker.
const PREFETCH: usize = 128;

/// One round: how long it took, and whether every event had its effect, and had it once.
struct Round {
    took: Duration,
    exactly_once: bool,
}

/// The rounds of one kind of handler.
struct Rounds {
    /// What its figure is called.
    name: &'static str,
    rounds: Vec<Round>,
}

pub(super) async fn measure(args: &ConsumeArgs, as_json: bool) -> Result<(), Failure> {
    if args.from != "local:" && !from_rabbitmq(args) {
        return Err(Failure::usage("--from must be local:, or amqp://HOST where this build has RabbitMQ"));
    }
    if args.batch.is_some() && args.store.is_none() {
        return Err(Failure::usage("--batch is one transaction for many events; give --store URL"));
    }
    let (store, measured) = match args.store.as_deref() {
        None => (Value::Null, ledger::measure(args).await?),
        Some(url) if url.starts_with("sqlite:") => (json!("sqlite"), vec![on_sqlite(args, url).await?]),
        Some(url) if url.starts_with("postgres:") || url.starts_with("postgresql:") => {
            (json!("postgres"), vec![on_postgres(args, url).await?])
        }
        Some(_) => {
            return Err(Failure::usage("--store must be sqlite://FILE or postgres://USER@HOST/DATABASE"));
        }
    };
    let facts = [
        ("from", json!(args.from.split(':').next())),
        ("store", store),
        ("batch", json!(args.batch)),
        ("workers", json!(workers(args))),
        ("events", json!(args.events)),
        ("size", json!(args.size)),
        ("keys", json!(args.keys)),
        ("rss_mb", json!(rss_peak_mib())),
    ];
    print(&document(args, &measured, facts), as_json)
}

fn document<const N: usize>(
    args: &ConsumeArgs,
    measured: &[Rounds],
    facts: [(&str, Value); N],
) -> Map<String, Value> {
    let rate = |round: &Round| (args.events as f64 / round.took.as_secs_f64().max(1e-9)).round();
    let mut document = Map::new();
    document.insert("bench".to_owned(), json!("consume"));
    for kind in measured {
        document.insert(kind.name.to_owned(), json!(median(kind.rounds.iter().map(rate).collect()).round()));
    }
    let once = measured.iter().flat_map(|kind| &kind.rounds).all(|round| round.exactly_once);
    document.insert("effects_exactly_once".to_owned(), json!(once));
    document.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    let all = measured.iter().flat_map(|kind| {
        kind.rounds.iter().map(|round| json!({"figure": kind.name, "events_per_second": rate(round)}))
    });
    document.insert("rounds".to_owned(), all.collect());
    document
}

fn print(document: &Map<String, Value>, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::json(document);
    }
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let figures = document.iter().filter(|(name, _)| *name != "rounds");
    output::table(
        &["FIGURE", "VALUE"],
        figures.map(|(name, value)| vec![name.clone(), shown(value)]).collect(),
        "nothing was measured",
    )
}

fn workers(args: &ConsumeArgs) -> usize {
    let usual = if args.store.is_some() { WORKERS } else { WORKERS_WITHOUT_STORE };
    args.workers.map_or(usual, |workers| workers as usize)
}

/// Fills a broker's queue, then lets the consumer drain it; answers how long that took.
async fn drain<D: Ground, S: Send + Sync + 'static>(
    args: &ConsumeArgs,
    consumer: Consumer<D, S>,
    event: impl Fn(u64) -> Publish,
) -> Result<Duration, Failure> {
    let consumer = consumer.workers(workers(args)).prefetch(PREFETCH).batch(args.batch.unwrap_or(1) as usize);
    #[cfg(feature = "amqp")]
    if from_rabbitmq(args) {
        return rabbitmq::drain(args, consumer, event).await;
    }
    let room = usize::try_from(args.events).unwrap_or(usize::MAX);
    let broker = LocalBroker::builder().buffer(room).buffer_bytes(u64::MAX).build();
    consumer.declare(&broker).await?;
    for number in 0..args.events {
        let mut event = event(number);
        if args.keys > 0 {
            event = event.key(format!("key-{}", number % args.keys));
        }
        broker.publish(event).await?;
    }
    // A task, as it is in an application: beside its workers, and not in a thread of its own.
    let mut task = JoinSet::new();
    let start = Instant::now();
    task.spawn(async move {
        let (ran, closed) =
            tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
        ran.map(|()| closed.left)
    });
    let ended = task.join_next().await.ok_or_else(|| Failure::other("the consumer did not start"))?;
    let left = ended.map_err(|error| Failure::other(error.to_string()))??;
    if left > 0 {
        return Err(Failure::other(format!("consume: {left} events were left")));
    }
    Ok(start.elapsed())
}

#[cfg(feature = "amqp")]
fn from_rabbitmq(args: &ConsumeArgs) -> bool {
    rabbitmq::is_url(&args.from)
}

#[cfg(not(feature = "amqp"))]
fn from_rabbitmq(_: &ConsumeArgs) -> bool {
    false
}

/// Runs a round again and again.
async fn rounds(
    args: &ConsumeArgs,
    name: &'static str,
    mut round: impl AsyncFnMut(u32) -> Result<Round, Failure>,
) -> Result<Rounds, Failure> {
    let bar = output::bar("rounds", u64::from(args.rounds));
    let mut rounds = Vec::new();
    for number in 0..args.rounds {
        rounds.push(round(number).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Rounds { name, rounds })
}

#[cfg(feature = "sqlite")]
async fn on_sqlite(args: &ConsumeArgs, url: &str) -> Result<Rounds, Failure> {
    sqlite::measure(args, url).await
}

#[cfg(not(feature = "sqlite"))]
async fn on_sqlite(_: &ConsumeArgs, _: &str) -> Result<Rounds, Failure> {
    Err(Failure::config("this build has no SQLite; build it with the feature `sqlite`"))
}

#[cfg(feature = "postgres")]
async fn on_postgres(args: &ConsumeArgs, url: &str) -> Result<Rounds, Failure> {
    postgres::measure(args, url).await
}

#[cfg(not(feature = "postgres"))]
async fn on_postgres(_: &ConsumeArgs, _: &str) -> Result<Rounds, Failure> {
    Err(Failure::config("this build has no Postgres; build it with the feature `postgres`"))
}
