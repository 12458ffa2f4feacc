//! A database with roles, tables and rights made by the binary itself, and one user for each of its jobs.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::cli::folder::Folder;
use crate::http_process::skip;

/// How long anything may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The users belong to the whole server: whoever comes first makes them.
const USERS: &str = "
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'program_deployer') THEN
            CREATE ROLE program_shop LOGIN; CREATE ROLE program_carrier LOGIN; CREATE ROLE program_server LOGIN;
            CREATE ROLE program_operator LOGIN; CREATE ROLE program_deployer LOGIN;
        END IF;
        GRANT posthaste_publish TO program_shop;
        GRANT posthaste_relay TO program_carrier;
        GRANT posthaste_relay, posthaste_publish TO program_server;
        GRANT posthaste_operate TO program_operator;
        GRANT posthaste_migrate TO program_deployer;
        ALTER ROLE program_deployer SET role = posthaste_migrate;
    END $$";

/// A database, gone with [`Stand::end`], and a folder.
pub(crate) struct Stand {
    server: String,
    name: String,
    pub(crate) folder: Folder,
}

impl Stand {
    /// `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn new(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        let server = server.into_string().unwrap();
        let name = format!("program_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let shared = connect(&server).await;
        shared.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let stand = Self { server, name, folder: Folder::new() };
        // Roles belong to the server, which tests share; a lock belongs to a database, so it is taken in the shared one.
        shared.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7070)").await.unwrap();
        let admin = stand.session("postgres").await;
        let roles = stand.folder.ok(&["migrate", "print", "--roles", "--store", &stand.url("postgres")]);
        admin.batch_execute(roles.text()).await.unwrap();
        admin.batch_execute(USERS).await.unwrap();
        stand.folder.ok(&["migrate", "up", "--store", &stand.url("program_deployer")]);
        admin.batch_execute(roles.text()).await.unwrap();
        shared.batch_execute("COMMIT").await.unwrap();
        Some(stand)
    }

    /// The database's address for this user.
    pub(crate) fn url(&self, user: &str) -> String {
        let host = self.server.split_once('@').unwrap().1.split_once('/').unwrap().0;
        format!("postgres://{user}@{host}/{}", self.name)
    }

    pub(crate) async fn session(&self, user: &str) -> Client {
        connect(&self.url(user)).await
    }

    pub(crate) async fn end(self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        connect(&self.server).await.batch_execute(&drop).await.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// What any language sends.
pub(crate) fn insert(id: &str) -> String {
    format!(
        "INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('{id}', 'order.placed', '{{}}')"
    )
}

/// The lines that a process prints, as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(child: &mut Child) -> Self {
        let stdout: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(Ok(line)) = lines.next() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// The next line must hold this.
    #[track_caller]
    pub(crate) fn expect(&self, what: &str) {
        let line = self.0.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no line comes, expected {what}"));
        assert!(line.contains(what), "{what} is not in {line}");
    }
}
