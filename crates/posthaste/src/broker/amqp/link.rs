//! One connection to the broker, kept alive: a background task opens it, watches it and opens a new one when
//! it is lost.
//!
//! The client's own recovery is not used. It replays what it remembers, and what was unconfirmed stays
//! unclear. Instead a caller asks for a [channel](Link::channel) of the connection that lives now. Channels
//! are thrown away with their connection. A [generation](Opened::generation) says to which connection a
//! channel, and with it a delivery tag, belongs.

mod dial;
mod error;
mod plug;
mod watch;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::{Channel, Connection};
use posthaste_core::retry::{Backoff, RetryPolicy as _};
use posthaste_core::telemetry::{field, label, metric};
use posthaste_core::{Error, Result};
use tokio::sync::{Notify, watch as state};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use self::dial::Dialer;
pub(super) use self::error::{Refusal, refusal, told};
use self::plug::Plug;
use super::settings::LinkSettings;

/// The first pause between attempts to connect: it doubles to the longest, any part of it is waited, for ever.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// What a connection is for: each has its own, so that a broker that stops reading publishers still takes acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Publish,
    Consume,
    /// What consumers set aside or bury: they publish it, as the user who consumes.
    Move,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Consume => "consume",
            Self::Move => "move",
        }
    }
}

/// A channel, and which connection it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) channel: Channel,
    /// Counted from 1; a higher number is a later connection.
    pub(super) generation: u64,
}

/// A connection that heals itself. Cheap to clone; the connection ends with the last clone and the last channel.
#[derive(Clone)]
pub(super) struct Link(Arc<Owner>);

/// Ends the background task with the last clone.
struct Owner {
    shared: Arc<Shared>,
    keeper: Mutex<JoinSet<()>>,
}

/// What the background task and the callers share.
struct Shared {
    role: Role,
    dialer: Dialer,
    /// How often a connection that nobody uses is tried.
    monitor: Duration,
    /// The longest pause between attempts to connect.
    pause_max: Duration,
    /// How long the broker may take to answer.
    patience: Duration,
    state: state::Sender<State>,
    /// Somebody thinks that the connection is gone.
    doubt: Notify,
}

/// How the connection is.
#[derive(Clone, Debug)]
enum State {
    /// Nobody has asked for it yet, or the first attempt is on its way.
    New,
    Live(Arc<Live>),
    /// Lost, or not to be had; why.
    Away(Arc<str>),
}

/// A connection that was made.
#[derive(Debug)]
struct Live {
    generation: u64,
    connection: Connection,
    plug: Plug,
    /// Why the broker takes nothing from publishers at the moment.
    blocked: state::Sender<Option<String>>,
}

impl Link {
    /// A connection for this half of the work. It is made when somebody asks for it first.
    ///
    /// # Errors
    /// `Config` for certificates that cannot be used.
    pub(super) fn new(settings: &LinkSettings, role: Role) -> Result<Self> {
        let shared = Shared {
            role,
            dialer: Dialer::new(settings, role)?,
            monitor: settings.monitor,
            pause_max: settings.reconnect_max,
            patience: settings.connect_timeout,
            state: state::Sender::new(State::New),
            doubt: Notify::new(),
        };
        Ok(Self(Arc::new(Owner { shared: Arc::new(shared), keeper: Mutex::new(JoinSet::new()) })))
    }

    /// Opens a channel of the connection that lives now. While there is none it does not wait, but for the very first.
    ///
    /// # Errors
    /// `Unavailable`, with the reason why there is no connection, or why the broker opens no channel.
    pub(super) async fn channel(&self) -> Result<Opened> {
        let live = self.live().await?;
        match timeout(self.0.shared.patience, live.connection.create_channel()).await {
            Ok(Ok(channel)) => Ok(Opened { channel, generation: live.generation }),
            Ok(Err(error)) => {
                self.0.shared.doubt.notify_one();
                Err(told("open a channel", &error))
            }
            Err(_) => {
                self.0.shared.doubt.notify_one();
                Err(Error::unavailable("the broker does not answer when asked to open a channel"))
            }
        }
    }

    /// Whether the broker would take something now: there is a connection, it is not blocked, and it answers.
    ///
    /// # Errors
    /// `Unavailable` with the reason.
    pub(super) async fn probe(&self) -> Result<()> {
        let live = self.live().await?;
        if let Some(reason) = live.blocked.borrow().clone() {
            return Err(blocked(&reason));
        }
        // The channel closes when it is dropped.
        self.channel().await.map(drop)
    }

    /// Why the broker takes nothing from publishers at the moment, if so.
    pub(super) fn blocked(&self) -> Option<String> {
        match &*self.0.shared.state.borrow() {
            State::Live(live) => live.blocked.borrow().clone(),
            _ => None,
        }
    }

    /// Waits until this connection is lost; answers why. At once if it is lost already.
    pub(super) async fn lost(&self, generation: u64) -> String {
        let mut states = self.0.shared.state.subscribe();
        let gone = |state: &State| !matches!(state, State::Live(live) if live.generation == generation);
        match states.wait_for(gone).await.as_deref() {
            Ok(State::Away(why)) => why.to_string(),
            _ => "the connection was lost".to_owned(),
        }
    }

    /// Tries a connection that somebody doubts, for at most so long; answers whether it is well. One that does not answer
    /// is given up.
    pub(super) async fn try_out(&self, generation: u64, within: Duration) -> bool {
        let live = match &*self.0.shared.state.borrow() {
            State::Live(live) if live.generation == generation => Arc::clone(live),
            _ => return false,
        };
        let is_well = matches!(timeout(within, live.connection.create_channel()).await, Ok(Ok(_)));
        if !is_well {
            // The watcher sees its end, and makes a new one.
            live.plug.pull();
        }
        is_well
    }

    /// The connection that lives now; waits for the very first attempt, and for nothing else.
    async fn live(&self) -> Result<Arc<Live>> {
        self.start();
        let mut states = self.0.shared.state.subscribe();
        let known = states.wait_for(|state| !matches!(state, State::New)).await;
        match known.as_deref() {
            Ok(State::Live(live)) => Ok(Arc::clone(live)),
            Ok(State::Away(why)) => Err(Error::unavailable(why.to_string())),
            _ => Err(Error::unavailable("the connection to the broker was closed")),
        }
    }

    /// Starts the background task, unless it runs.
    fn start(&self) {
        let mut keeper = lock(&self.0.keeper);
        // It ends only with its runtime: a test's, say, while the broker lives on in another.
        while keeper.try_join_next().is_some() {}
        if keeper.is_empty() {
            keeper.spawn(keep(Arc::clone(&self.0.shared)));
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("role", &self.0.shared.role).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn blocked(reason: &str) -> Error {
    Error::unavailable(format!(
        "the broker takes nothing from publishers ({reason}); free what it lacks, memory or disk, and it goes on"
    ))
}

/// Connects, watches, connects again; until it is dropped.
async fn keep(shared: Arc<Shared>) {
    let backoff = Backoff::exponential(PAUSE_FIRST).cap(shared.pause_max).attempts(u32::MAX);
    let (mut generation, mut failures) = (0_u64, 0_u32);
    loop {
        let why = match shared.dialer.dial(generation + 1).await {
            Ok(live) => {
                generation += 1;
                failures = 0;
                let live = Arc::new(live);
                shared.connected(&live);
                let why = watch::until_lost(&shared, &live).await;
                shared.lost(&live, &why);
                why
            }
            Err(why) => {
                shared.refused(failures, &why);
                why
            }
        };
        shared.state.send_replace(State::Away(why.into()));
        failures = failures.saturating_add(1);
        sleep(backoff.next(failures, None).unwrap_or(shared.pause_max)).await;
    }
}

impl Shared {
    fn connected(&self, live: &Arc<Live>) {
        let role = self.role.name();
        info!(role, generation = live.generation, "connected to RabbitMQ");
        metrics::gauge!(metric::AMQP_CONNECTED, label::ROLE => role).set(1.0);
        if live.generation > 1 {
            metrics::counter!(metric::AMQP_RECONNECTS_TOTAL, label::ROLE => role).increment(1);
        }
        self.state.send_replace(State::Live(Arc::clone(live)));
    }

    fn lost(&self, live: &Live, why: &str) {
        let role = self.role.name();
        warn!(
            role,
            generation = live.generation,
            { field::ERROR } = why,
            "the connection to RabbitMQ is lost"
        );
        metrics::gauge!(metric::AMQP_CONNECTED, label::ROLE => role).set(0.0);
        metrics::gauge!(metric::AMQP_BLOCKED, label::ROLE => role).set(0.0);
        // Whoever still waits on one of its channels is told now, not when the operating system gives up.
        live.plug.pull();
    }

    fn refused(&self, failures: u32, why: &str) {
        let role = self.role.name();
        metrics::gauge!(metric::AMQP_CONNECTED, label::ROLE => role).set(0.0);
        if failures == 0 {
            warn!(role, { field::ERROR } = why, "RabbitMQ cannot be reached; trying on");
        } else {
            debug!(role, { field::ERROR } = why, "RabbitMQ still cannot be reached");
        }
    }
}
