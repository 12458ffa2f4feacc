//! The connections.
//!
//! Not the driver's own pool: that hands on connections whose user was dropped half-way, and may wait for ever for one whose
//! server is gone (transact-rs/sqlx#4385, #4349). Here a connection goes back only if everything that was asked on it was answered
//! and no transaction is open; any other is closed, upon which the server rolls back.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::envelope::fresh_id;
use posthaste_core::table::MysqlText;
use posthaste_core::time::Clock;
use posthaste_core::{Error, Result};
use posthaste_sql::Value;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, MySql};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::error::{Db, explain, silence};
use super::get;
use crate::store::StoreOptions;
use crate::store::wishes::Wishes;

/// Claims, settles and publishes of a process share these.
const CONNECTIONS_MAX: usize = 16;
/// How long to wait for a connection: a new one, or one of ours that is in use.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A connection that rested for longer than this is asked for a sign of life before it is used again.
const ASK_AFTER: Duration = Duration::from_millis(250);
/// One that does not answer within this is closed, and the next one is taken.
const ASK_WITHIN: Duration = Duration::from_secs(1);
/// By how much the server's own limits come before ours: it says better what happened.
const SERVER_FIRST: Duration = Duration::from_secs(1);

/// Names in double quotes as everywhere else, and nothing cut or changed that does not fit.
const SQL_MODE: &str = "ANSI_QUOTES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

/// The connections of a store, made when they are needed.
pub(super) struct Connections {
    how: MySqlConnectOptions,
    permits: Arc<Semaphore>,
    shared: Arc<Shared>,
}

struct Shared {
    resting: Mutex<Vec<Resting>>,
    limits: Limits,
    /// Tells the server the time before each statement: of laws with a clock of their own.
    clock: Option<Arc<dyn Clock>>,
}

struct Limits {
    statement: Duration,
    lock: Duration,
    idle: Duration,
    /// How long to wait for any answer of the server.
    answer: Duration,
}

struct Resting {
    raw: MySqlConnection,
    name: String,
    since: Instant,
}

impl Shared {
    fn resting(&self) -> MutexGuard<'_, Vec<Resting>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// Connections to the database at this URL.
    pub(super) fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        let limits = Limits {
            statement: options.statement_timeout,
            lock: options.lock_timeout,
            idle: options.idle_timeout,
            answer: options.statement_timeout + SERVER_FIRST,
        };
        let clock = (!options.clock.is_host()).then(|| Arc::clone(&options.clock));
        Ok(Self {
            how: address(url, options.tls_ca.as_deref())?,
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            shared: Arc::new(Shared { resting: Mutex::default(), limits, clock }),
        })
    }

    /// A connection that goes back when it is dropped.
    pub(super) async fn get(&self) -> Result<Connection> {
        let permit = timeout(CONNECT_WITHIN, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit
            .map_err(|_| Error::unavailable("no connection to the database came free in time"))?
            .map_err(|_| Error::unavailable("the store is closed"))?;
        loop {
            let Some(mut rested) = self.shared.resting().pop() else { break };
            let is_fresh = rested.since.elapsed() < ASK_AFTER;
            if is_fresh || matches!(timeout(ASK_WITHIN, rested.raw.ping()).await, Ok(Ok(()))) {
                return Ok(self.connection(rested.raw, rested.name, permit));
            }
        }
        let made = timeout(CONNECT_WITHIN, self.connect()).await;
        let (raw, name) = made
            .map_err(|_| {
                Error::unavailable(format!("no connection to the database within {CONNECT_WITHIN:?}"))
            })?
            .map_err(explain)?;
        Ok(self.connection(raw, name, permit))
    }

    fn connection(&self, raw: MySqlConnection, name: String, permit: OwnedSemaphorePermit) -> Connection {
        Connection {
            raw: Some(raw),
            name,
            is_asking: false,
            is_in_transaction: false,
            is_committing: false,
            shared: Arc::clone(&self.shared),
            _permit: permit,
        }
    }

    async fn connect(&self) -> Db<(MySqlConnection, String)> {
        let mut raw = self.how.connect().await?;
        // A lock with a name of its own tells it from others for as long as it lives. The server's number does not: after a
        // restart somebody else has it.
        let name = format!("posthaste {}", fresh_id());
        let row = sqlx::query("SELECT VERSION(), GET_LOCK(?, 0)").bind(&name).fetch_one(&mut raw).await?;
        let version: String = get(&row, 0)?;
        let limits = &self.shared.limits;
        let lock = limits.lock.as_secs().max(1);
        let own = if version.contains("MariaDB") {
            format!(
                "max_statement_time = {:.3}, idle_transaction_timeout = {}",
                limits.statement.as_secs_f64().max(0.001),
                limits.idle.as_secs().max(1)
            )
        } else {
            format!("max_execution_time = {}", limits.statement.as_millis().max(1))
        };
        let hello = format!(
            "SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = {lock}, {own}; \
             SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        );
        sqlx::raw_sql(AssertSqlSafe(hello)).execute(&mut raw).await?;
        Ok((raw, name))
    }
}

/// Reads the URL.
fn address(url: &str, ca: Option<&Path>) -> Result<MySqlConnectOptions> {
    // What is wrong with it may be the password, so the text is not shown.
    let wrong = || {
        Error::config(
            "the store URL is not understood; write mysql://USER:PASSWORD@HOST:PORT/DATABASE, with a port from 1 to 65535",
        )
    };
    let (rest, mut wishes) = Wishes::split(url);
    let query = rest.rsplit_once('@').map_or(rest.as_str(), |(_, host)| host).split_once('?');
    let is_known = |setting: &str| setting.starts_with("socket=");
    if query.is_some_and(|(_, query)| !query.split('&').all(is_known)) {
        return Err(Error::config(
            "the store URL has a setting that is not known; there are sslmode, sslrootcert, sslcert, sslkey and socket",
        ));
    }
    let how = rest.parse().ok().filter(|how: &MySqlConnectOptions| how.get_port() != 0).ok_or_else(wrong)?;
    if how.get_database().is_none() {
        return Err(Error::config(
            "the store URL names no database; write mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        ));
    }
    if wishes.ca.is_none() {
        wishes.ca = ca.map(Path::to_owned);
    }
    let how = how.pipes_as_concat(false).no_engine_substitution(false).timezone(None).charset("utf8mb4");
    encrypted(how.disable_statement_logging(), wishes)
}

fn encrypted(how: MySqlConnectOptions, wishes: Wishes) -> Result<MySqlConnectOptions> {
    let host = how.get_host();
    let is_local = how.get_socket().is_some()
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if !wishes.is_on(is_local)? {
        return Ok(how.ssl_mode(MySqlSslMode::Disabled));
    }
    let mut how = how.ssl_mode(MySqlSslMode::VerifyIdentity);
    let readable = |file: &Path| {
        std::fs::File::open(file)
            .map(drop)
            .map_err(|error| Error::config(format!("{} cannot be read", file.display())).because(error))
    };
    if let Some(ca) = wishes.ca.filter(|ca| ca != Path::new("system")) {
        readable(&ca)?;
        how = how.ssl_ca(ca);
    }
    match (wishes.certificate, wishes.key) {
        (None, None) => Ok(how),
        (Some(certificate), Some(key)) => {
            readable(&certificate)?;
            readable(&key)?;
            Ok(how.ssl_client_cert(certificate).ssl_client_key(key))
        }
        _ => Err(Error::config("a client certificate needs both sslcert and sslkey in the URL")),
    }
}

/// A connection in use.
pub(in crate::store) struct Connection {
    raw: Option<MySqlConnection>,
    name: String,
    /// Something was asked and not answered yet, or the answer was broken.
    is_asking: bool,
    is_in_transaction: bool,
    is_committing: bool,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// The name of the lock that it holds while it lives.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it can be asked something.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_asking && self.raw.is_some()
    }

    /// Runs a statement and answers how many rows it found.
    pub(super) async fn execute(&mut self, text: &MysqlText, values: &[Value]) -> Db<u64> {
        self.tell_time().await?;
        let answer = {
            let (within, raw) = self.ask()?;
            answered(within, bound(text, values).execute(raw)).await
        };
        self.heard(answer).map(|done| done.rows_affected())
    }

    /// Runs a statement and answers rows.
    pub(super) async fn query(&mut self, text: &MysqlText, values: &[Value]) -> Db<Vec<MySqlRow>> {
        self.tell_time().await?;
        let answer = {
            let (within, raw) = self.ask()?;
            answered(within, bound(text, values).fetch_all(raw)).await
        };
        self.heard(answer)
    }

    /// Runs a statement that has no values.
    pub(super) async fn say(&mut self, text: &str) -> Db<()> {
        let answer = {
            let (within, raw) = self.ask()?;
            answered(within, sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(raw)).await
        };
        self.heard(answer).map(drop)
    }

    pub(super) async fn begin(&mut self) -> Db<()> {
        self.is_in_transaction = true;
        self.say("START TRANSACTION").await
    }

    /// Asks something and begins, by one message.
    pub(super) async fn begin_after(&mut self, question: &str) -> Db<Vec<MySqlRow>> {
        self.is_in_transaction = true;
        let text = format!("{question}; START TRANSACTION");
        let answer = {
            let (within, raw) = self.ask()?;
            answered(within, sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(raw)).await
        };
        self.heard(answer)
    }

    pub(super) async fn commit(&mut self) -> Db<()> {
        self.is_committing = true;
        self.say("COMMIT").await?;
        self.is_committing = false;
        self.is_in_transaction = false;
        Ok(())
    }

    /// Whether it was cut when nothing can have been committed yet.
    pub(super) fn is_rolled_back(&self) -> bool {
        !self.is_committing
    }

    /// Ends the transaction this way and says something more, by one message.
    pub(super) async fn end_with(&mut self, end: &str, last: &str) -> Db<()> {
        self.say(&format!("{end}; {last}")).await?;
        self.is_in_transaction = false;
        Ok(())
    }

    /// Rolls back what was begun, if anything.
    pub(super) async fn undo(&mut self) {
        if self.is_in_transaction && self.is_usable() && self.say("ROLLBACK").await.is_ok() {
            self.is_in_transaction = false;
        }
    }

    async fn tell_time(&mut self) -> Db<()> {
        let Some(clock) = self.shared.clock.clone() else { return Ok(()) };
        let now = clock.now().as_micros();
        self.say(&format!("SET timestamp = {}.{:06}", now / 1_000_000, now % 1_000_000)).await
    }

    fn ask(&mut self) -> Db<(Duration, &mut MySqlConnection)> {
        let within = self.shared.limits.answer;
        if self.is_asking {
            return Err(silence(within));
        }
        self.is_asking = true;
        match &mut self.raw {
            Some(raw) => Ok((within, raw)),
            None => Err(silence(within)),
        }
    }

    fn heard<T>(&mut self, answer: Db<T>) -> Db<T> {
        // Whatever the server itself says leaves the connection as it is.
        self.is_asking = answer.as_ref().is_err_and(|error| error.as_database_error().is_none());
        answer
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take().filter(|_| !self.is_asking && !self.is_in_transaction) {
            let name = std::mem::take(&mut self.name);
            self.shared.resting().push(Resting { raw, name, since: Instant::now() });
        }
    }
}

async fn answered<T>(within: Duration, asking: impl Future<Output = Db<T>>) -> Db<T> {
    timeout(within, asking).await.unwrap_or_else(|_| Err(silence(within)))
}

fn bound(text: &MysqlText, values: &[Value]) -> Query<'static, MySql, MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(text.text.clone()));
    for number in &text.order {
        query = match values[*number].clone() {
            Value::Int(int) => query.bind(int),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
            _ => query.bind(None::<i64>),
        };
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_showing_it() {
        for (url, says) in [
            ("mysql://u:secret@h:port/d", "not understood"),
            ("mysql://u:secret@h:0/d", "from 1 to 65535"),
            ("mysql://u:secret@h/d?sslmode=prefer", "sslmode=require"),
            ("mysql://u:secret@h/d?sslmode=disable&no_such=secret", "not known"),
            ("mysql://u:secret@h", "names no database"),
            ("mariadb://u:secret@h/d?sslrootcert=/no/such/ca.pem", "/no/such/ca.pem cannot be read"),
        ] {
            let error = Connections::open(url, &StoreOptions::default()).map(drop).unwrap_err();
            assert_eq!(error.kind(), posthaste_core::ErrorKind::Config);
            assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn plain_text_leaves_this_machine_only_where_somebody_said_so() {
        let mode = |url: &str| format!("{:?}", address(url, None).unwrap().get_ssl_mode());
        assert_eq!(mode("mysql://u@localhost/d"), "Disabled");
        assert_eq!(mode("mysql://u@127.0.0.1:3307/d"), "Disabled");
        assert_eq!(mode("mysql://u@db.example/d?sslmode=disable"), "Disabled");
        assert_eq!(mode("mariadb://u@db.example/d"), "VerifyIdentity");
        assert_eq!(mode("mysql://u@localhost/d?sslmode=require"), "VerifyIdentity");
    }
}
