//! A database with the reference table, and relays on it whose deliveries are read from their stdout.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};
use xtask::servers::{Kind, Server};
use xtask::{Interrupt, Run};

use crate::folder::{Folder, Running};
use crate::skip;

/// How long anything may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// The table of the reference relay, as its documentation has it.
const REFERENCE: &str = "
    CREATE TABLE openoutbox_events (
        event_id uuid PRIMARY KEY, event_type text NOT NULL, partition_key text, payload bytea NOT NULL,
        headers jsonb NOT NULL DEFAULT '{}',
        status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
        attempts integer NOT NULL DEFAULT 0, last_error text, available_at timestamptz NOT NULL DEFAULT now(),
        locked_by text, locked_at timestamptz, delivered_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
    CREATE INDEX ON openoutbox_events (available_at, created_at) WHERE status = 'PENDING';
    CREATE INDEX ON openoutbox_events (locked_at) WHERE status = 'DELIVERING';";

/// The row invariants of the specification, for tests in which nobody else changes a row.
const INVARIANTS: &str = "
    ALTER TABLE openoutbox_events ADD CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')),
        ADD CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
        ADD CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED'));";

/// A database, gone with [`Stand::end`], and a folder.
pub(crate) struct Stand {
    server: String,
    name: String,
    pub(crate) folder: Folder,
    pub(crate) client: Client,
}

impl Stand {
    /// `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn empty(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        Some(Self::on(server.into_string().unwrap()).await)
    }

    /// A database of its own on this server.
    async fn on(server: String) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("table_program_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let shared = connect(&server).await;
        shared.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let url = url(&server, "postgres", &name);
        Self { client: connect(&url).await, server, name, folder: Folder::new() }
    }

    pub(crate) async fn new(trial: &str) -> Option<Self> {
        let stand = Self::empty(trial).await?;
        stand.make_careful_table().await;
        Some(stand)
    }

    /// The same on this server, which goes with the test.
    pub(crate) async fn at(server: String) -> Self {
        let stand = Self::on(server).await;
        stand.make_careful_table().await;
        stand
    }

    async fn make_careful_table(&self) {
        self.make_table().await;
        self.client.batch_execute(INVARIANTS).await.unwrap();
    }

    pub(crate) async fn make_table(&self) {
        self.client.batch_execute(REFERENCE).await.unwrap();
    }

    pub(crate) fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub(crate) fn url_of(&self, user: &str) -> String {
        url(&self.server, user, &self.name)
    }

    /// Inserts so many rows of three columns.
    pub(crate) async fn insert(&self, rows: i32) {
        let text = "INSERT INTO openoutbox_events (event_id, event_type, payload)
            SELECT gen_random_uuid(), 'order.placed', convert_to('{\"n\":' || n || '}', 'UTF8') FROM generate_series(1, $1) n";
        self.client.execute(text, &[&rows]).await.unwrap();
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        let text = format!("SELECT count(*) FROM openoutbox_events WHERE {condition}");
        self.client.query_one(&text, &[]).await.unwrap().get(0)
    }

    /// Waits until so many rows are so.
    pub(crate) async fn until(&self, rows: i64, condition: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let seen = self.count(condition).await;
            if seen == rows {
                return;
            }
            assert!(Instant::now() < end, "{rows} rows should be {condition}, but {seen} are");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What of every row must never change.
    pub(crate) async fn immutable(&self) -> String {
        let text = "SELECT coalesce(md5(string_agg(md5(ROW(event_id, event_type, partition_key, payload, headers, created_at)::text), ''
            ORDER BY event_id)), '') FROM openoutbox_events";
        self.client.query_one(text, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn ids(&self) -> Vec<String> {
        self.ids_where("true").await
    }

    pub(crate) async fn ids_where(&self, condition: &str) -> Vec<String> {
        let text = format!("SELECT event_id::text FROM openoutbox_events WHERE {condition}");
        self.client.query(&text, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// The one value of a query.
    pub(crate) async fn one(&self, query: &str) -> String {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    /// A relay to its own stdout, with a short lease.
    pub(crate) fn relay(&self, seen: &Seen) -> Running {
        let mut command =
            self.folder.command(&["relay", "--storage-url", &self.url(), "--publisher", "stdout:"]);
        command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "500ms");
        command.env("POSTHASTE__LANES__MAIN__WINDOW", "50").stderr(std::process::Stdio::null());
        let mut running = Running(command.spawn().unwrap());
        seen.read(running.0.stdout.take().unwrap());
        running
    }

    /// The binary with these arguments, whose deliveries are read from its stdout.
    pub(crate) fn start(&self, arguments: &[&str], seen: &Seen) -> Running {
        let mut command = self.folder.command(arguments);
        let mut running = Running(command.stderr(std::process::Stdio::null()).spawn().unwrap());
        seen.read(running.0.stdout.take().unwrap());
        running
    }

    pub(crate) async fn end(self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        connect(&self.server).await.batch_execute(&drop).await.unwrap();
    }
}

fn url(server: &str, user: &str, database: &str) -> String {
    let host = server.split_once('@').unwrap().1.split_once('/').unwrap().0;
    format!("postgres://{user}@{host}/{database}")
}

#[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// A server of the test's own, which it may kill; `None`, said on stderr, where it cannot be had.
pub(crate) fn private_server(trial: &str) -> Option<Server> {
    if !Kind::Postgres.is_installed() {
        skip::say(trial, "Postgres is not installed");
        return None;
    }
    tokio::task::block_in_place(|| {
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Postgres, &run, None).unwrap();
        server.start().unwrap();
        Some(server)
    })
}

/// What relays delivered, by id.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<HashMap<String, u32>>>);

impl Seen {
    fn read(&self, stdout: impl std::io::Read + Send + 'static) {
        self.read_slowly(stdout, Duration::ZERO);
    }

    /// Takes so long for every event.
    pub(crate) fn read_slowly(&self, stdout: impl std::io::Read + Send + 'static, pace: Duration) {
        let seen = Arc::clone(&self.0);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // A relay that was killed may have left half a line.
                let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
                let id = line["id"].as_str().unwrap_or_default().to_owned();
                *seen.lock().unwrap().entry(id).or_default() += 1;
                if !pace.is_zero() {
                    std::thread::sleep(pace);
                }
            }
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn times(&self, id: &str) -> u32 {
        self.0.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    pub(crate) fn until(&self, events: usize) {
        let end = Instant::now() + DEADLINE;
        while self.count() < events {
            assert!(Instant::now() < end, "{events} should have come, but {} did", self.count());
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}
