//! What every request handler shares.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use posthaste::schema::{Backend, Keyring};

use super::auth::KnownKeys;
use super::health::{Readiness, Watched};
use super::jobs::Jobs;
use super::letters::Letters;
use super::metrics::Metrics;
use super::proof::Prover;
use super::publish::Budget;
use super::rarely::Rarely;
use crate::config::payload::LaneLimits;
use crate::config::scope::Operator;

/// Room in a JSON body for everything that is not the payload.
const JSON_BYTES_BESIDE_PAYLOAD: usize = 64 * 1024;

/// Limits on requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest payload of an event, in bytes.
    pub payload_bytes_max: usize,
    /// The number of arrays and objects that may stand inside one another in a JSON payload.
    pub json_depth_max: usize,
    /// What the lanes take.
    pub lanes: LaneLimits,
    /// How far a request's body may fall behind its slowest rate, and so how long it may pause.
    pub body_timeout: Duration,
    /// The slowest rate of a request's body.
    pub body_bytes_per_second_min: u64,
    /// How long a request may take, from its head to its answer.
    pub request_timeout: Duration,
    /// The source of events that come without one.
    pub source: String,
    /// What keys may do.
    pub operators: Vec<Operator>,
}

impl Limits {
    /// The largest JSON body, of one event as of a batch: a payload that is at its limit fits, also in base64.
    pub fn json_bytes_max(&self) -> usize {
        self.payload_bytes_max.saturating_mul(2).saturating_add(JSON_BYTES_BESIDE_PAYLOAD)
    }
}

/// What every request handler shares: the store, the limits, what is cached.
pub struct App {
    pub(super) store: Arc<dyn Backend>,
    /// Whether the store is an outbox table of somebody else.
    pub(super) is_table: bool,
    pub(super) keyring: Arc<dyn Keyring>,
    pub(super) limits: Limits,
    pub(super) keys: KnownKeys,
    pub(super) unauthorized: Rarely,
    pub(super) prover: Prover,
    pub(super) readiness: Readiness,
    pub(super) watched: Watched,
    pub(super) letters: Letters,
    pub(super) jobs: Jobs,
    pub(super) bodies: Budget,
    pub(super) metrics: Metrics,
}

impl App {
    /// Serves this store, and these dead letters of brokers, within these limits. Whether it is ready also depends on what is watched.
    pub fn new(
        store: Arc<dyn Backend>,
        letters: Letters,
        limits: Limits,
        metrics: Metrics,
        watched: Watched,
    ) -> Arc<Self> {
        let keyring: Arc<dyn Keyring> = Arc::<dyn Backend>::clone(&store);
        Arc::new(Self::made((store, false), letters, keyring, limits, metrics, watched))
    }

    /// The same for an outbox table, which keeps no keys: these are known.
    pub fn of_table(
        store: Arc<dyn Backend>,
        letters: Letters,
        keyring: Arc<dyn Keyring>,
        limits: Limits,
        metrics: Metrics,
        watched: Watched,
    ) -> Arc<Self> {
        Arc::new(Self::made((store, true), letters, keyring, limits, metrics, watched))
    }

    /// No command begins any more, and those that are carried out stop after their step.
    pub fn stop_commands(&self) {
        self.jobs.stop();
    }

    /// Waits until every command has stopped, but not longer than this; what was done is in the record.
    pub async fn commands_ended(&self, within: Duration) {
        self.jobs.ended(within).await;
    }

    /// How long a request waits for a command before it says that it goes on.
    pub(super) fn patience(&self) -> Duration {
        self.limits.request_timeout * 3 / 4
    }

    fn made(
        (store, is_table): (Arc<dyn Backend>, bool),
        letters: Letters,
        keyring: Arc<dyn Keyring>,
        limits: Limits,
        metrics: Metrics,
        watched: Watched,
    ) -> Self {
        let bodies = Budget::new(limits.json_bytes_max());
        let (keys, prover, readiness) = (KnownKeys::default(), Prover::default(), Readiness::default());
        let (jobs, unauthorized) = (Jobs::default(), Rarely::default());
        Self {
            store,
            is_table,
            keyring,
            limits,
            keys,
            unauthorized,
            prover,
            readiness,
            watched,
            letters,
            jobs,
            bodies,
            metrics,
        }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("limits", &self.limits).finish_non_exhaustive()
    }
}
