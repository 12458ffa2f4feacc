//! The child process of the laws about crashes: publishes, relays, and writes down what it knows.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use posthaste_core::admin::{LaneStats, all_lanes};
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::retry::Backoff;
use posthaste_core::schema::Backend;
use posthaste_core::store::{Parcel, Store};
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result, crash};

use crate::broker::BrokerRigMaker;
use crate::drive::keyed;
use crate::driver::DriverRigMaker;
use crate::laws::consuming::{ConsumeBench, crashing, surviving};
use crate::rig::RigMaker;

/// Names the job of a child, as lines.
const JOB: &str = "POSTHASTE_LAW_CHILD";
/// The lane that children drive.
pub(crate) const LANE: &str = "main";
/// How many events each child publishes.
pub(crate) const EVENTS_PER_RUN: usize = 40;
const BATCH: usize = 5;
/// Short, so that the next child has not long to wait for the lane of one that crashed.
const LEASE: Duration = Duration::from_millis(800);
const DONE_WITHIN: Duration = Duration::from_secs(30);

/// What a child is to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) backend: String,
    pub(crate) url: String,
    /// The broker's name, if there is one in it, and where it is, if it outlives this process.
    pub(crate) broker: (String, String),
    pub(crate) journal: PathBuf,
    pub(crate) run: String,
    /// Where to end, and at the how-manieth time.
    pub(crate) point: Option<(String, u32)>,
}

impl Job {
    /// Starts this program again for the job and waits for its end.
    pub(crate) async fn start(&self, program: &Path) -> io::Result<ExitStatus> {
        self.spawn(program)?.wait().await
    }

    /// Starts this program again for the job.
    pub(crate) fn spawn(&self, program: &Path) -> io::Result<tokio::process::Child> {
        let (point, nth) = self.point.clone().unwrap_or_default();
        let (broker, broker_url) = &self.broker;
        let nth = nth.to_string();
        let lines = [&self.backend, &self.url, broker, broker_url, &self.run, &point, &nth];
        let lines = lines.map(String::as_str).join("\n");
        let mut command = tokio::process::Command::new(program);
        command.env(JOB, format!("{lines}\n{}", self.journal.display())).kill_on_drop(true);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn()
    }

    #[expect(clippy::disallowed_methods, reason = "a child learns of its job from its environment")]
    fn from_env() -> Option<Self> {
        let text = std::env::var(JOB).ok()?;
        let mut lines = text.split('\n').map(str::to_owned);
        let (backend, url, broker) = (lines.next()?, lines.next()?, (lines.next()?, lines.next()?));
        let (run, point, nth) = (lines.next()?, lines.next()?, lines.next()?.parse().ok()?);
        let point = Some((point, nth)).filter(|(point, _)| !point.is_empty());
        Some(Self { backend, url, broker, run, point, journal: lines.next()?.into() })
    }
}

/// Does the job of a child if this process is one; `None` if it is not.
pub(crate) fn run_if_child(
    makers: &[Arc<dyn RigMaker>],
    databases: &[Arc<dyn DriverRigMaker>],
    brokers: &[Arc<dyn BrokerRigMaker>],
) -> Option<ExitCode> {
    let job = Job::from_env()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) if job.broker.0.is_empty() => runtime.block_on(work(&job, makers)),
        Ok(runtime) => runtime.block_on(consume(&job, databases, brokers)),
        Err(error) => Err(Error::config("no runtime").because(error)),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("child {}: {error}", job.run);
            ExitCode::FAILURE
        }
    })
}

/// Consumes as its law says, on the database and the broker of the law.
async fn consume(
    job: &Job,
    databases: &[Arc<dyn DriverRigMaker>],
    brokers: &[Arc<dyn BrokerRigMaker>],
) -> Result<()> {
    let maker = databases.iter().find(|maker| maker.name() == job.backend);
    let maker = maker.ok_or_else(|| Error::config(format!("no database {}", job.backend)))?;
    let (name, url) = &job.broker;
    let broker = brokers.iter().find(|maker| maker.name() == name);
    let broker = broker.ok_or_else(|| Error::config(format!("no broker {name}")))?;
    let broker = if url.is_empty() { broker.rig().await? } else { broker.open_url(url).await? };
    let no_child = Err("this is one".to_owned());
    let bench = ConsumeBench::new(maker.open_url(&job.url).await?, broker, no_child);
    if let Some((point, nth)) = &job.point {
        crash::arm(point, *nth);
    }
    let consumed = match crashing::events_per_transaction(&job.run) {
        Some(batch) => crashing::consume(&bench, batch).await,
        None => surviving::be_killed(&bench).await,
    };
    consumed.map_err(|verdict| Error::unavailable(verdict.to_string()))
}

async fn work(job: &Job, makers: &[Arc<dyn RigMaker>]) -> Result<()> {
    let maker = makers.iter().find(|maker| maker.name() == job.backend);
    let maker = maker.ok_or_else(|| Error::config(format!("no backend {}", job.backend)))?;
    let store = maker.open_url(&job.url).await?;
    if let Some((point, nth)) = &job.point {
        crash::arm(point, *nth);
    }
    let pen = Pen::append_to(&job.journal)?;
    let relay = relay(&store, pen.try_clone()?)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relaying = relay.run(async { drop(stopped.await) });
    let rest = async {
        publish(job, &store, &pen).await?;
        until_settled(&store).await?;
        drop(stop);
        Ok(())
    };
    let (relayed, rest): (Result<()>, Result<()>) = tokio::join!(relaying, rest);
    relayed.and(rest)
}

/// Publishes in batches, with a line before each and a line after its answer. One may stay without: a store ends a transaction
/// that stands still for too long with its process.
async fn publish(job: &Job, store: &Arc<dyn Backend>, pen: &Pen) -> Result<()> {
    let mut unanswered = 0;
    for batch in 0..EVENTS_PER_RUN / BATCH {
        let events: Vec<_> = (0..BATCH)
            .map(|n| keyed(&format!("{}-{batch}-{n}", job.run), &format!("key-{}", n % 3)))
            .collect();
        for event in &events {
            pen.write(&format!("try {} {}", event.id, event.key.as_deref().unwrap_or_default()))?;
        }
        let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        match store.publish(events).await {
            Ok(_) => {}
            Err(error) if error.retryable() && unanswered == 0 => {
                unanswered += 1;
                continue;
            }
            Err(error) => return Err(error),
        }
        ids.iter().try_for_each(|id| pen.write(&format!("ok {id}")))?;
    }
    Ok(())
}

async fn until_settled(store: &Arc<dyn Backend>) -> Result<()> {
    let deadline = tokio::time::Instant::now() + DONE_WITHIN;
    let is_settled = |lane: &LaneStats| lane.lane.as_str() == LANE && lane.unread == 0 && lane.waiting == 0;
    while tokio::time::Instant::now() < deadline {
        match all_lanes(&**store).await {
            Ok(lanes) if lanes.iter().any(is_settled) => return Ok(()),
            Err(error) if !error.retryable() => return Err(error),
            // As above: the connection that was asked on may be closed.
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(Error::unavailable("not everything was settled in time"))
}

fn relay(store: &Arc<dyn Backend>, pen: Pen) -> Result<Relay> {
    let store: Arc<dyn Store> = Arc::<dyn Backend>::clone(store);
    let target = Arc::new(JournalTarget { pen, capabilities: Capabilities::sink().burst_max(4) });
    let policy = Backoff::fixed(Duration::from_millis(5));
    let lane = Lane::named(LANE)?.to(target).retry(policy).lease(LEASE).window(8);
    Ok(Relay::new(store).poll_max(Duration::from_millis(10)).lane(lane))
}

/// Writes down what it is sent and acknowledges it, but for some first attempts, which fail.
struct JournalTarget {
    pen: Pen,
    capabilities: Capabilities,
}

impl JournalTarget {
    fn answer(&self, index: usize, parcel: &Parcel) -> Answer {
        let id = &parcel.envelope.id;
        let failed =
            |message: &str| Answer::failed(index, DeliverError::new(DeliverKind::Failed, "law", message));
        if parcel.attempt == 1 && id.ends_with("-3") {
            return failed("every fifth event fails once");
        }
        match self.pen.write(&format!("got {id}")) {
            Ok(()) => Answer::delivered(index),
            Err(error) => failed(&error.to_string()),
        }
    }
}

impl Target for JournalTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let parcels = burst.into_iter().enumerate();
        futures_util::stream::iter(parcels.map(|(index, parcel)| self.answer(index, &parcel))).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// Appends whole lines to a journal; what is written survives the end of the process.
struct Pen(File);

impl Pen {
    fn append_to(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(Self).map_err(|error| Error::config("open the journal").because(error))
    }

    fn try_clone(&self) -> Result<Self> {
        self.0.try_clone().map(Self).map_err(|error| Error::config("open the journal twice").because(error))
    }

    fn write(&self, line: &str) -> Result<()> {
        let written = (&self.0).write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| Error::unavailable("write the journal").because(error))
    }
}

/// What children wrote down.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Ids and keys, before their publish.
    pub(crate) tried: Vec<(String, String)>,
    /// Ids whose publish was answered.
    pub(crate) accepted: Vec<String>,
    /// Ids that the target acknowledged, in order.
    pub(crate) delivered: Vec<String>,
}

impl Journal {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut journal = Self::default();
        for line in std::fs::read_to_string(path)?.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["try", id, key] => journal.tried.push((id.to_owned(), key.to_owned())),
                ["ok", id] => journal.accepted.push(id.to_owned()),
                ["got", id] => journal.delivered.push(id.to_owned()),
                _ => return Err(io::Error::other(format!("not a line of a journal: {line:?}"))),
            }
        }
        Ok(journal)
    }
}
