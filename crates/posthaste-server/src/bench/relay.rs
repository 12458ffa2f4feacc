//! How fast a backlog is relayed, how late a single event arrives, how much memory and idle time it takes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, open_with};
use posthaste::target::Target;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::RelayArgs;
use super::figures::{Round, Summary, cpu_time, hundredths, millis, percentile, progress, rss_peak_mib};
use super::raw;
use super::target::Noting;
use crate::exit::Failure;

/// Bytes published at once while the backlog is made.
const SEED_BYTES: u64 = 4 * 1024 * 1024;
/// How long latency and idle time are measured.
const LATENCY_FOR: Duration = Duration::from_secs(4);
const IDLE_FOR: Duration = Duration::from_secs(3);
/// How long to wait for the last event of the latency measurement.
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);

/// A store of the bench's own, gone at its end.
struct Bench {
    store: Arc<dyn Backend>,
    prefix: TablePrefix,
    path: PathBuf,
    target: Arc<dyn Target>,
    remove: bool,
}

pub(super) async fn measure(args: &RelayArgs) -> Result<Summary, Failure> {
    let bench = Bench::open(args).await?;
    let summary = bench.measure(args).await;
    bench.remove();
    summary
}

impl Bench {
    async fn open(args: &RelayArgs) -> Result<Self, Failure> {
        let path = args.store.trim_start_matches("sqlite:").trim_start_matches("//");
        let path = PathBuf::from(path.split('?').next().unwrap_or(path));
        let remove = !path.exists();
        if !remove {
            let named = path.display();
            return Err(Failure::usage(format!(
                "{named} exists; name a file that does not: the bench makes and removes it"
            )));
        }
        let mut options = StoreOptions::default();
        options.prefix = "bench_".parse()?;
        let prefix = options.prefix.clone();
        let store = open_with(&args.store, options).await?;
        let target = posthaste::target::open(&args.to)?;
        Ok(Self { store, prefix, path, target, remove })
    }

    async fn measure(&self, args: &RelayArgs) -> Result<Summary, Failure> {
        self.seed(args).await?;
        let mut rounds = Vec::new();
        let bar = progress("rounds", u64::from(args.rounds));
        for number in 0..args.rounds {
            rounds.push(self.raw_round().await?);
            rounds.push(self.relay_round(number).await?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rss = rss_peak_mib();
        let (latencies, idle) = self.live(args).await?;
        let facts = vec![
            ("p50_ms", json!(millis(percentile(&latencies, 0.5)))),
            ("p99_ms", json!(millis(percentile(&latencies, 0.99)))),
            ("rss_mb", json!(rss)),
            ("idle_cpu_percent", json!(idle)),
            ("store", json!("sqlite")),
            ("to", json!(self.to(args))),
            ("events", json!(args.events)),
            ("size", json!(args.size)),
            ("keys", json!(args.keys)),
            ("latency_rate", json!(args.rate)),
        ];
        Ok(Summary { bench: "relay", sides: ["relay", "raw"], rounds, facts })
    }

    /// Only the scheme: the rest of a target's URL may hold a password.
    fn to(&self, args: &RelayArgs) -> String {
        args.to.split_inclusive(':').next().unwrap_or_default().to_owned()
    }

    async fn seed(&self, args: &RelayArgs) -> Result<(), Failure> {
        let bar = progress("making the backlog", args.events);
        let chunk = (SEED_BYTES / args.size).clamp(1, 1_000);
        let mut made = 0;
        while made < args.events {
            let count = chunk.min(args.events - made);
            self.store.publish((made..made + count).map(|number| event(number, args)).collect()).await?;
            made += count;
            bar.inc(count);
        }
        bar.finish_and_clear();
        Ok(())
    }

    async fn raw_round(&self) -> Result<Round, Failure> {
        let (path, prefix) = (self.path.display().to_string(), self.prefix.clone());
        let scan = tokio::task::spawn_blocking(move || raw::read_all(&path, &prefix)).await;
        let (events, took) = scan.map_err(|error| Failure::other(error.to_string()))??;
        Ok(Round { side: "raw", events, took })
    }

    /// A lane that did not exist before drains the whole log, and everything is settled at the end.
    async fn relay_round(&self, number: u32) -> Result<Round, Failure> {
        let lane = Lane::named(&format!("round-{number}"))?.to(Arc::clone(&self.target));
        let relay = Relay::new(Arc::clone(&self.store) as Arc<dyn posthaste::store::Store>).lane(lane);
        let start = Instant::now();
        let report = relay.once().await?;
        Ok(Round { side: "relay", events: report.delivered, took: start.elapsed() })
    }

    /// A lane that has caught up: how late single events arrive, and what it costs to wait for them.
    async fn live(&self, args: &RelayArgs) -> Result<(Vec<Duration>, Option<f64>), Failure> {
        let target = Arc::new(Noting::new(Arc::clone(&self.target)));
        let lane = Lane::named("live")?
            .to(Arc::clone(&target) as Arc<dyn Target>)
            .start(posthaste::lane::Start::Now);
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = Relay::new(Arc::clone(&self.store) as Arc<dyn posthaste::store::Store>).lane(lane);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(relay.run(async {
            let _ = stopped.await;
        }));
        let idle = idle_percent().await;
        let sent = self.publish_paced(args).await?;
        let start = Instant::now();
        while target.arrived() < sent.len() && start.elapsed() < ARRIVE_WITHIN {
            sleep(Duration::from_millis(5)).await;
        }
        let _ = stop.send(());
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| Failure::other(error.to_string()))??;
        }
        let arrivals = target.take();
        let mut latencies: Vec<_> = sent
            .iter()
            .filter_map(|(id, at)| arrivals.get(id).map(|arrived| arrived.duration_since(*at)))
            .collect();
        latencies.sort();
        Ok((latencies, idle))
    }

    async fn publish_paced(&self, args: &RelayArgs) -> Result<Vec<(String, Instant)>, Failure> {
        let count = u64::from(args.rate) * LATENCY_FOR.as_secs();
        let mut beat = interval(Duration::from_secs(1) / args.rate);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let bar = progress("latency", count);
        let mut sent = Vec::new();
        for number in 0..count {
            beat.tick().await;
            let event = event(number, args);
            sent.push((event.id.clone(), Instant::now()));
            self.store.publish(vec![event]).await?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(sent)
    }

    fn remove(self) {
        let Self { store, path, remove, .. } = self;
        drop(store);
        if remove {
            for suffix in ["", "-wal", "-shm"] {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                // A file that is not there is what we want.
                let _ = std::fs::remove_file(name);
            }
        }
    }
}

/// Processor time of the whole process while nothing happens, in percent of one core.
async fn idle_percent() -> Option<f64> {
    // The lane first catches up and its polling slows down to its longest pause.
    sleep(Duration::from_secs(1)).await;
    let (before, start) = (cpu_time()?, Instant::now());
    sleep(IDLE_FOR).await;
    let used = cpu_time()?.saturating_sub(before);
    Some(hundredths(used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0))
}

fn event(number: u64, args: &RelayArgs) -> Envelope {
    let mut event = Envelope::new("bench.event", vec![b'x'; usize::try_from(args.size).unwrap_or(1024)]);
    event.source = "/posthaste/bench".to_owned();
    event.content_type = "application/octet-stream".to_owned();
    event.key = (args.keys > 0).then(|| format!("key-{}", number % args.keys));
    event
}
