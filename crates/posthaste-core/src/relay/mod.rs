//! Drives lanes: claims from a store, delivers to a target, settles.
//!
//! ```text
//!            ┌────────────── one lease ──────────────┐
//! acquire ──►│ claim ─► window ─► burst ─► answer    │──► stopped: give up, exit
//!    ▲       │   ▲      (keys)     (target)  │       │
//!    │       │   └──────── settle ◄── outcome┘       │──► lost, paused, retired, error: acquire anew
//!    └───────┴───────────────────────────────────────┘
//! ```
//!
//! * [`Lane`] is what a user configures, [`Relay`] what a user runs.
//! * `tend` keeps one lane going: acquires, drives, waits out what went wrong.
//! * `drive` is the loop under one lease; its state machine has no I/O of its own but the two seams.
//! * `window` keeps order per key, `burst` times answers out, `verdict` decides what a failure means.
//!
//! Only the relay decides about retries; stores record and targets classify.
//!
//! What holds a lane together:
//!
//! * `pace` settles every 50 ms, and more rarely where a settle takes long. It counts the lease from before
//!   the call that renewed it, and stops sending when nine tenths of it have passed.
//! * With order per key, `drive` never lets a settle that parks overlap a claim. That claim would not see the
//!   parked event and could hand out a later event of its key.
//! * Renewing a lease is settling; acquiring always makes a new epoch. A relay that panicked in a lane gets
//!   it back at once, because the owner's run is still the same.

mod burst;
mod drive;
mod lane;
mod meters;

mod pace;
mod tend;
mod tenure;
mod verdict;
mod window;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tracing::{error, info};

pub use lane::Lane;
pub use tenure::{Tenure, Trouble};
pub use verdict::Letter;

use crate::heartbeat::Heartbeat;
use crate::store::{Owner, Store};
use crate::telemetry::field;
use crate::time::{Clock, SystemClock};
use crate::{Error, Result};
use meters::Meters;
use tend::Tender;

/// How long a stop waits for what is in flight, unless configured.
const GRACE: Duration = Duration::from_secs(10);
/// Nothing is in flight for longer, and no clock is asked for a time that it cannot say.
const GRACE_MAX: Duration = Duration::from_secs(86_400);
/// The longest pause between two questions for work, unless configured.
const POLL_MAX: Duration = Duration::from_millis(100);
/// How long a lane rests after a panic.
const PANIC_PAUSE: Duration = Duration::from_secs(1);
/// A lane's loop turns at least once in its lease, whatever store and target do. One that did not for several leases, and for so
/// long at least, does not turn any more.
const LEASES_PATIENCE: u32 = 4;
const PATIENCE_MIN: Duration = Duration::from_secs(60);

type Hook = Arc<dyn Fn(&Letter) + Send + Sync>;

/// Drives any number of lanes of one store.
///
/// ```no_run
/// # use posthaste_core::relay::{Lane, Relay};
/// # use std::sync::Arc;
/// # async fn example(store: Arc<dyn posthaste_core::store::Store>, broker: Arc<dyn posthaste_core::target::Target>, shutdown: impl Future<Output = ()>) -> posthaste_core::Result<()> {
/// Relay::new(store)
///     .lane(Lane::named("main")?.topics(["orders", "stock.*"])?.to(broker))
///     .on_dead(|letter| eprintln!("{} is dead: {}", letter.envelope.id, letter.error))
///     .run(shutdown)
///     .await
/// # }
/// ```
///
/// # Guarantees
/// Every committed event reaches its target's acknowledgement, or is parked, or is dead with a reason. Dropping the future
/// of [`run`](Relay::run) at any point loses nothing: what was not settled is delivered again.
pub struct Relay {
    settings: Settings,
    lanes: Vec<Driven>,
}

/// A lane, whether its loop turns, and whether somebody has it.
#[derive(Clone)]
struct Driven {
    lane: Lane,
    heartbeat: Heartbeat,
    tenure: Tenure,
}

/// What all lanes of a relay share.
#[derive(Clone)]
struct Settings {
    store: Arc<dyn Store>,
    owner: Owner,
    poll_max: Duration,
    grace: Duration,
    clock: Arc<dyn Clock>,
    on_dead: Option<Hook>,
    on_failed: Option<Hook>,
}

/// What a relay did in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Events acknowledged.
    pub delivered: u64,
    /// Events that failed and will be tried again.
    pub retried: u64,
    /// Events that died.
    pub dead: u64,
    /// Lanes that somebody else drives, or that are paused or retired.
    pub lanes_skipped: u64,
    /// Lanes whose target took no events.
    pub lanes_unavailable: u64,
}

impl Relay {
    /// A relay without lanes, named after nobody.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let settings = Settings {
            store,
            owner: Owner::new(format!("relay-{:08x}", fastrand::u32(..))),
            poll_max: POLL_MAX,
            grace: GRACE,
            clock: Arc::new(SystemClock),
            on_dead: None,
            on_failed: None,
        };
        Self { settings, lanes: Vec::new() }
    }

    /// Drives this lane too.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        let patience = lane.spec.lease.saturating_mul(LEASES_PATIENCE).max(PATIENCE_MIN);
        let heartbeat = Heartbeat::new(format!("lane {}", lane.name()), patience);
        let tenure = Tenure::new(lane.name().clone(), lane.spec.lease);
        self.lanes.push(Driven { lane, heartbeat, tenure });
        self
    }

    /// The heartbeats of the lanes' loops, for whoever watches over the process. A store or a target that is away, slow or silent
    /// stops none of them; something that holds on to the thread does, like a callback that never returns.
    pub fn heartbeats(&self) -> Vec<Heartbeat> {
        self.lanes.iter().map(|driven| driven.heartbeat.clone()).collect()
    }

    /// What this relay knows about who has each of its lanes, for readiness and alerts.
    pub fn tenures(&self) -> Vec<Tenure> {
        self.lanes.iter().map(|driven| driven.tenure.clone()).collect()
    }

    /// Goes by this name in the lanes' rows, in logs and in metrics.
    #[must_use]
    pub fn id(mut self, name: impl Into<String>) -> Self {
        self.settings.owner = Owner::new(name);
        self
    }

    /// Asks an idle store for work at least so often.
    #[must_use]
    pub fn poll_max(mut self, pause: Duration) -> Self {
        self.settings.poll_max = pause.max(Duration::from_millis(1));
        self
    }

    /// Waits so long for what is in flight when it is told to stop; a day at most.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace.min(GRACE_MAX);
        self
    }

    /// Measures latency by this clock; the store's own rules everything else.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Calls this for every event that died, after that was recorded.
    #[must_use]
    pub fn on_dead(mut self, hook: impl Fn(&Letter) + Send + Sync + 'static) -> Self {
        self.settings.on_dead = Some(Arc::new(hook));
        self
    }

    /// Calls this for every delivery that failed and will be tried again, after that was recorded.
    #[must_use]
    pub fn on_failed(mut self, hook: impl Fn(&Letter) + Send + Sync + 'static) -> Self {
        self.settings.on_failed = Some(Arc::new(hook));
        self
    }

    /// Drives the lanes until `shutdown` is there; then claims nothing more, settles what is in flight within the grace
    /// period, and gives the lanes up.
    ///
    /// A store or target that is unreachable, at the start or later, is waited for. A panic in a lane is
    /// reported and counted, and the lane goes on after a pause. Dropping the future stops at once and is
    /// safe.
    ///
    /// A store that is not as it must be (`Config` and `Corrupt`) ends the relay at the start. Later the
    /// relay gives the lane up, says why ([`tenures`](Relay::tenures), log), and goes on by itself once that
    /// is fixed.
    ///
    /// # Errors
    /// Two lanes of one name; `Config` and `Corrupt` from a store that has not worked since the start.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.check()?;
        let (stop, stopped) = watch::channel(false);
        let mut crew = Crew {
            settings: self.settings,
            lanes: self.lanes,
            stopped,
            tasks: JoinSet::new(),
            of: Vec::new(),
        };
        (0..crew.lanes.len()).for_each(|lane| crew.start(lane, Duration::ZERO));
        info!({ field::RELAY } = crew.settings.owner.name, lanes = crew.lanes.len(), "relaying");
        let mut shutdown = pin!(shutdown);
        let outcome = tokio::select! {
            biased;
            () = &mut shutdown => Ok(()),
            error = crew.watch() => Err(error),
        };
        // The receivers live in `crew`, so this cannot fail.
        let _ = stop.send(true);
        crew.finish().await;
        outcome
    }

    /// Drives every lane until nothing is due in it, then answers what was done; for cron and for tests.
    ///
    /// # Errors
    /// What the store says: nothing is waited for.
    pub async fn once(&self) -> Result<Report> {
        self.check()?;
        let mut report = Report::default();
        for Driven { lane, heartbeat, tenure } in &self.lanes {
            let meters = &Meters::of(lane.name(), &self.settings);
            let tender = Tender { settings: &self.settings, lane, meters, heartbeat, tenure };
            let done = tender.once().await?;
            report.delivered += done.delivered;
            report.retried += done.retried;
            report.dead += done.dead;
            report.lanes_skipped += done.lanes_skipped;
            report.lanes_unavailable += done.lanes_unavailable;
        }
        Ok(report)
    }

    fn check(&self) -> Result<()> {
        for (index, Driven { lane, .. }) in self.lanes.iter().enumerate() {
            if self.lanes[..index].iter().any(|other| other.lane.name() == lane.name()) {
                return Err(Error::config(format!(
                    "there are two lanes named {:?}; give each its own name",
                    lane.name().as_str()
                )));
            }
        }
        Ok(())
    }
}

/// The tasks of a running relay: one per lane.
struct Crew {
    settings: Settings,
    lanes: Vec<Driven>,
    stopped: watch::Receiver<bool>,
    tasks: JoinSet<Result<()>>,
    of: Vec<(Id, usize)>,
}

impl Crew {
    fn start(&mut self, lane: usize, pause: Duration) {
        let (settings, stopped) = (self.settings.clone(), self.stopped.clone());
        let driven = self.lanes[lane].clone();
        let task = self.tasks.spawn(async move {
            let Driven { lane, heartbeat, tenure } = &driven;
            let meters = &Meters::of(lane.name(), &settings);
            let tender = Tender { settings: &settings, lane, meters, heartbeat, tenure };
            let ended = tender.run(stopped, pause).await;
            heartbeat.end();
            tenure.end();
            ended
        });
        self.of.push((task.id(), lane));
    }

    /// Restarts lanes that panicked; returns only with an error that nobody can wait out.
    async fn watch(&mut self) -> Error {
        loop {
            match self.tasks.join_next_with_id().await {
                Some(Ok((_, Err(error)))) => return error,
                Some(Ok((_, Ok(())))) => {}
                Some(Err(panic)) => self.restart(&panic),
                None => std::future::pending().await,
            }
        }
    }

    fn restart(&mut self, panic: &tokio::task::JoinError) {
        let Some(at) = self.of.iter().position(|(id, _)| *id == panic.id()) else { return };
        let (_, lane) = self.of.swap_remove(at);
        let name = self.lanes[lane].lane.name();
        Meters::of(name, &self.settings).panicked();
        error!({ field::LANE } = name.as_str(), { field::ERROR } = %panic, "a panic in this lane's turn; it goes on after a pause");
        self.start(lane, PANIC_PAUSE);
    }

    /// Waits for every lane to end by itself: each has its own grace period.
    async fn finish(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => error!({ field::ERROR } = %error, "a lane ended with an error"),
                Err(panic) => error!({ field::ERROR } = %panic, "a panic in a lane's last turn"),
            }
        }
    }
}
