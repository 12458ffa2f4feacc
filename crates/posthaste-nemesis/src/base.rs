//! Which database is under test, and a connection to it that asks and hears text, so that most of what is asked is written once.

use std::time::Duration;

use clap::ValueEnum;
use posthaste_testservers::Kind;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::Result;

/// Whoever waits longer for a lock gives up: its owner may be frozen.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// What the producers' connections are called: by application on Postgres, by user on MariaDB.
pub(crate) const PRODUCERS: &str = "producer";

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Base {
    Postgres,
    Mariadb,
}

impl Base {
    /// That of a URL.
    pub(crate) fn of(url: &str) -> Self {
        if url.starts_with("mysql:") { Self::Mariadb } else { Self::Postgres }
    }

    /// The server that has it.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Postgres => Kind::Postgres,
            Self::Mariadb => Kind::Mariadb,
        }
    }

    /// The URL of the database behind this address.
    pub(crate) fn at(self, address: impl std::fmt::Display, is_producer: bool) -> String {
        match self {
            Self::Postgres => format!("postgres://postgres@{address}/postgres"),
            Self::Mariadb => {
                let user = if is_producer { PRODUCERS } else { "posthaste" };
                format!("mysql://{user}@{address}/posthaste")
            }
        }
    }

    /// The numbers from 0 on, so many, as `g`.
    pub(crate) fn series(self, count: u32) -> String {
        let last = count.saturating_sub(1);
        match self {
            Self::Postgres => format!("generate_series(0, {last}) AS g"),
            Self::Mariadb => format!("(SELECT seq AS g FROM seq_0_to_{last}) AS numbers"),
        }
    }

    /// A number as a payload.
    pub(crate) fn payload(self, number: &str) -> String {
        match self {
            Self::Postgres => format!("({number})::text::bytea"),
            Self::Mariadb => format!("CAST({number} AS CHAR)"),
        }
    }
}

/// A connection.
pub(crate) enum Wire {
    Postgres { client: Client, _tasks: JoinSet<()> },
    Mariadb(Mutex<MySqlConnection>),
}

impl Wire {
    /// Connects; texts may quote names as the standard says and join text by `||`.
    pub(crate) async fn connect(url: &str, is_producer: bool) -> Result<Self> {
        if Base::of(url) == Base::Postgres {
            let mut config: tokio_postgres::Config = url.parse()?;
            if is_producer {
                config.application_name(PRODUCERS);
            }
            let (client, connection) = config.connect(NoTls).await?;
            let mut tasks = JoinSet::new();
            tasks.spawn(async move { drop(connection.await) });
            return Ok(Self::Postgres { client, _tasks: tasks });
        }
        let how: MySqlConnectOptions = url.parse()?;
        let connection = how.ssl_mode(MySqlSslMode::Disabled).connect().await?;
        let wire = Self::Mariadb(Mutex::new(connection));
        wire.say(&format!(
            "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES', time_zone = '+00:00', \
             innodb_lock_wait_timeout = {}",
            LOCK_TIMEOUT.as_secs()
        ))
        .await?;
        Ok(wire)
    }

    pub(crate) fn base(&self) -> Base {
        match self {
            Self::Postgres { .. } => Base::Postgres,
            Self::Mariadb(_) => Base::Mariadb,
        }
    }

    /// For what only Postgres can.
    pub(crate) fn postgres(&self) -> Result<&Client> {
        match self {
            Self::Postgres { client, .. } => Ok(client),
            Self::Mariadb(_) => Err("only Postgres can do this".into()),
        }
    }

    /// Runs statements that answer nothing.
    pub(crate) async fn say(&self, sql: &str) -> Result<()> {
        match self {
            Self::Postgres { client, .. } => client.batch_execute(sql).await?,
            Self::Mariadb(connection) => {
                let mut connection = connection.lock().await;
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    /// The rows of a query, each value as text.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        match self {
            Self::Postgres { client, .. } => {
                let answer = client.simple_query(sql).await?;
                let rows = answer.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => {
                        Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
                    }
                    _ => None,
                });
                Ok(rows.collect())
            }
            Self::Mariadb(connection) => {
                let mut connection = connection.lock().await;
                let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut *connection).await?;
                let texts =
                    rows.iter().map(|row| (0..row.len()).map(|at| Ok(row.try_get_unchecked(at)?)).collect());
                texts.collect()
            }
        }
    }

    /// The one number that a query answers.
    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        let rows = self.rows(sql).await?;
        let value = rows.into_iter().flatten().next().flatten();
        Ok(value.ok_or("a number was asked for, and there is none")?.parse()?)
    }
}
