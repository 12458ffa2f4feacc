//! `[store]`: where events are kept.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste::Result;
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, Synchronous, TableOptions};
use posthaste::table::Profile;
use secrecy::{ExposeSecret, SecretString};

use super::Config;
use super::section::Section;
use super::table::TableConfig;

/// The file, beside an embedded database or in the current folder, that holds the API key of the first start.
pub const KEY_FILE: &str = "posthaste.key";

/// Where events are kept, and for how long.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Its address; may hold a password.
    pub url: SecretString,
    /// Whether the URL is configured, and not the default.
    pub is_url_set: bool,
    /// What the names of its tables begin with.
    pub prefix: TablePrefix,
    /// How long delivered events are kept.
    pub retain: Duration,
    /// Whether somebody wrote that, rather than nobody.
    pub is_retain_set: bool,
    /// How long a lane that nobody drives may hold events back.
    pub retain_max: Duration,
    /// How long it is remembered what consumers have handled.
    pub retain_inbox: Duration,
    /// What a commit of an embedded store waits for.
    pub synchronous: Synchronous,
    /// The CAs that a server's certificate may be of; `None`: the system's.
    pub tls_ca: Option<PathBuf>,
    /// How long a statement may take on a server.
    pub statement_timeout: Duration,
    /// How long a statement waits for a lock on a server.
    pub lock_timeout: Duration,
    /// After so long a server ends a transaction in which nothing happens.
    pub idle_timeout: Duration,
    /// An outbox table of somebody else, instead of a log.
    pub table: Option<TableConfig>,
}

/// What a limit on a server may be.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

impl StoreConfig {
    /// The file of an embedded store, without asking whether it is there.
    pub fn database_file(&self) -> Option<PathBuf> {
        let rest = self.url.expose_secret().strip_prefix("sqlite:")?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        let path = path.split('?').next().unwrap_or(path);
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    /// Where the API key of the first start lies: beside the database file, and in the current folder where the store is on
    /// a server.
    pub fn key_file(&self) -> Option<PathBuf> {
        if self.is_postgres() || self.is_mysql() {
            return Some(PathBuf::from(KEY_FILE));
        }
        let file = self.database_file()?;
        Some(file.parent().unwrap_or(Path::new("")).join(KEY_FILE))
    }

    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self {
            url: section.secret("url"),
            is_url_set: !section.is_default("url"),
            prefix: section.parsed("prefix"),
            retain: section.duration("retain"),
            is_retain_set: !section.is_default("retain"),
            retain_max: section.duration("retain_max"),
            retain_inbox: section.duration("retain_inbox"),
            synchronous: section
                .choice("synchronous", &[("full", Synchronous::Full), ("normal", Synchronous::Normal)]),
            tls_ca: Some(section.text("tls_ca")).filter(|file| !file.is_empty()).map(PathBuf::from),
            statement_timeout: section.duration("statement_timeout"),
            lock_timeout: section.duration("lock_timeout"),
            idle_timeout: section.duration("idle_timeout"),
            table: TableConfig::read(section),
        };
        section.within("statement_timeout", config.statement_timeout, TIMEOUTS);
        section.within("lock_timeout", config.lock_timeout, TIMEOUTS);
        section.within("idle_timeout", config.idle_timeout, TIMEOUTS);
        section.require("url", config.has_known_scheme(), || {
            "is not the address of a store that this build has; write sqlite://FILE or postgres://USER@HOST/DATABASE, or for \
             outbox tables mysql://USER@HOST/DATABASE".to_owned()
        });
        section.require("retain_max", config.retain_max >= config.retain, || {
            "is shorter than retain; a lane that nobody drives would lose what a driven one keeps".to_owned()
        });
        section.require("retain_inbox", config.retain_inbox >= config.retain, || {
            "is shorter than retain; what is kept could be delivered again and have its effect twice"
                .to_owned()
        });
        config
    }

    fn has_known_scheme(&self) -> bool {
        self.database_file().is_some() || self.is_postgres() || self.is_mysql()
    }

    /// Whether the store is an outbox table on a MariaDB or MySQL server.
    pub fn is_mysql(&self) -> bool {
        let url = self.url.expose_secret();
        url.starts_with("mysql://") || url.starts_with("mariadb://")
    }

    /// Whether the store is on a Postgres server.
    pub fn is_postgres(&self) -> bool {
        let url = self.url.expose_secret();
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }
}

/// Opens the configured store; an embedded one is made if it is not there.
///
/// # Errors
/// What the store says about its file or server.
pub async fn open(config: &Config) -> Result<Arc<dyn Backend>> {
    open_as(config, options(config)).await
}

async fn open_as(config: &Config, options: StoreOptions) -> Result<Arc<dyn Backend>> {
    let url = config.store.url.expose_secret();
    let Some(table) = &config.store.table else { return posthaste::store::open_with(url, options).await };
    let mut how = TableOptions::new(table.profile.clone());
    how.sweep_rows = table.sweep_rows;
    if let Some((name, lane)) = config.lanes.iter().next() {
        how.lane = name.clone();
        how.attempts_max = lane.retry.attempts_max();
    }
    posthaste::store::open_table(url, how, options).await
}

/// Opens the configured store, which must be there: for whoever only looks, so that a look in the wrong folder leaves
/// nothing behind.
///
/// # Errors
/// As [`open`], and for an embedded store that is not there.
pub async fn open_existing(config: &Config) -> Result<Arc<dyn Backend>> {
    let mut options = options(config);
    options.create = false;
    open_as(config, options).await
}

/// The identity of the configured store. An embedded one is not opened for it. `None` if the store has no
/// identity, or cannot be reached.
pub async fn identity(config: &Config) -> Option<String> {
    #[cfg(feature = "sqlite")]
    if let (Some(file), None) = (config.store.database_file(), &config.store.table) {
        return posthaste::store::sqlite::identity(&file, &config.store.prefix);
    }
    open_existing(config).await.ok()?.identity().await.ok()?
}

/// Opens the configured store to be looked at: neither its file nor its tables are made or changed.
///
/// # Errors
/// As [`open_existing`].
pub async fn open_to_look(config: &Config) -> Result<Arc<dyn Backend>> {
    match (config.store.database_file(), &config.store.table) {
        (Some(file), None) => {
            let url = format!("sqlite://{}?mode=ro", file.display());
            posthaste::store::open_with(&url, options(config)).await
        }
        // A table of somebody else is never changed, and a server's only by `migrate up`.
        _ => open_existing(config).await,
    }
}

/// The SQL that an outbox table of this profile needs in the configured store.
///
/// # Errors
/// As [`open_existing`].
pub async fn table_ddl(config: &Config, profile: Profile) -> Result<String> {
    let mut options = options(config);
    options.create = false;
    posthaste::store::table_ddl(config.store.url.expose_secret(), TableOptions::new(profile), options).await
}

fn options(config: &Config) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.prefix = config.store.prefix.clone();
    options.synchronous = config.store.synchronous;
    options.tls_ca = config.store.tls_ca.clone();
    options.statement_timeout = config.store.statement_timeout;
    options.lock_timeout = config.store.lock_timeout;
    options.idle_timeout = config.store.idle_timeout;
    options.payload_bytes_max = config.server.payload_max;
    options
}
