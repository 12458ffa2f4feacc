//! A database with the reference table, and relays on it whose deliveries are read from their stdout.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste::envelope::fresh_id;
use posthaste_testservers::{Interrupt, Kind, Run, Server};

use crate::cli::folder::{Folder, Running};
use crate::http_process::skip;
pub(crate) use crate::table::session::{Base, Session};

/// How long anything may take before the test fails: longer than the longest lease, which a claim that was cut off leaves behind.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);
const TABLE: &str = "openoutbox_events";

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
const INVARIANTS: &str = "ALTER TABLE openoutbox_events ADD CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')),
    ADD CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')), ADD CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED'))";

/// Makes a test of each function for each database, with a stand that is opened in this way.
macro_rules! on_every_database {
    ($open:ident: $($test:ident),* $(,)?) => {$(
        mod $test {
            use crate::table::stand::{Base, Stand};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let trial = concat!(stringify!($test), "::postgres");
                if let Some(stand) = Stand::$open(Base::Postgres, trial).await {
                    super::$test(stand).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                let trial = concat!(stringify!($test), "::mariadb");
                if let Some(stand) = Stand::$open(Base::Mariadb, trial).await {
                    super::$test(stand).await;
                }
            }
        }
    )*};
}
pub(crate) use on_every_database;

/// A database on the server of the tests, gone with [`Stand::end`], or on a server of the test's own; and a folder.
pub(crate) struct Stand {
    pub(crate) base: Base,
    server: String,
    name: String,
    own: Option<Server>,
    pub(crate) folder: Folder,
}

impl Stand {
    /// A database without the table; `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn empty(base: Base, trial: &str) -> Option<Self> {
        let variable = base.either("POSTHASTE_TEST_POSTGRES", "POSTHASTE_TEST_MARIADB");
        let Some(server) = std::env::var_os(variable).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{variable} is not set"));
            return None;
        };
        Some(Self::on(base, server.into_string().unwrap(), None).await)
    }

    /// A database of its own on this server.
    async fn on(base: Base, server: String, own: Option<Server>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("table_program_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let from = base.either(" TEMPLATE template0", "");
        Session::connect(&server).await.say(&format!("CREATE DATABASE {name}{from}")).await;
        Self { base, server, name, own, folder: Folder::new() }
    }

    /// With the table, which checks its rows.
    pub(crate) async fn new(base: Base, trial: &str) -> Option<Self> {
        let stand = Self::empty(base, trial).await?;
        stand.make_careful_table().await;
        Some(stand)
    }

    /// The same on a server that may be killed.
    pub(crate) async fn private(base: Base, trial: &str) -> Option<Self> {
        let kind = if base == Base::Postgres { Kind::Postgres } else { Kind::Mariadb };
        if !kind.is_installed() {
            skip::say(trial, &format!("{} is not installed", kind.name()));
            return None;
        }
        let server = tokio::task::block_in_place(|| {
            let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
            let mut server = Server::new(kind, &run, None).unwrap();
            server.start().unwrap();
            server
        });
        let stand = Self::on(base, server.url(), Some(server)).await;
        stand.make_careful_table().await;
        Some(stand)
    }

    async fn make_careful_table(&self) {
        self.make_table().await;
        self.say(INVARIANTS).await;
    }

    /// The reference table: on MariaDB in its words.
    pub(crate) async fn make_table(&self) {
        match self.base {
            Base::Postgres => self.say(REFERENCE).await,
            Base::Mariadb => {
                let url = self.url();
                let print = ["migrate", "print", "--profile", "open-outbox", "--store", &url];
                self.say(self.folder.ok(&print).text()).await;
            }
        }
    }

    /// The server is killed and started again.
    pub(crate) fn crash(&mut self) {
        let server = self.own.as_mut().expect("only a server of the test's own may be killed");
        tokio::task::block_in_place(|| {
            server.kill().unwrap();
            server.start().unwrap();
        });
    }

    pub(crate) async fn end(self) {
        let force = self.base.either(" WITH (FORCE)", "");
        let drop = format!("DROP DATABASE IF EXISTS {}{force}", self.name);
        Session::connect(&self.server).await.say(&drop).await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        self.url_of(self.base.either("postgres", "posthaste"))
    }

    pub(crate) fn url_of(&self, user: &str) -> String {
        let host = self.server.split_once('@').unwrap().1.split_once('/').unwrap().0;
        format!("{}://{user}@{host}/{}", self.base.either("postgres", "mysql"), self.name)
    }

    pub(crate) async fn session(&self) -> Session {
        Session::connect(&self.url()).await
    }

    pub(crate) async fn say(&self, sql: &str) {
        self.session().await.say(sql).await;
    }

    /// Inserts so many rows of three columns.
    pub(crate) async fn insert(&self, rows: u32) {
        self.say(&insert(rows)).await;
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM {TABLE} WHERE {condition}")).await.parse().unwrap()
    }

    /// The one value of a query.
    pub(crate) async fn one(&self, query: &str) -> String {
        self.session().await.hear(query).await.remove(0)
    }

    /// Waits until so many rows are so.
    pub(crate) async fn until(&self, rows: i64, condition: &str) {
        let (end, session) = (Instant::now() + DEADLINE, self.session().await);
        let count = format!("SELECT count(*) FROM {TABLE} WHERE {condition}");
        loop {
            let seen: i64 = session.hear(&count).await.remove(0).parse().unwrap();
            if seen == rows {
                return;
            }
            assert!(Instant::now() < end, "{rows} rows should be {condition}, but {seen} are");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What of every row must never change.
    pub(crate) async fn immutable(&self) -> Vec<String> {
        self.rows("event_id, event_type, partition_key, payload, headers, created_at", "true").await
    }

    /// Everything of the rows that are so.
    pub(crate) async fn all(&self, condition: &str) -> Vec<String> {
        let mutable =
            "status, attempts, available_at, locked_by, locked_at, delivered_at, updated_at, last_error";
        self.rows(&format!("event_id, payload, {mutable}"), condition).await
    }

    async fn rows(&self, columns: &str, condition: &str) -> Vec<String> {
        let all =
            format!("SELECT concat_ws('|', {columns}) FROM {TABLE} WHERE {condition} ORDER BY event_id");
        self.session().await.hear(&all).await
    }

    pub(crate) async fn ids(&self) -> Vec<String> {
        self.ids_where("true").await
    }

    pub(crate) async fn ids_where(&self, condition: &str) -> Vec<String> {
        self.session().await.hear(&format!("SELECT event_id FROM {TABLE} WHERE {condition}")).await
    }

    /// A relay to its own stdout, with a short lease.
    pub(crate) fn relay(&self, seen: &Seen) -> Running {
        let mut running = self.quiet_relay(&[]);
        seen.read(running.0.stdout.take().unwrap());
        running
    }

    /// The same with a lease that ends soon enough to be waited for, and late enough that its own rows are settled before on a busy
    /// machine: for tests that count whose lease ended.
    pub(crate) fn patient_relay(&self, seen: &Seen) -> Running {
        self.relay_with("6s", "5s", seen)
    }

    /// The same with a lease that does not end however busy the machine is: for tests in which nothing may come twice.
    pub(crate) fn lasting_relay(&self, seen: &Seen) -> Running {
        self.relay_with("60s", "30s", seen)
    }

    fn relay_with(&self, lease: &str, timeout: &str, seen: &Seen) -> Running {
        let settings = [("POSTHASTE__RELAY__LEASE", lease), ("POSTHASTE__LANES__MAIN__TIMEOUT", timeout)];
        let mut running = self.quiet_relay(&settings);
        seen.read(running.0.stdout.take().unwrap());
        running
    }

    /// The same with these settings besides, whose stdout nobody reads yet.
    pub(crate) fn quiet_relay(&self, settings: &[(&str, &str)]) -> Running {
        let mut command =
            self.folder.command(&["relay", "--storage-url", &self.url(), "--publisher", "stdout:"]);
        command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "500ms");
        command.env("POSTHASTE__LANES__MAIN__WINDOW", "50").envs(settings.iter().copied());
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// The binary with these arguments, whose deliveries are read from its stdout.
    pub(crate) fn start(&self, arguments: &[&str], seen: &Seen) -> Running {
        let mut command = self.folder.command(arguments);
        let mut running = Running(command.stderr(Stdio::null()).spawn().unwrap());
        seen.read(running.0.stdout.take().unwrap());
        running
    }

    /// Everything came, and nothing came twice.
    pub(crate) async fn assert_once(&self, seen: &Seen) {
        for id in self.ids().await {
            assert_eq!(seen.times(&id), 1, "{id}");
        }
    }
}

/// So many rows of three columns.
pub(crate) fn insert(rows: u32) -> String {
    let row = |n| format!("('{}', 'order.placed', '{{\"n\":{n}}}')", fresh_id());
    let rows: Vec<String> = (1..=rows).map(row).collect();
    format!("INSERT INTO {TABLE} (event_id, event_type, payload) VALUES {}", rows.join(", "))
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
