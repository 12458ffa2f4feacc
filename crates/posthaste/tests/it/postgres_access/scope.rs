//! A database of a test's own on the server that all tests share, and what tests do there beside the store.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste::schema::Backend;
use tokio_postgres::{Client, NoTls};

/// Says on the real stderr that this trial was skipped: the harness keeps what a passing test prints to itself.
pub(crate) fn skip(trial: &str, why: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!is_ci, "{why}; with CI=true that is a failure");
    writeln!(std::io::stderr(), "skipped: {trial}: {why}").expect("stderr is open");
}

/// A session that ends with its client.
#[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// A database, gone with [`Scope::end`].
pub(crate) struct Scope {
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Scope {
    /// An empty database; `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn new(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        Some(Self::on(server.to_str().unwrap()).await)
    }

    /// An empty database on this server.
    pub(crate) async fn on(server: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("access_{}_{count}", std::process::id());
        let maker = connect(server).await;
        maker.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
        maker.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        Self { server: server.to_owned(), name, url }
    }

    /// The database's address for another user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        let host = self.url.split_once('@').unwrap().1;
        format!("postgres://{user}@{host}")
    }

    /// A session of the server's superuser in the database.
    pub(crate) async fn session(&self) -> Client {
        connect(&self.url).await
    }

    pub(crate) async fn store(&self) -> Arc<dyn Backend> {
        posthaste::store::open(&self.url).await.unwrap()
    }

    /// With the tables made.
    pub(crate) async fn migrated(self) -> Self {
        self.store().await.migrate().await.unwrap();
        self
    }

    pub(crate) async fn end(self) {
        let maker = connect(&self.server).await;
        maker.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await.unwrap();
    }
}
