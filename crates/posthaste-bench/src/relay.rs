//! How fast a backlog is relayed, how late a single event arrives, how much memory and idle time it takes: what is the
//! same on every store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use posthaste::envelope::Envelope;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::Store;
use posthaste::target::Target;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::figures::{Summary, cpu_time, hundredths};
use super::target::Noting;
use super::{Engine, RelayArgs};

/// Bytes published at once while the backlog is made.
const SEED_BYTES: u64 = 4 * 1024 * 1024;
/// How long latency and idle time are measured.
pub(super) const LATENCY_FOR: Duration = Duration::from_secs(4);
const IDLE_FOR: Duration = Duration::from_secs(3);
/// How many publishes may be on their way while latency is measured.
const PUBLISHERS: usize = 8;
/// How long to wait for the last event of the latency measurement.
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn measure(args: &RelayArgs) -> Result<Summary, Failure> {
    if args.store.starts_with("postgres:") || args.store.starts_with("postgresql:") {
        return on_postgres(args).await;
    }
    let needs_server =
        args.against.is_some() || args.hold_transaction.is_some() || args.engine == Engine::Table;
    if needs_server || args.rate.len() > 1 {
        return Err(Failure::usage(
            "--engine table, --against, --hold-transaction and several rates measure what happens in a server; \
             give --store postgres://…",
        ));
    }
    super::sqlite::measure(args).await
}

#[cfg(feature = "postgres")]
async fn on_postgres(args: &RelayArgs) -> Result<Summary, Failure> {
    super::postgres::measure(args).await
}

#[cfg(not(feature = "postgres"))]
async fn on_postgres(_: &RelayArgs) -> Result<Summary, Failure> {
    Err(Failure::config("this build has no Postgres; build it with the feature `postgres`"))
}

/// Publishes the backlog.
pub(super) async fn seed(store: &dyn Backend, args: &RelayArgs) -> Result<(), Failure> {
    let bar = output::bar("making the backlog", args.events);
    let chunk = (SEED_BYTES / args.size).clamp(1, 1_000);
    let mut made = 0;
    while made < args.events {
        let count = chunk.min(args.events - made);
        store.publish((made..made + count).map(|number| event(number, args)).collect()).await?;
        made += count;
        bar.inc(count);
    }
    bar.finish_and_clear();
    Ok(())
}

/// A lane drains the whole log, and everything is settled at the end: how many events, and how long it took.
pub(super) async fn drain(
    store: Arc<dyn Store>,
    target: &Arc<dyn Target>,
    lane: &str,
) -> Result<(u64, Duration), Failure> {
    drain_lane(store, Lane::named(lane)?.to(Arc::clone(target))).await
}

/// The same with a lane as it is.
pub(super) async fn drain_lane(store: Arc<dyn Store>, lane: Lane) -> Result<(u64, Duration), Failure> {
    let relay = Relay::new(store).lane(lane);
    // A task, as a running relay's lanes are: beside its connections, and not in a thread of its own.
    let mut task = JoinSet::new();
    let start = Instant::now();
    task.spawn(async move { relay.once().await });
    let ended = task.join_next().await.ok_or_else(|| Failure::other("the relay did not start"))?;
    let report = ended.map_err(|error| Failure::other(error.to_string()))??;
    Ok((report.delivered, start.elapsed()))
}

/// What a lane that has caught up was measured with.
pub(super) struct Live {
    /// From before the publish to the target, sorted.
    pub(super) since_publish: Vec<Duration>,
    /// From the moment when the publisher knew of the commit, sorted.
    #[cfg(feature = "postgres")]
    pub(super) since_commit: Vec<Duration>,
    pub(super) idle_cpu_percent: Option<f64>,
}

/// A lane that has caught up: how late single events arrive, and what it costs to wait for them.
pub(super) async fn live(
    store: Arc<dyn Store>,
    publisher: &dyn Publisher,
    target: &Arc<dyn Target>,
    args: &RelayArgs,
    rate: u32,
) -> Result<Live, Failure> {
    let running = Running::start(store, target)?;
    let idle_cpu_percent = idle_percent().await;
    let sent = publish_paced(publisher, args, rate).await?;
    let arrivals = running.stop_after(sent.len()).await?;
    Ok(Live {
        since_publish: arrivals.latencies(&sent, |sent| sent.at),
        #[cfg(feature = "postgres")]
        since_commit: arrivals.latencies(&sent, |sent| sent.committed),
        idle_cpu_percent,
    })
}

/// A relay that drives the lane `live`. The lane begins at the end of the log when it is first driven.
pub(super) struct Running {
    target: Arc<Noting>,
    stop: oneshot::Sender<()>,
    tasks: JoinSet<posthaste::Result<()>>,
}

impl Running {
    pub(super) fn start(store: Arc<dyn Store>, target: &Arc<dyn Target>) -> Result<Self, Failure> {
        let target = Arc::new(Noting::new(Arc::clone(target)));
        let lane = Lane::named("live")?
            .to(Arc::clone(&target) as Arc<dyn Target>)
            .start(posthaste::lane::Start::Now);
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = Relay::new(store).lane(lane);
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { target, stop, tasks })
    }

    /// Waits until this number of events has arrived, for a limited time, and stops the relay.
    pub(super) async fn stop_after(mut self, events: usize) -> Result<Arrivals, Failure> {
        let start = Instant::now();
        while self.target.arrived() < events && start.elapsed() < ARRIVE_WITHIN {
            sleep(Duration::from_millis(5)).await;
        }
        let _ = self.stop.send(());
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|error| Failure::other(error.to_string()))??;
        }
        Ok(Arrivals(self.target.take()))
    }
}

/// When each event arrived at the target, by its id.
pub(super) struct Arrivals(HashMap<String, Instant>);

impl Arrivals {
    /// How late each of these events arrived, sorted.
    pub(super) fn latencies(&self, sent: &[Sent], since: fn(&Sent) -> Instant) -> Vec<Duration> {
        let arrived = |sent: &Sent| self.0.get(&sent.id).map(|at| at.saturating_duration_since(since(sent)));
        let mut latencies: Vec<_> = sent.iter().filter_map(arrived).collect();
        latencies.sort();
        latencies
    }
}

/// An event whose way is measured.
pub(super) struct Sent {
    id: String,
    at: Instant,
    #[cfg(feature = "postgres")]
    pub(super) committed: Instant,
}

/// Publishes single events at this rate, for as long as latency is measured.
pub(super) async fn publish_paced(
    publisher: &dyn Publisher,
    args: &RelayArgs,
    rate: u32,
) -> Result<Vec<Sent>, Failure> {
    let count = u64::from(rate) * LATENCY_FOR.as_secs();
    let mut beat = interval(Duration::from_secs(1) / rate);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let bar = output::bar("latency", count);
    let beats = stream::unfold((beat, 0), async |(mut beat, number)| {
        beat.tick().await;
        (number < count).then_some((number, (beat, number + 1)))
    });
    let publishing = beats.map(|number| async move {
        let event = event(number, args);
        let (id, at) = (event.id.clone(), Instant::now());
        publisher.publish(vec![event]).await?;
        Ok::<_, Failure>(Sent {
            id,
            at,
            #[cfg(feature = "postgres")]
            committed: Instant::now(),
        })
    });
    // Several at once, so that the rate holds where a commit takes longer than a beat.
    let sent = publishing.buffer_unordered(PUBLISHERS).inspect(|_| bar.inc(1)).try_collect().await?;
    bar.finish_and_clear();
    Ok(sent)
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

/// Only the scheme: the rest of a target's URL may hold a password.
pub(super) fn scheme(url: &str) -> String {
    url.split_inclusive(':').next().unwrap_or_default().to_owned()
}

fn event(number: u64, args: &RelayArgs) -> Envelope {
    let mut event = Envelope::new("bench.event", vec![b'x'; usize::try_from(args.size).unwrap_or(1024)]);
    event.source = "/posthaste/bench".to_owned();
    event.content_type = "application/octet-stream".to_owned();
    event.key = (args.keys > 0).then(|| format!("key-{}", number % args.keys));
    event
}
