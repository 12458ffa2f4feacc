//! One connection to the server, kept alive: made in the background, watched, and made anew when it is lost.
//!
//! The client would reconnect by itself, but it says neither why it cannot, nor that what was under way is lost, and sends what
//! was handed in meanwhile when nobody waits for it any more. So a connection that is lost is thrown away, and a
//! [generation](Live::generation) says to which one something belongs.

mod dial;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::{Client, Event, ServerError, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use posthaste_core::retry::{Backoff, RetryPolicy as _};
use posthaste_core::telemetry::field;
use posthaste_core::{BoxFuture, Error, Result, redact};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use self::dial::Dialer;
use super::publisher::Acks;
use super::settings::LinkSettings;

/// The first pause between attempts to connect: it doubles to the longest, any part of it is waited, for ever.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// A connection that heals itself. Cheap to clone; the connection ends with the last clone.
#[derive(Clone)]
pub(super) struct Link(Arc<Owner>);

/// Ends the background task with the last clone.
struct Owner {
    shared: Arc<Shared>,
    keeper: Mutex<JoinSet<()>>,
}

/// What the background task and the callers share.
struct Shared {
    role: &'static str,
    dialer: Dialer,
    pause_max: Duration,
    /// How long the server may take to answer.
    patience: Duration,
    state: watch::Sender<State>,
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
pub(super) struct Live {
    /// Counted from 1; a higher number is a later connection.
    pub(super) generation: u64,
    pub(super) client: Client,
    pub(super) jetstream: Context,
    pub(super) acks: Acks,
    /// Whether the stream that we may create was looked for.
    pub(super) is_prepared: tokio::sync::OnceCell<()>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Live {
    /// The largest message that the server takes.
    pub(super) fn max_payload(&self) -> u64 {
        self.client.max_payload() as u64
    }

    /// Whether the server has JetStream at all.
    pub(super) fn has_jetstream(&self) -> bool {
        self.client.try_server_info().is_none_or(|info| info.jetstream)
    }
}

impl Link {
    /// A connection for this half of the work. It is made when somebody asks for it first.
    ///
    /// # Errors
    /// `Config` for certificates or credentials that cannot be used.
    pub(super) fn new(settings: &LinkSettings, role: &'static str) -> Result<Self> {
        let shared = Shared {
            role,
            dialer: Dialer::new(settings, role)?,
            pause_max: settings.reconnect_max,
            patience: settings.patience,
            state: watch::Sender::new(State::New),
            doubt: Notify::new(),
        };
        Ok(Self(Arc::new(Owner { shared: Arc::new(shared), keeper: Mutex::new(JoinSet::new()) })))
    }

    /// The connection that lives now; waits for the very first attempt, and for nothing else.
    ///
    /// # Errors
    /// `Unavailable`, with the reason why there is none.
    pub(super) async fn live(&self) -> Result<Arc<Live>> {
        self.start();
        let mut states = self.0.shared.state.subscribe();
        let known = states.wait_for(|state| !matches!(state, State::New)).await;
        match known.as_deref() {
            Ok(State::Live(live)) => Ok(Arc::clone(live)),
            Ok(State::Away(why)) => Err(Error::unavailable(why.to_string())),
            _ => Err(Error::unavailable("the connection to NATS was closed")),
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

    /// Why there is no connection, if there is none.
    pub(super) fn away(&self) -> Option<String> {
        match &*self.0.shared.state.borrow() {
            State::Away(why) => Some(why.to_string()),
            _ => None,
        }
    }

    /// Tries a connection that somebody doubts; answers whether it is well. One that does not answer is given up.
    pub(super) async fn try_out(&self, live: &Live) -> bool {
        let is_well = answers(live.client.clone(), self.0.shared.patience).await;
        if !is_well {
            self.0.shared.doubt.notify_one();
        }
        is_well
    }

    /// How long the server may take to answer.
    pub(super) fn patience(&self) -> Duration {
        self.0.shared.patience
    }

    /// Starts the background task, unless it runs.
    fn start(&self) {
        let mut keeper = self.0.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        while keeper.try_join_next().is_some() {}
        if keeper.is_empty() {
            // The runtime of the task before may be gone, and the connection with it.
            self.0.shared.state.send_replace(State::New);
            keeper.spawn(keep(Arc::clone(&self.0.shared)));
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("role", &self.0.shared.role).finish_non_exhaustive()
    }
}

/// Sends something to itself. A question that nobody answers would not do: where somebody listens to everything, the server does not say
/// that nobody does.
async fn answers(client: Client, within: Duration) -> bool {
    let inbox = client.new_inbox();
    let heard = async {
        let mut own = client.subscribe(inbox.clone()).await.ok()?;
        client.publish(inbox, Bytes::new()).await.ok()?;
        own.next().await
    };
    matches!(timeout(within, heard).await, Ok(Some(_)))
}

/// Keeps a connection, for ever.
async fn keep(shared: Arc<Shared>) {
    let backoff = Backoff::exponential(PAUSE_FIRST).cap(shared.pause_max).attempts(u32::MAX);
    let (mut generation, mut failures) = (0, 0_u32);
    loop {
        generation += 1;
        let why = match shared.dialer.dial(generation).await {
            Ok((live, events, acks)) => {
                failures = 0;
                let live = Arc::new(live);
                info!(role = shared.role, generation, "connected to NATS");
                shared.state.send_replace(State::Live(Arc::clone(&live)));
                let why = watch(&shared, &live, events, acks).await;
                warn!(
                    role = shared.role,
                    generation,
                    { field::ERROR } = why,
                    "the connection to NATS is lost"
                );
                // Whoever looks why its answers end finds it.
                shared.state.send_replace(State::Away(why.as_str().into()));
                live.acks.close();
                why
            }
            Err(why) => {
                if failures == 0 {
                    warn!(role = shared.role, { field::ERROR } = why, "NATS cannot be reached; trying on");
                } else {
                    debug!(role = shared.role, { field::ERROR } = why, "NATS still cannot be reached");
                }
                why
            }
        };
        shared.state.send_replace(State::Away(why.into()));
        failures = failures.saturating_add(1);
        sleep(backoff.next(failures, None).unwrap_or(shared.pause_max)).await;
    }
}

/// Hands on acknowledgements until the connection is lost; answers why.
async fn watch(
    shared: &Shared,
    live: &Live,
    mut events: mpsc::UnboundedReceiver<Event>,
    mut acks: Subscriber,
) -> String {
    let mut asking: Option<BoxFuture<'static, bool>> = None;
    let mut last_words = None;
    let lost = |words: Option<String>| words.unwrap_or_else(|| "the connection was closed".to_owned());
    loop {
        tokio::select! {
            message = acks.next() => match message {
                Some(message) => live.acks.hear(&message),
                None => return lost(last_words),
            },
            event = events.recv() => match event {
                Some(Event::Disconnected | Event::Closed) | None => return lost(last_words),
                Some(Event::ServerError(ServerError::Other(words))) => {
                    let words = redact::clean(&words);
                    live.acks.refused(&words);
                    last_words = Some(words);
                }
                Some(Event::ServerError(error)) => last_words = Some(redact::clean(&error.to_string())),
                Some(_) => {}
            },
            () = shared.doubt.notified(), if asking.is_none() => {
                asking = Some(Box::pin(answers(live.client.clone(), shared.patience)));
            }
            is_well = async { match &mut asking { Some(asking) => asking.await, None => std::future::pending().await } } => {
                asking = None;
                if !is_well {
                    return format!("the server did not answer within {:?}", shared.patience);
                }
            }
        }
    }
}
