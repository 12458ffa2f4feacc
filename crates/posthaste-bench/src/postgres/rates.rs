//! What a lane costs the server while events trickle in, against the same inserts without a relay.
//!
//! Every round has both sides at every rate, one after the other, so that what disturbs one side disturbs the
//! other.

use std::sync::Arc;
use std::time::Duration;

use posthaste::store::Store;
use posthaste::target::Target;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Bench;
use super::meter::Meter;
use super::producer::Producer;
use super::tables::failed;
use crate::figures::{hundredths, median, millis, percentile};
use crate::relay::{Running, drain, publish_paced};

const TICKS: &str = "SELECT max(id) FROM bench_ticks";
/// How long a relay runs before it is measured: it takes its lane and reads to the end of the log.
const WARM_UP: Duration = Duration::from_secs(1);

/// What was measured at one rate, a figure for each round.
struct AtRate {
    rate: u32,
    /// The server's processor time in percent of a core: inserts alone, and with a relay beside them.
    inserts_percent: Vec<f64>,
    with_relay_percent: Vec<f64>,
    ticks_per_second: Vec<f64>,
    /// From the commit to the target, of all rounds.
    latencies: Vec<Duration>,
}

/// An array with an object for each rate.
pub(super) async fn measure(bench: &Bench<'_>, producer: &Producer) -> Result<Value, Failure> {
    let new = |&rate: &u32| AtRate {
        rate,
        inserts_percent: Vec::new(),
        with_relay_percent: Vec::new(),
        ticks_per_second: Vec::new(),
        latencies: Vec::new(),
    };
    let mut rates: Vec<AtRate> = bench.args.rate.iter().map(new).collect();
    let bar = output::bar("rates", u64::from(bench.args.rounds) * rates.len() as u64);
    for _ in 0..bench.args.rounds {
        for at_rate in &mut rates {
            at_rate.insert_alone(bench, producer).await?;
            at_rate.insert_beside_a_relay(bench, producer).await?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rates.into_iter().map(AtRate::figures).collect())
}

impl AtRate {
    async fn insert_alone(&mut self, bench: &Bench<'_>, producer: &Producer) -> Result<(), Failure> {
        let (percent, _) = watched(&bench.meter, publish_paced(producer, bench.args, self.rate)).await?;
        self.inserts_percent.extend(percent);
        Ok(())
    }

    async fn insert_beside_a_relay(&mut self, bench: &Bench<'_>, producer: &Producer) -> Result<(), Failure> {
        let store = || Arc::clone(&bench.store) as Arc<dyn Store>;
        let target: &Arc<dyn Target> = &bench.target;
        drain(store(), target, "live").await?;
        let running = Running::start(store(), target)?;
        sleep(WARM_UP).await;
        let (ticks, begun) = (self.ticks(bench).await?, Instant::now());
        let (percent, sent) = watched(&bench.meter, publish_paced(producer, bench.args, self.rate)).await?;
        let ticks = self.ticks(bench).await? - ticks;
        self.ticks_per_second.push(ticks as f64 / begun.elapsed().as_secs_f64());
        self.with_relay_percent.extend(percent);
        let arrivals = running.stop_after(sent.len()).await?;
        self.latencies.extend(arrivals.latencies(&sent, |sent| sent.committed));
        Ok(())
    }

    async fn ticks(&self, bench: &Bench<'_>) -> Result<i64, Failure> {
        let row = bench.tables.client.query_one(TICKS, &[]).await.map_err(failed("count the ticks"))?;
        Ok(row.get(0))
    }

    fn figures(mut self) -> Value {
        self.latencies.sort();
        let middle = |figures: Vec<f64>| (!figures.is_empty()).then(|| hundredths(median(figures)));
        json!({
            "rate": self.rate,
            "db_cpu_percent_inserts_alone": middle(self.inserts_percent),
            "db_cpu_percent": middle(self.with_relay_percent),
            "ticks_per_second": middle(self.ticks_per_second),
            "p50_ms": millis(percentile(&self.latencies, 0.5)),
            "p99_ms": millis(percentile(&self.latencies, 0.99)),
        })
    }
}

/// Does this work and measures how much of a core the server takes meanwhile; `None`: the server is
/// elsewhere.
async fn watched<T>(
    meter: &Meter,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<(Option<f64>, T), Failure> {
    let (before, begun) = (meter.read().await?, Instant::now());
    let done = work.await?;
    let (cost, took) = (meter.read().await?.since(&before), begun.elapsed());
    Ok((cost.cpu.map(|cpu| cpu.as_secs_f64() / took.as_secs_f64() * 100.0), done))
}
