//! Relaying from tables of the bench's own in a Postgres database, against reading the same rows and against row leases.

mod hold;
mod meter;
mod producer;
mod rates;
mod reader;
mod rows;
mod table;
pub(super) mod tables;

use std::sync::Arc;

use posthaste::schema::Backend;
use posthaste::store::{Store, StoreOptions, open_with};
use posthaste::target::Target;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::{Value, json};

use self::meter::{Cost, Meter};
use self::producer::Producer;
use self::rows::RowStore;
use self::tables::Tables;
use super::figures::{Round, Summary, forget_rss_peak, hundredths, median, millis, percentile, rss_peak_mib};
use super::relay::{drain, live, scheme, seed};
use super::timed::{Timed, Times};
use super::{Against, Engine, RelayArgs};

const RATE: u32 = 1_000;

/// What all parts of this bench work on.
struct Bench<'a> {
    args: &'a RelayArgs,
    tables: &'a Tables,
    store: Arc<dyn Backend>,
    target: Arc<dyn Target>,
    meter: Meter,
}

/// What one engine's rounds cost.
#[derive(Default)]
struct Costs {
    rates: Vec<f64>,
    wal: Vec<f64>,
    cpu: Vec<f64>,
    times: Times,
}

pub(super) async fn measure(args: &RelayArgs) -> Result<Summary, Failure> {
    let target = posthaste::target::open(&args.to)?;
    let tables = Tables::make(&args.store).await?;
    let measured = async {
        match args.engine {
            Engine::Log => measure_in(args, &tables, target).await,
            Engine::Table => table::measure(args, &tables, target).await,
        }
    };
    let summary = tokio::select! {
        summary = measured => summary,
        _ = tokio::signal::ctrl_c() => Err(Failure::other("measure: interrupted; the bench's tables are removed")),
    };
    let removed = tables.remove().await;
    let summary = summary?;
    removed?;
    Ok(summary)
}

async fn measure_in(args: &RelayArgs, tables: &Tables, target: Arc<dyn Target>) -> Result<Summary, Failure> {
    let mut options = StoreOptions::default();
    options.prefix = tables::PREFIX.parse()?;
    let store = open_with(&args.store, options).await?;
    store.migrate().await?;
    seed(&*store, args).await?;
    tables.settle_down().await?;
    if super::bed::is_for(&args.to) {
        return super::line::measure(store, args).await;
    }
    let meter = Meter::connect(&args.store).await?;
    Bench { args, tables, store, target, meter }.measure().await
}

impl Bench<'_> {
    async fn measure(&self) -> Result<Summary, Failure> {
        let args = self.args;
        let (mut rounds, mut rss) = (Vec::new(), Vec::new());
        let (mut log, mut rows) = (Costs::default(), Costs::default());
        let mut read = Vec::new();
        let bar = output::bar("rounds", u64::from(args.rounds));
        for number in 0..args.rounds {
            let round = reader::read_all(&args.store).await?;
            read.push(round.rate());
            rounds.push(round);
            forget_rss_peak();
            let store = Arc::clone(&self.store) as Arc<dyn Store>;
            rounds.push(self.round("relay", store, &format!("round-{number}"), &mut log).await?);
            rss.extend(rss_peak_mib());
            if args.against == Some(Against::Rows) {
                let store = Arc::new(RowStore::refill(&args.store, &self.tables.client).await?);
                rounds.push(self.round("rows", store, "rows", &mut rows).await?);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rate = args.rate.last().copied().unwrap_or(RATE);
        // Connections apart, as applications have them: the relay hears of nothing and has to look.
        let producer = Producer::connect(&args.store).await?;
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let live = live(store, &producer, &self.target, args, rate).await?;
        let mut facts = vec![
            ("read_per_second", json!(median(read).round())),
            ("wal_bytes_per_event", json!(hundredths(median(log.wal.clone())))),
            ("db_cpu_us_per_event", log.cpu_fact(&self.meter)),
            ("p50_ms", json!(millis(percentile(&live.since_commit, 0.5)))),
            ("p99_ms", json!(millis(percentile(&live.since_commit, 0.99)))),
            ("publish_to_delivery_p50_ms", json!(millis(percentile(&live.since_publish, 0.5)))),
            ("rss_mb", json!(rss.into_iter().reduce(f64::max))),
            ("settles", json!(log.times.settles())),
            ("idle_cpu_percent", json!(live.idle_cpu_percent)),
        ];
        facts.extend(log.times.facts());
        if let Some(why) = self.meter.cpu_unknown() {
            facts.push(("db_cpu_unknown_because", json!(why)));
        }
        if args.against.is_some() {
            facts.extend(rows.facts_against(&log, &self.meter));
        }
        if args.rate.len() > 1 {
            facts.push(("by_rate", rates::measure(self, &producer).await?));
        }
        if let Some(seconds) = args.hold_transaction {
            facts.extend(hold::measure(self, seconds).await?);
        }
        facts.extend([
            ("store", json!("postgres")),
            ("server", json!(self.meter.version)),
            ("to", json!(scheme(&args.to))),
            ("events", json!(args.events)),
            ("size", json!(args.size)),
            ("keys", json!(args.keys)),
            ("latency_rate", json!(rate)),
        ]);
        Ok(Summary { bench: "relay", sides: ["relay", "raw"], rounds, facts })
    }

    /// One engine relays the whole backlog.
    async fn round(
        &self,
        side: &'static str,
        store: Arc<dyn Store>,
        lane: &str,
        costs: &mut Costs,
    ) -> Result<Round, Failure> {
        let timed = Arc::new(Timed::new(store));
        let before = self.meter.read().await?;
        let (events, took) = drain(Arc::clone(&timed) as Arc<dyn Store>, &self.target, lane).await?;
        let cost = self.meter.read().await?.since(&before);
        let round = Round { side, events, took };
        costs.add(&round, &cost, timed.take());
        Ok(round)
    }
}

impl Costs {
    fn add(&mut self, round: &Round, cost: &Cost, times: Times) {
        let events = round.events.max(1) as f64;
        self.rates.push(round.rate());
        self.wal.push(cost.wal as f64 / events);
        self.cpu.extend(cost.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / events));
        self.times.add(times);
    }

    fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    fn cpu_fact(&self, meter: &Meter) -> Value {
        if meter.cpu_unknown().is_some() { Value::Null } else { json!(hundredths(median(self.cpu.clone()))) }
    }

    /// What these rounds, of the engine that the log is compared with, say.
    fn facts_against(&self, log: &Self, meter: &Meter) -> Vec<(&'static str, Value)> {
        let (claim_ms, settle_ms) = self.times.medians();
        vec![
            ("ratio", json!(hundredths(log.rate() / self.rate().max(1.0)))),
            ("rows_events_per_second", json!(self.rate().round())),
            ("rows_wal_bytes_per_event", json!(hundredths(median(self.wal.clone())))),
            ("rows_db_cpu_us_per_event", self.cpu_fact(meter)),
            ("rows_claim_ms", json!(claim_ms)),
            ("rows_settle_ms", json!(settle_ms)),
        ]
    }
}
