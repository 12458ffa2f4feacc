//! A database with the table of `migrate print`, and relays on it whose deliveries are read from files.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use xtask::servers::{Kind, Server};
use xtask::{Interrupt, Run};

use crate::folder::{Folder, Running};
use crate::skip;

/// How long anything may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
const TABLE: &str = "openoutbox_events";

/// The row invariants of the specification, for tests in which nobody else changes a row.
const INVARIANTS: &str = "ALTER TABLE openoutbox_events ADD CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')),
    ADD CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')), ADD CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED'))";

/// A database on the server of the tests, gone with [`Stand::end`], or a server of a test's own; and a folder.
pub(crate) struct Stand {
    shared: String,
    name: String,
    own: Option<Server>,
    relays: AtomicU64,
    pub(crate) folder: Folder,
}

impl Stand {
    /// A database without the table; `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn empty(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_MARIADB";
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("table_program_{}_{number}", std::process::id());
        let stand = Self::of(server.into_string().unwrap(), name, None);
        stand.say_on(&stand.shared, &format!("CREATE DATABASE {}", stand.name)).await;
        Some(stand)
    }

    fn of(shared: String, name: String, own: Option<Server>) -> Self {
        Self { shared, name, own, relays: AtomicU64::new(0), folder: Folder::new() }
    }

    /// With the table.
    pub(crate) async fn new(trial: &str) -> Option<Self> {
        Self::empty(trial).await?.with_table().await
    }

    /// With the table, on a server that may be killed.
    pub(crate) async fn private(trial: &str) -> Option<Self> {
        if !Kind::Mariadb.is_installed() {
            skip::say(trial, "MariaDB is not installed");
            return None;
        }
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Mariadb, &run, None).unwrap();
        server.start().unwrap();
        Self::of(server.url(), "posthaste".to_owned(), Some(server)).with_table().await
    }

    async fn with_table(self) -> Option<Self> {
        self.make_table().await;
        self.say(INVARIANTS).await;
        Some(self)
    }

    pub(crate) async fn end(self) {
        self.say_on(&self.shared, &format!("DROP DATABASE {}", self.name)).await;
    }

    pub(crate) async fn make_table(&self) {
        let url = self.url();
        let ddl = self.folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", &url]);
        self.say(ddl.text()).await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.shared.rsplit_once('/').unwrap().0, self.name)
    }

    /// The server is killed and started again.
    pub(crate) fn crash(&mut self) {
        let server = self.own.as_mut().expect("only a server of the test's own may be killed");
        server.kill().unwrap();
        server.start().unwrap();
    }

    pub(crate) async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url()).await.unwrap()
    }

    pub(crate) async fn say(&self, sql: &str) {
        self.say_on(&self.url(), sql).await;
    }

    async fn say_on(&self, url: &str, sql: &str) {
        let mut connection = MySqlConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    }

    /// Inserts so many rows of three columns.
    pub(crate) async fn insert(&self, rows: u32) {
        self.say(&format!(
            "INSERT INTO {TABLE} (event_id, event_type, payload)
             SELECT uuid(), 'order.placed', concat('{{\"n\":', seq, '}}') FROM seq_1_to_{rows}"
        ))
        .await;
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        self.ask(&format!("SELECT count(*) FROM {TABLE} WHERE {condition}")).await
    }

    pub(crate) async fn ask<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::MySql>,
    {
        let mut connection = self.connect().await;
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap();
        row.try_get_unchecked(0).unwrap()
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
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What of every row must never change.
    pub(crate) async fn immutable(&self) -> String {
        self.checksum("event_id, event_type, coalesce(partition_key, ''), payload, headers, created_at").await
    }

    pub(crate) async fn checksum(&self, columns: &str) -> String {
        self.ask(&format!(
            "SELECT sha1(group_concat(sha1(concat_ws('|', {columns})) ORDER BY event_id SEPARATOR '')) FROM {TABLE}"
        ))
        .await
    }

    pub(crate) async fn ids(&self) -> Vec<String> {
        let rows = sqlx::query("SELECT CAST(event_id AS CHAR) FROM openoutbox_events");
        let rows = rows.fetch_all(&mut self.connect().await).await.unwrap();
        rows.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect()
    }

    /// A relay whose stdout is a file, with a short lease.
    pub(crate) fn relay(&self) -> Running {
        let number = self.relays.fetch_add(1, Ordering::Relaxed);
        let url = self.url();
        let mut command = self.folder.command(&["relay", "--storage-url", &url, "--publisher", "stdout:"]);
        command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "500ms");
        command.env("POSTHASTE__LANES__MAIN__WINDOW", "50");
        command.stdout(File::create(self.folder.path(&format!("{number}.out"))).unwrap());
        command.stderr(File::create(self.folder.path(&format!("{number}.err"))).unwrap());
        Running(command.spawn().unwrap())
    }

    /// How often each event was delivered by all relays so far.
    pub(crate) fn seen(&self) -> HashMap<String, u32> {
        let mut seen = HashMap::new();
        for number in 0..self.relays.load(Ordering::Relaxed) {
            let lines = std::fs::read_to_string(self.folder.path(&format!("{number}.out"))).unwrap();
            for line in lines.lines() {
                // A relay that was killed may have left half a line.
                let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
                *seen.entry(line["id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        seen
    }

    /// Waits until so many different events were delivered.
    pub(crate) async fn until_seen(&self, events: usize) {
        let end = Instant::now() + DEADLINE;
        while self.seen().len() < events {
            assert!(Instant::now() < end, "{events} should have come, but {} did", self.seen().len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
