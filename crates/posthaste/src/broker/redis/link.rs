//! One connection to the server, made when it is needed and made again when it is lost.
//!
//! Many ask on it at once. The client sends what they ask one after another and hands out the answers in the
//! same order. No answer is waited for longer than the settings say. A connection on which one answer is late
//! is given up, and with it everything that is unanswered on it, because nobody can tell what became of that.
//!
//! No background task reconnects. The first caller opens the connection. Callers that waited for a failed
//! attempt get its error and do not retry. The relay's probes bring the connection back.

mod dial;
mod error;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::{Error, Result, redact};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::Mutex as Turn;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use self::dial::Dialer;
pub(super) use self::error::refused;
use super::settings::LinkSettings;

/// A connection that is made anew when it is lost. Cheap to clone; it ends with the last clone.
#[derive(Clone)]
pub(super) struct Link(Arc<Owner>);

struct Owner {
    dialer: Arc<Dialer>,
    /// How long an answer may take.
    patience: Duration,
    state: Turn<State>,
    /// Reads and writes the connection.
    driver: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// Counts the connections, from 1.
    generation: u64,
    /// When the last attempt failed, and why.
    refused: Option<(Instant, String)>,
}

#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    generation: u64,
}

impl Link {
    /// A connection with these settings.
    ///
    /// # Errors
    /// `Config` for certificates that cannot be used.
    pub(super) fn new(settings: &LinkSettings) -> Result<Self> {
        Ok(Self::by(Arc::new(Dialer::new(settings)?), settings.answer_timeout))
    }

    /// Another connection to the same server.
    pub(super) fn another(&self) -> Self {
        Self::by(Arc::clone(&self.0.dialer), self.0.patience)
    }

    fn by(dialer: Arc<Dialer>, patience: Duration) -> Self {
        Self(Arc::new(Owner { dialer, patience, state: Turn::default(), driver: Mutex::default() }))
    }

    /// How long an answer may take.
    pub(super) fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Asks all of this at once and answers what the server said to each, refusals among it.
    ///
    /// # Errors
    /// `Unavailable` when there is no connection, when it was lost, and when the answers are late. What was asked may have been
    /// done all the same.
    pub(super) async fn ask(&self, questions: &Pipeline) -> Result<Vec<Value>> {
        self.ask_within(questions, self.0.patience).await
    }

    /// The same, with another limit.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(super) async fn ask_within(&self, questions: &Pipeline, within: Duration) -> Result<Vec<Value>> {
        let mut live = self.live().await?;
        let asking = live.connection.send_packed_commands(questions, 0, questions.len());
        let why = match timeout(within, asking).await {
            Ok(Ok(answers)) => {
                if answers.iter().any(error::is_replica) {
                    // Another node may be the primary now.
                    self.give_up(live.generation).await;
                }
                return Ok(answers);
            }
            Ok(Err(error)) => {
                format!("the connection to Redis is lost: {}", redact::clean(&error.to_string()))
            }
            Err(_) => format!("Redis did not answer within {within:?}"),
        };
        self.give_up(live.generation).await;
        Err(Error::unavailable(why))
    }

    /// Asks one thing; a refusal is an error.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and `Unavailable` with the server's words: whatever it is, it may mend.
    pub(super) async fn ask_one(&self, question: Cmd) -> Result<Value> {
        let mut questions = Pipeline::with_capacity(1);
        questions.add_command(question);
        match self.ask(&questions).await?.pop() {
            Some(Value::ServerError(error)) => Err(refused(&error).into_error()),
            Some(answer) => Ok(answer),
            None => Err(Error::unavailable("Redis gave no answer")),
        }
    }

    /// The connection that lives now, or a new one. Whoever waited while an attempt failed is told so, and does not try himself.
    async fn live(&self) -> Result<Live> {
        let came = Instant::now();
        let mut state = self.0.state.lock().await;
        if let Some(live) = &state.live
            && self.is_driven()
        {
            return Ok(live.clone());
        }
        if let Some((at, why)) = &state.refused
            && *at > came
        {
            return Err(Error::unavailable(why.clone()));
        }
        match self.0.dialer.dial().await {
            Ok((connection, driver)) => {
                state.generation += 1;
                let live = Live { connection, generation: state.generation };
                let mut task = lock(&self.0.driver);
                *task = JoinSet::new();
                task.spawn(driver);
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(why) => {
                state.live = None;
                state.refused = Some((Instant::now(), why.clone()));
                Err(Error::unavailable(why))
            }
        }
    }

    /// Whether somebody reads and writes the connection: its runtime may be gone, or the server has closed it.
    fn is_driven(&self) -> bool {
        let mut task = lock(&self.0.driver);
        while task.try_join_next().is_some() {}
        !task.is_empty()
    }

    /// Ends a connection that is of no use any more, unless there is a new one already.
    async fn give_up(&self, generation: u64) {
        let mut state = self.0.state.lock().await;
        if state.live.as_ref().is_some_and(|live| live.generation == generation) {
            state.live = None;
            // Its socket closes with its driver, and whoever waits on it is told.
            *lock(&self.0.driver) = JoinSet::new();
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
