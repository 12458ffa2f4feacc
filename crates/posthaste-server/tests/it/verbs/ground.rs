//! A store of some kind with three events, `a` delivered and `b` and `c` dead, and the binary on it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use posthaste::admin::all_lanes;
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::schema::Backend;
use posthaste::store::{Outcome, Owner, Room, Settled, StoreOptions, TableOptions, Then};
use posthaste::table::Profile;
use posthaste::target::{DeliverError, DeliverKind};
use posthaste::time::Moment;
use serde_json::Value;
use tokio_postgres::NoTls;

use crate::cli::folder::{Answer, Folder, Running, eventually};
use crate::http_api::client::{Client, DEADLINE};
use crate::http_process::skip;

/// A store, and how the binary is told of it.
pub(crate) struct Ground {
    folder: Folder,
    url: String,
    is_table: bool,
    /// The database on a server, gone with [`Ground::end`].
    database: Option<(tokio_postgres::Client, String)>,
}

impl Ground {
    pub(crate) async fn sqlite_log() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite://{}", folder.path("posthaste.db").display());
        Self { folder, url, is_table: false, database: None }.filled().await
    }

    pub(crate) async fn sqlite_table() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite://{}", folder.path("posthaste.db").display());
        let ddl = folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", &url]);
        folder.sql(ddl.text());
        Self { folder, url, is_table: true, database: None }.filled().await
    }

    /// `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn postgres_log(trial: &str) -> Option<Self> {
        let ground = Self::on_postgres(trial).await?;
        ground.folder.ok(&["migrate", "up", "--store", &ground.url]);
        Some(ground.filled().await)
    }

    /// `None`: there is no server, and the trial was said to be skipped.
    pub(crate) async fn postgres_table(trial: &str) -> Option<Self> {
        let mut ground = Self::on_postgres(trial).await?;
        let ddl = ground.folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", &ground.url]);
        connect(&ground.url).await.batch_execute(ddl.text()).await.unwrap();
        ground.is_table = true;
        Some(ground.filled().await)
    }

    async fn on_postgres(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        let server = server.into_string().unwrap();
        let name = format!("verbs_{}", posthaste::envelope::fresh_id().replace('-', "_"));
        let shared = connect(&server).await;
        shared.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let (before, _) = server.rsplit_once('/').unwrap();
        let url = format!("{before}/{name}");
        Some(Self { folder: Folder::new(), url, is_table: false, database: Some((shared, name)) })
    }

    pub(crate) async fn end(self) {
        if let Some((shared, name)) = self.database {
            shared.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
        }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Backend> {
        if self.is_table {
            let table = TableOptions::new(Profile::open_outbox());
            return posthaste::store::open_table(&self.url, table, StoreOptions::default()).await.unwrap();
        }
        posthaste::store::open(&self.url).await.unwrap()
    }

    /// Publishes the three events one after another, and lets the lane `main` settle them.
    async fn filled(self) -> Self {
        let store = self.open().await;
        for (number, name) in ["a", "b", "c"].iter().enumerate() {
            let mut event = Envelope::new("order.placed", format!("{{\"n\":{}}}", number + 1));
            event.id = self.id(name);
            store.publish(vec![event]).await.unwrap();
        }
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        let mut claimed = Vec::new();
        while claimed.len() < 3 {
            claimed.extend(store.claim(&lease, Room { events: 3, bytes: 1 << 20 }).await.unwrap());
        }
        let error = DeliverError::new(DeliverKind::Rejected, "http 400", "no such customer");
        let first = self.id("a");
        let outcome = |id: &str| match id == first {
            true => Outcome::Delivered,
            false => Outcome::Dead { error: error.clone() },
        };
        let settled = claimed.iter().map(|one| Settled::new(one.ticket, outcome(&one.parcel.envelope.id)));
        store.settle(&lease, settled.collect(), Then::GiveUp).await.unwrap();
        self
    }

    /// Publishes so many more events, and lets all of them die; answers how many.
    pub(crate) async fn add_dead(&self, count: u32) -> u64 {
        let store = self.open().await;
        let events = (0..count).map(|_| Envelope::new("order.placed", "{}"));
        store.publish(events.collect()).await.unwrap();
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        let mut claimed = Vec::new();
        while claimed.len() < count as usize {
            claimed.extend(store.claim(&lease, Room { events: 1_000, bytes: 1 << 20 }).await.unwrap());
        }
        let error = DeliverError::new(DeliverKind::Rejected, "http 400", "no such customer");
        let dead = claimed.iter().map(|one| Settled::new(one.ticket, Outcome::Dead { error: error.clone() }));
        store.settle(&lease, dead.collect(), Then::GiveUp).await.unwrap();
        u64::from(count)
    }

    /// Runs a command on dead events, and stops it after it has changed the first; answers what it says.
    pub(crate) async fn stopped_on_the_way(&self, verb: &[&str]) -> Value {
        let store = self.open().await;
        let dead = async || all_lanes(&*store).await.unwrap()[0].dead;
        let before = dead().await;
        let mut running = Running(self.command(&[verb, &["--output", "json"]].concat()).spawn().unwrap());
        let end = std::time::Instant::now() + DEADLINE;
        while dead().await == before {
            assert!(std::time::Instant::now() < end, "it begins in time");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        running.signal("TERM");
        assert_eq!(running.code(), 0);
        let mut said = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path("")
    }

    /// Writes a configuration with this store and these settings.
    pub(crate) fn configure(&self, settings: &str) {
        let engine = if self.is_table { "engine = \"table\"\n" } else { "" };
        self.folder.write("posthaste.toml", format!("[store]\nurl = {:?}\n{engine}{settings}", self.url));
    }

    /// Publishes an event whose time comes in an hour.
    pub(crate) async fn publish_for_later(&self, name: &str) {
        let mut event = Envelope::new("order.placed", "{}");
        event.id = self.id(name);
        event.available = Some(Moment::In(std::time::Duration::from_secs(3600)));
        self.open().await.publish(vec![event]).await.unwrap();
    }

    /// A connection to its database on a server.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.url).await
    }

    /// Whether it is in a file.
    pub(crate) fn is_embedded(&self) -> bool {
        self.database.is_none()
    }

    /// Runs SQL beside the binary.
    pub(crate) async fn sql(&self, text: &str) {
        match &self.database {
            Some(_) => connect(&self.url).await.batch_execute(text).await.unwrap(),
            None => self.folder.sql(text),
        }
    }

    /// A consumer has handled two events long ago and one just now.
    pub(crate) async fn remember(&self) {
        let long_ago = if self.is_embedded() { "0" } else { "to_timestamp(0)" };
        self.sql(&format!(
            "INSERT INTO posthaste_inbox (consumer, event_id, source, handled_at)
             VALUES ('stock', 'old-1', '', {long_ago}), ('stock', 'old-2', '', {long_ago});
             INSERT INTO posthaste_inbox (consumer, event_id, source) VALUES ('stock', 'young', '')"
        ))
        .await;
    }

    /// Makes the table for the record of commands.
    pub(crate) async fn keep_record(&self) {
        let ddl = self.ok(&["migrate", "print", "--audit"]);
        self.sql(&ddl).await;
    }

    /// Runs it, whatever comes of it; answers its exit code and what it says on stderr.
    pub(crate) fn said(&self, verb: &[&str]) -> (i32, String) {
        let answer = self.run(verb);
        (answer.code, answer.stderr)
    }

    /// The binary, which asks the server at this address.
    #[track_caller]
    pub(crate) fn json_through(&self, server: &Client, verb: &[&str]) -> Value {
        let through = self.through(server);
        let told = through.iter().map(String::as_str).chain(["--output", "json"]);
        let answer = self.folder.run(&verb.iter().copied().chain(told).collect::<Vec<_>>());
        assert_eq!(answer.code, 0, "{verb:?}: {}", answer.stderr);
        answer.json()
    }

    /// What tells the binary of the server at this address.
    fn through(&self, server: &Client) -> [String; 4] {
        let key = self.folder.path("posthaste.key").display().to_string();
        ["--server".to_owned(), format!("http://{}", server.address), "--key-file".to_owned(), key]
    }

    /// Whether it is an outbox table.
    pub(crate) fn is_table(&self) -> bool {
        self.is_table
    }

    /// A relay that drives `main` to nowhere and shows itself on its admin address; answers it and a client with its key.
    pub(crate) fn relay_with_rest(&self) -> (Running, Client) {
        self.configure(
            "[server]\nadmin_listen = \"127.0.0.1:0\"\noperators = [\"first\"]\nrequest_timeout = \"3s\"\n[lanes.main]\nto = \"null:\"\n",
        );
        let mut relay = Running(self.folder.command(&["relay"]).spawn().unwrap());
        let mut log = BufReader::new(relay.0.stderr.take().unwrap()).lines();
        let address = log.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) =
                line.split_once("127.0.0.1:").filter(|_| line.contains("commands are to be had"))?;
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            format!("127.0.0.1:{port}").parse().ok()
        });
        // Nobody may wait for somebody to read what it says.
        std::thread::spawn(move || log.for_each(drop));
        let file = self.folder.path("posthaste.key");
        let key = eventually("the key is there", || {
            std::fs::read_to_string(&file).ok().filter(|key| key.ends_with('\n'))
        });
        let client =
            Client { address: address.expect("it says where it listens"), key: Some(key.trim().to_owned()) };
        (relay, client)
    }

    /// The id of an event with this name; a table may want a UUID.
    pub(crate) fn id(&self, name: &str) -> String {
        if !self.is_table {
            return name.to_owned();
        }
        format!("01a1e4d2-0000-7000-8000-00000000000{name}")
    }

    /// The verb with what tells it of the store.
    fn told(&self, verb: &[&str]) -> Vec<String> {
        let store = ["--store", &self.url];
        verb.iter().chain(&store).map(|word| (*word).to_owned()).collect()
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = self.folder.command(&self.told(verb));
        if self.is_table {
            command.env("POSTHASTE__STORE__ENGINE", "table");
        }
        command
    }

    fn run(&self, verb: &[&str]) -> Answer {
        self.command(verb).output().unwrap().into()
    }

    /// The first lines of `event tail`, which ends when it is told to.
    #[track_caller]
    pub(crate) fn tail(&self, lines: usize) -> String {
        Self::first_lines(self.command(&["event", "tail"]), lines)
    }

    /// The same through the server at this address.
    #[track_caller]
    pub(crate) fn tail_through(&self, server: &Client, lines: usize) -> String {
        let through = self.through(server);
        let words: Vec<&str> =
            ["event", "tail"].into_iter().chain(through.iter().map(String::as_str)).collect();
        Self::first_lines(self.folder.command(&words), lines)
    }

    #[track_caller]
    fn first_lines(mut command: Command, lines: usize) -> String {
        let mut tail = Running(command.spawn().unwrap());
        let stdout = BufReader::new(tail.0.stdout.take().unwrap());
        let seen: Vec<String> = stdout.lines().take(lines).map(Result::unwrap).collect();
        tail.signal("TERM");
        assert_eq!(tail.code(), 0);
        seen.join("\n")
    }

    /// Runs it, which must succeed; answers what it says.
    #[track_caller]
    pub(crate) fn ok(&self, verb: &[&str]) -> String {
        let answer = self.run(verb);
        assert_eq!(answer.code, 0, "{verb:?}: {}", answer.stderr);
        answer.text().to_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self, verb: &[&str]) -> Value {
        let text = self.ok(&[verb, &["--output", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{verb:?}: {error}: {text}"))
    }

    /// How many a command matched and changed.
    #[track_caller]
    pub(crate) fn applied(&self, verb: &[&str]) -> (u64, u64) {
        let answer = self.json(verb);
        (answer["matched"].as_u64().unwrap(), answer["changed"].as_u64().unwrap())
    }

    /// It must fail with this code and say this.
    #[track_caller]
    pub(crate) fn refused(&self, verb: &[&str], code: i32, says: &str) {
        let answer = self.run(verb);
        assert_eq!(answer.code, code, "{verb:?}: {}{}", answer.text(), answer.stderr);
        assert!(answer.stderr.contains(says), "{verb:?}: {}", answer.stderr);
    }

    /// Delivers what is due; answers how many.
    #[track_caller]
    pub(crate) fn relay(&self) -> u64 {
        self.json(&["relay", "--once", "--to", "null:"])["delivered"].as_u64().unwrap()
    }

    /// The totals must add up.
    #[track_caller]
    pub(crate) fn adds_up(&self) {
        let total = self.json(&["stats"])["total"].clone();
        let number = |name: &str| total[name].as_u64().unwrap();
        let sum: u64 = ["delivered", "waiting", "dead", "discarded"].map(number).iter().sum();
        assert_eq!(number("accepted"), sum, "{total}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}
