//! What a store can be told when it is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::lane::LaneName;
use posthaste_core::limits::PAYLOAD_BYTES_MAX;
use posthaste_core::prefix::TablePrefix;
use posthaste_core::signal::Signal;
use posthaste_core::table::Profile;
use posthaste_core::time::{Clock, SystemClock};

/// How a store is opened; begin with [`StoreOptions::default`] and change what is wanted.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// What the names of the tables begin with.
    pub prefix: TablePrefix,
    /// Tells the time for leases and due dates of an embedded store.
    pub clock: Arc<dyn Clock>,
    /// Rings after every commit; share it with an outbox that publishes in this process.
    pub signal: Signal,
    /// Whether a file that does not exist is made. `?mode=` in the URL has the last word.
    pub create: bool,
    /// What a commit of an embedded store waits for.
    pub synchronous: Synchronous,
    /// The largest payload that [`publish`](posthaste_core::publisher::Publisher::publish) takes.
    pub payload_bytes_max: usize,
    /// How long to wait for another process that holds the file's write lock.
    pub busy_timeout: Duration,
    /// The PEM file of the CAs whose certificates a server may have. `None`: those of the system. `sslrootcert=` in the
    /// URL has the last word.
    pub tls_ca: Option<PathBuf>,
    /// How long a statement may take on a server. Tables may be changed for longer.
    pub statement_timeout: Duration,
    /// How long a statement waits for a lock that somebody else holds on a server.
    pub lock_timeout: Duration,
    /// After so long a server ends a transaction in which nothing happens: of a process that is stopped, or cut off.
    pub idle_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            prefix: TablePrefix::default(),
            clock: Arc::new(SystemClock),
            signal: Signal::new(),
            create: true,
            synchronous: Synchronous::default(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            busy_timeout: Duration::from_secs(5),
            tls_ca: None,
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(5),
        }
    }
}

/// What a commit of an embedded store waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// The disk: what was answered survives a loss of power.
    #[default]
    Full,
    /// The operating system: what was answered survives the end of the process; a loss of power may take back the last
    /// moments, but never breaks the file.
    Normal,
}

/// How a table is relayed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableOptions {
    /// Which table, and which of its columns is what.
    pub profile: Profile,
    /// After so many attempts a row whose lease ended without an answer is dead. Failures are counted by the lane's policy.
    pub attempts_max: u32,
    /// How many leases that have ended are taken back by one statement.
    pub sweep_rows: u32,
    /// By which name operators see the table's one lane as long as this process does not drive it.
    pub lane: LaneName,
}

impl TableOptions {
    /// This table, with 25 attempts and the lane `main`.
    pub fn new(profile: Profile) -> Self {
        let lane = "main".parse().expect("it is a name");
        Self { profile, attempts_max: 25, sweep_rows: 1_000, lane }
    }
}
