//! The connections.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) use deadpool_postgres::Transaction;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime,
};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use posthaste_core::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Config, IsolationLevel, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{explain, no_connection};
use super::tls;
use super::watch::Watch;
use crate::store::StoreOptions;
use crate::store::wishes::Wishes;

/// Claims, settles and publishes of a process share these.
pub(super) const CONNECTIONS_MAX: usize = 16;
/// How long to wait for a connection: a new one, or one of ours that is in use.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// After so long without an answer to what was sent, a connection counts as cut.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A connection that was taken longer ago than this is asked for a sign of life before it is used again: whoever took it may
/// have given up waiting for an answer, and the server may be gone without a word. Busy ones are not asked.
const ASK_AFTER: Duration = Duration::from_millis(250);
/// One that does not answer within this is closed, and the next one is taken.
pub(super) const ASK_WITHIN: Duration = Duration::from_secs(1);

/// By how much the server's own limits come before ours: it says better what happened.
const SERVER_FIRST: Duration = Duration::from_secs(1);
/// How long to wait for the answer to a request to end a statement.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// The connections of a store, made when they are needed.
pub(super) struct Connections {
    pool: Pool,
    manners: Arc<Manners>,
}

/// How every connection is used.
struct Manners {
    encryption: Option<MakeRustlsConnect>,
    /// What a transaction says first, and one that changes tables.
    limits: String,
    limits_migrating: String,
    idle_timeout: Duration,
    /// How long to wait for any answer of the server.
    answer_within: Duration,
    /// Set while unfinished work is dropped: its connections are closed instead of being used again.
    is_dropping_stuck: AtomicBool,
    /// Ends what these connections do.
    to_cancel: Mutex<Vec<CancelToken>>,
}

/// A limit as the server takes it; zero would mean no limit at all.
fn millis(span: Duration) -> u128 {
    span.as_millis().clamp(1, i32::MAX as u128)
}

impl Manners {
    fn cancels(&self) -> MutexGuard<'_, Vec<CancelToken>> {
        self.to_cancel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(options: &StoreOptions, encryption: Option<MakeRustlsConnect>) -> Self {
        let (statement, lock) = (millis(options.statement_timeout), millis(options.lock_timeout));
        let idle =
            format!("SET LOCAL idle_in_transaction_session_timeout = {}", millis(options.idle_timeout));
        Self {
            encryption,
            limits: format!(
                "SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; {idle}"
            ),
            // To make an index may take hours; to wait for a lock holds up every producer that comes later.
            limits_migrating: format!(
                "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {lock}; {idle}"
            ),
            idle_timeout: options.idle_timeout,
            answer_within: options.statement_timeout + SERVER_FIRST,
            is_dropping_stuck: AtomicBool::new(false),
            to_cancel: Mutex::default(),
        }
    }

    /// Asks the server to end what a connection does.
    async fn cancel(&self, token: CancelToken) {
        let asked = async {
            match &self.encryption {
                Some(encryption) => token.cancel_query(encryption.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        match timeout(CANCEL_WITHIN, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a statement could not be cancelled"),
            Err(_) => tracing::debug!("the server did not answer a request to cancel a statement"),
        }
    }
}

impl Connections {
    /// Connections to the database at this URL.
    pub(super) fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        let (url, wishes) = Wishes::split(url);
        // What is wrong with it may be the password, so the text is not shown.
        let parsed = url.parse().ok().filter(|config: &Config| !config.get_ports().contains(&0));
        let mut config = parsed.ok_or_else(|| {
            Error::config(
                "the store URL is not understood; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with a port from 1 to 65535",
            )
        })?;
        let encryption = tls::connector(wishes, options.tls_ca.as_deref(), &config)?;
        config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("posthaste");
        }
        Ok(Self {
            pool: pool(config, encryption.clone())?,
            manners: Arc::new(Manners::new(options, encryption)),
        })
    }

    /// A connection that goes back when it is dropped.
    pub(super) async fn get(&self) -> Result<Connection> {
        self.cancel_dropped().await;
        let object = self.pool.get().await.map_err(no_connection)?;
        let is_new = Object::metrics(&object).recycle_count == 0;
        let manners = Arc::clone(&self.manners);
        Ok(Connection { object: Some(object), manners, is_new, is_looking: false })
    }

    /// Asks the server to end what nobody waits for any more. Whether it helps or not, these connections are not used again.
    async fn cancel_dropped(&self) {
        let tokens = std::mem::take(&mut *self.manners.cancels());
        if !tokens.is_empty() {
            let cancels = tokens.into_iter().map(|token| self.manners.cancel(token));
            drop(join_all(cancels).await);
        }
    }

    /// Does this, unless the server leaves one of its questions without any answer for too long.
    ///
    /// Whatever is given up is also ended on the server, whether it took too long or the caller dropped it: a
    /// statement that waits for a lock would keep its server process for as long as the lock is held, and
    /// each new try would start another one.
    pub(super) async fn watched<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.manners.answer_within;
        let mut unfinished = Unfinished { work: Some(Box::pin(work)), manners: &self.manners };
        let work = unfinished.work.as_mut().expect("it was just put there");
        if let Some(answer) = Watch::new(work, limit).await {
            unfinished.work = None;
            return answer;
        }
        drop(unfinished);
        self.cancel_dropped().await;
        Err(Error::unavailable(format!(
            "the database did not answer within {limit:?} (store.statement_timeout); look at pg_stat_activity"
        )))
    }
}

/// Work that closes its connections when it is dropped before its end.
struct Unfinished<'a, F> {
    work: Option<Pin<Box<F>>>,
    manners: &'a Manners,
}

impl<F> Drop for Unfinished<'_, F> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // A connection of another task that goes back at this very moment is closed too, which does no harm.
        self.manners.is_dropping_stuck.store(true, Ordering::SeqCst);
        drop(work);
        self.manners.is_dropping_stuck.store(false, Ordering::SeqCst);
    }
}

fn pool(mut config: Config, encryption: Option<MakeRustlsConnect>) -> Result<Pool> {
    // A connection whose user was dropped half-way goes back with a ROLLBACK on its way, which comes before whatever the
    // next user sends: to ask it first would cost every use a round trip.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    // The driver's own "prefer" falls back to plain text; here it is one or the other.
    let manager = match encryption {
        Some(encryption) => {
            config.ssl_mode(SslMode::Require);
            Manager::from_config(config, encryption, recycling)
        }
        None => {
            config.ssl_mode(SslMode::Disable);
            Manager::from_config(config, NoTls, recycling)
        }
    };
    Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        // The one that was used last: its session has its plans and caches at hand.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_WITHIN))
        .create_timeout(Some(CONNECT_WITHIN))
        .recycle_timeout(Some(CONNECT_WITHIN))
        .pre_recycle(ask_if_rested())
        .build()
        .map_err(|error| Error::config("no connections can be made").because(error))
}

fn ask_if_rested() -> Hook {
    Hook::async_fn(|client, metrics| {
        Box::pin(async move {
            if metrics.last_used() < ASK_AFTER {
                return Ok(());
            }
            match timeout(ASK_WITHIN, client.batch_execute("")).await {
                Ok(answer) => answer.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("no sign of life")),
            }
        })
    })
}

/// A connection in use.
///
/// Every transaction brings its own limits, in its first message: behind a pooler in transaction mode a session's
/// settings would stay with a stranger.
pub(in crate::store) struct Connection {
    object: Option<Object>,
    manners: Arc<Manners>,
    /// It was opened for this use.
    is_new: bool,
    /// What is asked on it is of no use to anybody but whoever waits for the answer.
    is_looking: bool,
}

impl Connection {
    /// Whether it was opened for this use, so that nobody has looked at what it leads to.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Asks the server to end what it does for this connection, which then answers what comes next.
    pub(super) async fn cancel(&self) {
        self.manners.cancel(self.cancel_token()).await;
    }

    /// From here on, whoever drops it does not wait for the answer any more: it is closed, and the server is asked to end what it does
    /// as soon as somebody takes a connection.
    pub(super) fn begin_look(&mut self) {
        self.is_looking = true;
    }

    /// The answer is there.
    pub(super) fn end_look(&mut self) {
        self.is_looking = false;
    }

    /// Begins a transaction that only reads, without waiting for the server's answer: its limits then hold
    /// for what is read, and that costs no round trip. Until [`end_reading`](Self::end_reading), dropping the
    /// connection closes it.
    pub(super) fn begin_reading(&mut self) {
        self.begin_look();
        let begin = format!("BEGIN READ ONLY; {}", self.manners.limits);
        drop(self.batch_execute(&begin).now_or_never());
    }

    /// Ends that transaction, and waits for the answer.
    ///
    /// Outside of a transaction a connection has at most one unanswered request. When a client closes between
    /// two answers, PgBouncer 1.18 gives its connection to the server to another client, which then reads the
    /// answers to the wrong questions.
    pub(super) async fn end_reading(&mut self) -> Result<()> {
        self.batch_execute("COMMIT").await.map_err(explain)?;
        self.end_look();
        Ok(())
    }
}

const THERE: &str = "a connection is there until it is dropped";

impl Deref for Connection {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object.as_ref().expect(THERE)
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Object {
        self.object.as_mut().expect(THERE)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if (self.is_looking || self.manners.is_dropping_stuck.load(Ordering::SeqCst))
            && let Some(object) = self.object.take()
        {
            self.manners.cancels().push(object.cancel_token());
            // Closed instead of being given to the next user; its place in the pool is free.
            drop(Object::take(object));
        }
    }
}

/// Begins a transaction in which each statement sees what has committed before it, whatever the role's default is.
pub(super) async fn begin(client: &mut Connection) -> Result<Transaction<'_>> {
    let manners = Arc::clone(&client.manners);
    start(client, IsolationLevel::ReadCommitted, false, &manners.limits).await
}

/// Begins a transaction that locks the row of a lane with this lease. A relay that stands still in its middle, or whose way
/// to the server is gone, would keep the lane from everybody else; so the server ends it after a lease without a word.
pub(super) async fn begin_on_lane(client: &mut Connection, lease: Duration) -> Result<Transaction<'_>> {
    let manners = Arc::clone(&client.manners);
    let idle = millis(lease.min(manners.idle_timeout));
    let limits = format!("{}; SET LOCAL idle_in_transaction_session_timeout = {idle}", manners.limits);
    start(client, IsolationLevel::ReadCommitted, false, &limits).await
}

/// Begins a transaction that has one snapshot and changes nothing.
pub(super) async fn begin_looking(client: &mut Connection) -> Result<Transaction<'_>> {
    let manners = Arc::clone(&client.manners);
    start(client, IsolationLevel::RepeatableRead, true, &manners.limits).await
}

/// Begins a transaction that changes tables, which may take its time.
pub(super) async fn begin_migrating(client: &mut Connection) -> Result<Transaction<'_>> {
    let manners = Arc::clone(&client.manners);
    start(client, IsolationLevel::ReadCommitted, false, &manners.limits_migrating).await
}

async fn start<'a>(
    client: &'a mut Connection,
    level: IsolationLevel,
    read_only: bool,
    limits: &str,
) -> Result<Transaction<'a>> {
    let mut builder = client.build_transaction().isolation_level(level);
    if read_only {
        // The other way round nothing is said: whoever made the database read-only meant it.
        builder = builder.read_only(true);
    }
    let tx = builder.start().await.map_err(explain)?;
    // Sent by the first poll and not waited for: it costs no round trip, and comes before whatever is sent next. Should the
    // server refuse it, that next statement fails.
    drop(tx.batch_execute(limits).now_or_never());
    Ok(tx)
}

/// Commits.
pub(super) async fn commit(tx: Transaction<'_>) -> Result<()> {
    tx.commit().await.map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_showing_it() {
        for (url, says) in [
            ("postgres://u:secret@h:port/d", "not understood"),
            ("postgres://u:secret@h:0/d", "from 1 to 65535"),
            ("postgres://u:secret@h/d?sslmode=prefer", "sslmode=require"),
            ("postgres://u:secret@h/d?sslmode=disable&no_such=secret", "not understood"),
        ] {
            let error = Connections::open(url, &StoreOptions::default()).map(drop).unwrap_err();
            assert_eq!(error.kind(), posthaste_core::ErrorKind::Config);
            assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        }
        assert!(Connections::open("postgres://u@localhost/d", &StoreOptions::default()).is_ok());
    }
}
