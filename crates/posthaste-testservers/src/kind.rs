//! The servers there are, and where this machine keeps their programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::process::Signal;

use crate::{Error, Result, kafka, nats};

/// A server that tests can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// PgBouncer in transaction mode, in front of the private Postgres.
    Pgbouncer,
    /// MariaDB.
    Mariadb,
    /// RabbitMQ.
    Rabbitmq,
    /// Redis that syncs every write to its append-only file.
    Redis,
    /// NATS with JetStream.
    Nats,
    /// Kafka that syncs every message, by way of Maven.
    Kafka,
}

impl Kind {
    /// All of them, each after those it needs.
    pub const ALL: [Self; 7] = [
        Self::Postgres,
        Self::Pgbouncer,
        Self::Mariadb,
        Self::Rabbitmq,
        Self::Redis,
        Self::Nats,
        Self::Kafka,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Pgbouncer => "pgbouncer",
            Self::Mariadb => "mariadb",
            Self::Rabbitmq => "rabbitmq",
            Self::Redis => "redis",
            Self::Nats => "nats",
            Self::Kafka => "kafka",
        }
    }

    /// The environment variable in which tests look for its URL.
    pub fn variable(self) -> String {
        format!("POSTHASTE_TEST_{}", self.name().to_uppercase())
    }

    /// True if this machine has it.
    pub fn is_installed(self) -> bool {
        self.program().is_some()
    }

    /// The server that must be started with it.
    pub(crate) fn needs(self) -> Option<Self> {
        (self == Self::Pgbouncer).then_some(Self::Postgres)
    }

    /// Whether a machine may be without it also where every other server is demanded.
    pub fn may_lack(self) -> bool {
        self == Self::Kafka
    }

    /// The Debian package that brings it, if one does.
    pub(crate) fn package(self) -> Option<&'static str> {
        Some(match self {
            Self::Postgres => "postgresql",
            Self::Pgbouncer => "pgbouncer",
            Self::Mariadb => "mariadb-server",
            Self::Rabbitmq => "rabbitmq-server",
            Self::Redis => "redis-server",
            Self::Nats => "nats-server",
            Self::Kafka => return None,
        })
    }

    /// What asks it for a clean end without waiting for its clients.
    pub(crate) fn stop_signal(self) -> Signal {
        if self == Self::Postgres { Signal::INT } else { Signal::TERM }
    }

    /// The server's program, if it is installed.
    pub(crate) fn program(self) -> Option<PathBuf> {
        match self {
            Self::Postgres => newest_postgres().or_else(|| find("postgres")?.canonicalize().ok()),
            Self::Pgbouncer => find("pgbouncer"),
            Self::Mariadb => find("mariadbd"),
            // The one in the PATH changes to another user and to a fixed folder.
            Self::Rabbitmq => {
                Some(PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server")).filter(|path| path.exists())
            }
            Self::Redis => find("redis-server"),
            Self::Nats => nats::current().or_else(|| find("nats-server")),
            Self::Kafka => kafka::program(),
        }
    }
}

/// Reads a name as [`Kind::name`] gives it.
impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::failed(format!("no server is called {name:?}; there are {names}"))
        })
    }
}

/// Debian keeps each major version in a folder of its own, outside the PATH.
fn newest_postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let numbers = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let program = |number| PathBuf::from(format!("/usr/lib/postgresql/{number}/bin/postgres"));
    numbers.filter(|number| program(*number).exists()).max().map(program)
}

/// Looks through the PATH, and where servers live even if a user's PATH does not say so.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
