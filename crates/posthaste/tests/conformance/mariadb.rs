//! Databases on the MariaDB server of the tests.

use std::sync::atomic::{AtomicU64, Ordering};

use posthaste::{Error, Result};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use super::postgres::blocking;

pub(crate) fn away(error: sqlx::Error) -> Error {
    Error::unavailable("MariaDB").because(error)
}

#[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
pub(crate) fn server() -> Option<String> {
    std::env::var("POSTHASTE_TEST_MARIADB").ok().filter(|url| !url.is_empty())
}

/// Why there is none, if so.
pub(crate) fn missing() -> Option<String> {
    server().is_none().then(|| "POSTHASTE_TEST_MARIADB is not set".to_owned())
}

pub(crate) async fn connect(url: &str) -> Result<MySqlConnection> {
    MySqlConnection::connect(url).await.map_err(away)
}

pub(crate) async fn say(on: &mut MySqlConnection, sql: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(on).await.map(drop).map_err(away)
}

/// A database that goes with it.
pub(crate) struct Scope {
    server: String,
    name: String,
}

impl Scope {
    pub(crate) async fn new(server: &str) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("law_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let make = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name} CHARACTER SET utf8mb4");
        say(&mut connect(server).await?, &make).await?;
        Ok(Self { server: server.to_owned(), name })
    }

    pub(crate) fn url(&self) -> String {
        let base = self.server.rsplit_once('/').map_or(self.server.as_str(), |(base, _)| base);
        format!("{base}/{}", self.name)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // What is left behind goes with the private server; a failure here must not hide a law's.
        let _ = blocking(async move {
            say(&mut connect(&server).await?, &format!("DROP DATABASE IF EXISTS {name}")).await
        });
    }
}
