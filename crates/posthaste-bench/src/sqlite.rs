//! Relaying from an SQLite file of the bench's own, against reading the same rows.

use std::path::PathBuf;
use std::sync::Arc;

use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::store::{Store, StoreOptions, open_with};
use posthaste::target::Target;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::json;

use super::figures::{Round, Summary, millis, percentile, rss_peak_mib};
use super::relay::{drain, live, scheme, seed};
use super::{RelayArgs, raw};

const RATE: u32 = 500;

/// A store of the bench's own, gone at its end.
struct Bench {
    store: Arc<dyn Backend>,
    prefix: TablePrefix,
    path: PathBuf,
    target: Arc<dyn Target>,
}

pub(super) async fn measure(args: &RelayArgs) -> Result<Summary, Failure> {
    let bench = Bench::open(args).await?;
    let summary = bench.measure_to(args).await;
    bench.remove();
    summary
}

impl Bench {
    async fn open(args: &RelayArgs) -> Result<Self, Failure> {
        let path = args.store.trim_start_matches("sqlite:").trim_start_matches("//");
        let path = PathBuf::from(path.split('?').next().unwrap_or(path));
        if path.exists() {
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
        Ok(Self { store, prefix, path, target })
    }

    async fn measure_to(&self, args: &RelayArgs) -> Result<Summary, Failure> {
        if super::bed::is_for(&args.to) {
            seed(&*self.store, args).await?;
            return super::line::measure(Arc::clone(&self.store), args).await;
        }
        self.measure(args).await
    }

    async fn measure(&self, args: &RelayArgs) -> Result<Summary, Failure> {
        seed(&*self.store, args).await?;
        let mut rounds = Vec::new();
        let bar = output::bar("rounds", u64::from(args.rounds));
        for number in 0..args.rounds {
            rounds.push(self.raw_round().await?);
            let store = Arc::clone(&self.store) as Arc<dyn Store>;
            // A lane that did not exist before.
            let (events, took) = drain(store, &self.target, &format!("round-{number}")).await?;
            rounds.push(Round { side: "relay", events, took });
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rss = rss_peak_mib();
        let rate = args.rate.first().copied().unwrap_or(RATE);
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let live = live(store, &*self.store, &self.target, args, rate).await?;
        let facts = vec![
            ("p50_ms", json!(millis(percentile(&live.since_publish, 0.5)))),
            ("p99_ms", json!(millis(percentile(&live.since_publish, 0.99)))),
            ("rss_mb", json!(rss)),
            ("idle_cpu_percent", json!(live.idle_cpu_percent)),
            ("store", json!("sqlite")),
            ("to", json!(scheme(&args.to))),
            ("events", json!(args.events)),
            ("size", json!(args.size)),
            ("keys", json!(args.keys)),
            ("latency_rate", json!(rate)),
        ];
        Ok(Summary { bench: "relay", sides: ["relay", "raw"], rounds, facts })
    }

    async fn raw_round(&self) -> Result<Round, Failure> {
        let (path, prefix) = (self.path.display().to_string(), self.prefix.clone());
        let scan = tokio::task::spawn_blocking(move || raw::read_all(&path, &prefix)).await;
        let (events, took) = scan.map_err(|error| Failure::other(error.to_string()))??;
        Ok(Round { side: "raw", events, took })
    }

    fn remove(self) {
        let Self { store, path, .. } = self;
        drop(store);
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            // A file that is not there is what we want.
            let _ = std::fs::remove_file(name);
        }
    }
}
