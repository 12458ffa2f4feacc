//! The child that relays: the library's relay with three lanes, each to a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use posthaste::envelope::Envelope;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::store::{Parcel, Store};
use posthaste::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste::{BoxFuture, BoxStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::engine::{ATTEMPTS_MAX, Engine};
use crate::journal::Pen;
use crate::lanes::{LEASE, UNSETTLED_MAX, WINDOW, Which};
use crate::{Failure, Result};

/// One event in so many fails at its first attempt in the lane `orders`.
const FAILS_ONE_IN: u64 = 20;
/// One event in so many is not answered in time to stay in the window of the lane `slow`.
const SLOW_ONE_IN: u64 = 400;
const SLOW_AFTER: Duration = Duration::from_millis(300);

/// What a relay is told.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    url: String,
    /// Its name in the lanes' rows and in the files.
    #[arg(long)]
    name: String,
    #[arg(long)]
    folder: PathBuf,
    /// How events are kept.
    #[arg(long, value_enum)]
    engine: Engine,
    /// Delivers into consumers whose effects are rows, not into files.
    #[arg(long)]
    consume: bool,
    /// Delivers to this broker.
    #[arg(long)]
    broker: Option<String>,
    /// The point at which to end, and at the how-manieth time.
    #[arg(long, num_args = 2, value_names = ["POINT", "NTH"])]
    crash: Vec<String>,
}

/// Relays until SIGTERM.
pub(crate) fn main(options: Options) -> Result<()> {
    begin(&options.crash)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(relay(&options))
}

/// Writes a log, and arms the point at which this process is to end, if any.
pub(crate) fn begin(crash: &[String]) -> Result<()> {
    let filter = "info".parse::<tracing_subscriber::EnvFilter>()?;
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).with_env_filter(filter).init();
    if let [point, nth] = crash {
        posthaste_core::crash::arm(point, nth.parse()?);
    }
    Ok(())
}

async fn relay(options: &Options) -> Result<()> {
    let mut told_to_stop = signal(SignalKind::terminate())?;
    let store: Arc<dyn Store> = options.engine.open(&options.url).await?;
    let mut relay = Relay::new(store).id(&options.name).grace(Duration::from_secs(5));
    for &which in options.engine.lanes() {
        let target = if let Some(broker) = &options.broker {
            crate::brokers::open(broker, which)?.broker
        } else if options.consume {
            crate::consumer::target(&options.url, which, &options.name)?
        } else {
            Recorder::target(which, options)?
        };
        let lane = Lane::named(which.name())?
            .topics([which.topics()])?
            .to(target)
            .retry(Backoff::fixed(Duration::from_millis(50)).attempts(ATTEMPTS_MAX))
            .lease(LEASE)
            .window(WINDOW)
            .unsettled_max(UNSETTLED_MAX)
            .slow_after(SLOW_AFTER);
        relay = relay.lane(lane);
    }
    relay.run(async move { told_to_stop.recv().await.unwrap_or_default() }).await.map_err(Failure::from)
}

/// Where the deliveries of a lane are.
pub(crate) fn delivered_file(folder: &std::path::Path, which: Which) -> PathBuf {
    folder.join(format!("delivered-{}", which.name()))
}

/// Appends what it is sent to a file, and only then acknowledges it.
struct Recorder {
    which: Which,
    name: String,
    pen: Pen,
    capabilities: Capabilities,
}

/// Takes the lane's time for an event, and says how it fails if it does.
pub(crate) async fn stumble(which: Which, envelope: &Envelope, attempt: u32) -> Option<DeliverKind> {
    if which.refuses(&envelope.event_type) {
        return Some(DeliverKind::Rejected);
    }
    let chance = hash(&envelope.id);
    match which {
        Which::All => {}
        Which::Orders | Which::Main if attempt == 1 && chance.is_multiple_of(FAILS_ONE_IN) => {
            return Some(DeliverKind::Failed);
        }
        Which::Orders => {}
        Which::Slow | Which::Main if chance.is_multiple_of(SLOW_ONE_IN) => {
            tokio::time::sleep(SLOW_AFTER * 2).await
        }
        Which::Slow | Which::Main => tokio::time::sleep(Duration::from_micros(chance % 3_000)).await,
    }
    None
}

impl Recorder {
    fn target(which: Which, options: &Options) -> Result<Arc<dyn Target>> {
        let pen = Pen::append_to(&delivered_file(&options.folder, which))?;
        Ok(Arc::new(Self { which, name: options.name.clone(), pen, capabilities: Capabilities::sink() }))
    }

    async fn take(&self, index: usize, parcel: Parcel) -> Answer {
        let envelope = &parcel.envelope;
        let failed = |kind| Answer::failed(index, DeliverError::new(kind, "nemesis", "as it was to be"));
        if let Some(kind) = stumble(self.which, envelope, parcel.attempt).await {
            return failed(kind);
        }
        let key = envelope.key.as_deref().unwrap_or("-");
        let payload = String::from_utf8_lossy(&envelope.payload);
        match self.pen.write(&format!("{} {key} {payload} {}", envelope.id, self.name)) {
            Ok(()) => Answer::delivered(index),
            Err(_) => failed(DeliverKind::Unavailable),
        }
    }
}

impl Target for Recorder {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let parcels = burst.into_iter().enumerate();
        parcels.map(|(index, parcel)| self.take(index, parcel)).collect::<FuturesUnordered<_>>().boxed()
    }

    fn ping(&self) -> BoxFuture<'_, posthaste::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// The same in every process and every run: FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
