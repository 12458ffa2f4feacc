//! The same on Postgres and MariaDB, where the SQL is another: each test in a database of its own.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::lane::Order;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::{Store, StoreOptions, TableOptions, open_table};
use posthaste::table::Profile;
use posthaste_testkit::proxy::{Proxy, Weather};
use posthaste_testkit::target::Scripted;
use posthaste_testkit::wait::eventually;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use tokio_postgres::{Client, NoTls};

/// A database with an outbox table.
enum Scope {
    Postgres { server: String, name: String },
    Mariadb { server: String, name: String },
}

const POSTGRES_TABLE: &str = "CREATE TABLE openoutbox_events (
    event_id text PRIMARY KEY, event_type text NOT NULL DEFAULT 'order.placed', partition_key text,
    payload bytea NOT NULL DEFAULT 'x', headers jsonb NOT NULL DEFAULT '{}', status text NOT NULL DEFAULT 'PENDING',
    attempts int NOT NULL DEFAULT 0, last_error text, available_at timestamptz NOT NULL DEFAULT '2026-01-01 00:00:00Z',
    locked_by text, locked_at timestamptz, delivered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT '2026-01-01 00:00:00Z', updated_at timestamptz)";
const MARIADB_TABLE: &str = "CREATE TABLE openoutbox_events (
    event_id varchar(64) PRIMARY KEY, event_type varchar(64) NOT NULL DEFAULT 'order.placed', partition_key varchar(64),
    payload longblob NOT NULL DEFAULT 'x', headers json NOT NULL DEFAULT '{}', status varchar(16) NOT NULL DEFAULT 'PENDING',
    attempts int NOT NULL DEFAULT 0, last_error text, available_at datetime(6) NOT NULL DEFAULT '2026-01-01 00:00:00',
    locked_by varchar(255), locked_at datetime(6), delivered_at datetime(6),
    created_at datetime(6) NOT NULL DEFAULT '2026-01-01 00:00:00', updated_at datetime(6),
    KEY pickup (status, available_at, created_at), KEY by_key (partition_key, status, created_at))
    ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

impl Scope {
    async fn postgres(trial: &str) -> Option<Self> {
        let scope = Self::Postgres { server: server("POSTHASTE_TEST_POSTGRES", trial)?, name: name() };
        Some(scope.made(POSTGRES_TABLE).await)
    }

    async fn mariadb(trial: &str) -> Option<Self> {
        let scope = Self::Mariadb { server: server("POSTHASTE_TEST_MARIADB", trial)?, name: name() };
        Some(scope.made(MARIADB_TABLE).await)
    }

    async fn made(self, table: &str) -> Self {
        self.elsewhere("CREATE DATABASE").await;
        self.say(table).await;
        self
    }

    async fn end(self) {
        self.elsewhere("DROP DATABASE").await;
    }

    fn url(&self) -> String {
        let (Self::Postgres { server, name } | Self::Mariadb { server, name }) = self;
        format!("{}/{name}", server.rsplit_once('/').unwrap().0)
    }

    /// Says this about the database itself.
    async fn elsewhere(&self, verb: &str) {
        match self {
            Self::Postgres { server, name } => {
                let force = if verb.starts_with("DROP") { " WITH (FORCE)" } else { "" };
                connect(server).await.batch_execute(&format!("{verb} {name}{force}")).await.unwrap();
            }
            Self::Mariadb { server, name } => {
                let mut on = MySqlConnection::connect(server).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(format!("{verb} {name}"))).execute(&mut on).await.unwrap();
            }
        }
    }

    async fn say(&self, sql: &str) {
        match self {
            Self::Postgres { .. } => connect(&self.url()).await.batch_execute(sql).await.unwrap(),
            Self::Mariadb { .. } => {
                let mut on = MySqlConnection::connect(&self.url()).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut on).await.unwrap();
            }
        }
    }

    /// Rows as `id state attempts`.
    async fn rows(&self) -> Vec<String> {
        let text =
            "SELECT concat(event_id, ' ', status, ' ', attempts) FROM openoutbox_events ORDER BY event_id";
        match self {
            Self::Postgres { .. } => {
                let rows = connect(&self.url()).await.query(text, &[]).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Self::Mariadb { .. } => {
                let mut on = MySqlConnection::connect(&self.url()).await.unwrap();
                sqlx::query_scalar(text).fetch_all(&mut on).await.unwrap()
            }
        }
    }

    /// Refuses that these rows change to or from a state, in the words of a trigger.
    async fn refuse(&self, when: &str) {
        self.say(&match self {
            Self::Postgres { .. } => format!(
                "CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF {when} THEN RAISE EXCEPTION 'it stays' USING ERRCODE = 'OB001'; END IF; RETURN NEW; END $$;
                 CREATE TRIGGER stays BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION stays()"
            ),
            Self::Mariadb { .. } => format!(
                "CREATE TRIGGER stays BEFORE UPDATE ON openoutbox_events FOR EACH ROW
                     IF {when} THEN SIGNAL SQLSTATE 'OB001' SET MESSAGE_TEXT = 'it stays'; END IF"
            ),
        })
        .await;
    }

    async fn open(&self) -> Arc<dyn Backend> {
        self.open_at(&self.url()).await
    }

    async fn open_at(&self, url: &str) -> Arc<dyn Backend> {
        let mut table = TableOptions::new(Profile::open_outbox());
        table.sweep_rows = 2;
        open_table(url, table, StoreOptions::default()).await.unwrap()
    }

    /// A proxy in front of the server, and the URL through it.
    async fn behind_proxy(&self) -> (Proxy, String) {
        let url = self.url();
        let (before, rest) = url.split_once("127.0.0.1:").unwrap();
        let (port, after) = rest.split_once('/').unwrap();
        let proxy = Proxy::in_front_of(format!("127.0.0.1:{port}").parse().unwrap()).await.unwrap();
        let through = format!("{before}{}/{after}", proxy.address());
        (proxy, through)
    }

    /// The number of sessions that others have in this database.
    async fn sessions(&self) -> i64 {
        match self {
            Self::Postgres { .. } => {
                let text = "SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid()";
                connect(&self.url()).await.query_one(text, &[]).await.unwrap().get(0)
            }
            Self::Mariadb { .. } => {
                let text = "SELECT count(*) FROM information_schema.processlist
                            WHERE db = database() AND id <> connection_id()";
                let mut on = MySqlConnection::connect(&self.url()).await.unwrap();
                sqlx::query_scalar(text).fetch_one(&mut on).await.unwrap()
            }
        }
    }
}

fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("rows_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[expect(clippy::disallowed_methods, reason = "tests learn from the environment which servers there are")]
fn server(variable: &str, trial: &str) -> Option<String> {
    let server = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if server.is_none() {
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "{trial}: {variable} is not set");
        // Not `eprintln!`, which a passing test swallows: a skip must be seen.
        std::io::stderr().write_all(format!("skipped: {trial}: {variable} is not set\n").as_bytes()).unwrap();
    }
    server
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// The same trial on both.
macro_rules! on_both {
    ($trial:ident, $postgres:ident, $mariadb:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $postgres() {
            let Some(scope) = Scope::postgres(stringify!($postgres)).await else { return };
            $trial(&scope).await;
            scope.end().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $mariadb() {
            let Some(scope) = Scope::mariadb(stringify!($mariadb)).await else { return };
            $trial(&scope).await;
            scope.end().await;
        }
    };
}

async fn once(store: &Arc<dyn Backend>, order: Order, target: &Scripted) -> u64 {
    let lane = Lane::named("main").unwrap().order(order).to(Arc::new(target.clone()));
    Relay::new(Arc::clone(store) as Arc<dyn Store>).lane(lane).once().await.unwrap().delivered
}

/// One of its key is refused, and one without a key by a check that came later than the row.
async fn refused_claims(scope: &Scope) {
    scope
        .say(
            "INSERT INTO openoutbox_events (event_id, partition_key, available_at) VALUES
                ('a', 'k1', '2026-01-01 00:00:01'), ('b', 'k2', '2026-01-01 00:00:02'), ('b2', 'k2', '2026-01-01 00:00:03'),
                ('c', 'k3', '2026-01-01 00:00:04'), ('d', NULL, '2026-01-01 00:00:05'), ('e', NULL, '2026-01-01 00:00:06')",
        )
        .await;
    scope.refuse("OLD.event_id IN ('b', 'd') AND NEW.status = 'DELIVERING'").await;
    let (store, target) = (scope.open().await, Scripted::new());
    assert_eq!(once(&store, Order::PerKey, &target).await, 3);
    assert_eq!(
        target.acknowledged(),
        ["a", "c", "e"],
        "what follows in the key of a refused row waits for it"
    );
    assert_eq!(once(&store, Order::None, &target).await, 1);
    let pending = ["b PENDING 0", "d PENDING 0"];
    assert_eq!(
        scope.rows().await,
        ["a DELIVERED 0", pending[0], "b2 DELIVERED 0", "c DELIVERED 0", pending[1], "e DELIVERED 0"]
    );
}

on_both!(
    refused_claims,
    a_row_that_postgres_will_not_have_claimed_keeps_nobody,
    a_row_that_mariadb_will_not_have_claimed_keeps_nobody
);

/// A check that was added without a look at what is there refuses every change of an old row.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_row_that_breaks_a_new_check_keeps_nobody() {
    let Some(scope) = Scope::postgres("an_old_row_that_breaks_a_new_check_keeps_nobody").await else {
        return;
    };
    scope
        .say(
            "INSERT INTO openoutbox_events (event_id) VALUES ('a'), ('b'), ('c');
             ALTER TABLE openoutbox_events ADD CHECK (event_id <> 'b') NOT VALID",
        )
        .await;
    let (store, target) = (scope.open().await, Scripted::new());
    assert_eq!(once(&store, Order::PerKey, &target).await, 2);
    assert_eq!(scope.rows().await, ["a DELIVERED 0", "b PENDING 0", "c DELIVERED 0"]);
    scope.end().await;
}

/// A trigger takes the change of one back and says nothing, and refuses that of another.
async fn stuck_leases(scope: &Scope) {
    scope
        .say(
            "INSERT INTO openoutbox_events (event_id, status, locked_by, locked_at) VALUES
                ('a', 'DELIVERING', 'crashed', '2026-01-01'), ('b', 'DELIVERING', 'crashed', '2026-01-01'),
                ('c', 'DELIVERING', 'crashed', '2026-01-01'), ('d', 'DELIVERING', 'crashed', '2026-01-01'),
                ('e', 'DELIVERING', 'crashed', '2026-01-02')",
        )
        .await;
    scope.refuse("OLD.event_id = 'c' AND NEW.status = 'PENDING'").await;
    let back = match scope {
        Scope::Postgres { .. } => {
            "CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
             CREATE TRIGGER back BEFORE UPDATE ON openoutbox_events FOR EACH ROW WHEN (OLD.event_id = 'b') EXECUTE FUNCTION back()"
        }
        Scope::Mariadb { .. } => {
            "CREATE TRIGGER back BEFORE UPDATE ON openoutbox_events FOR EACH ROW
                 IF OLD.event_id = 'b' THEN SET NEW.status = OLD.status, NEW.locked_at = OLD.locked_at, NEW.attempts = OLD.attempts; END IF"
        }
    };
    scope.say(back).await;
    let (store, target) = (scope.open().await, Scripted::new());
    let once = tokio::time::timeout(super::DEADLINE, once(&store, Order::None, &target)).await;
    assert_eq!(once.expect("a sweep ends"), 3);
    let stay = ["b DELIVERING 0", "c DELIVERING 0"];
    assert_eq!(scope.rows().await, ["a DELIVERED 1", stay[0], stay[1], "d DELIVERED 1", "e DELIVERED 1"]);
}

on_both!(
    stuck_leases,
    a_row_that_postgres_takes_back_in_silence_ends_no_sweep,
    a_row_that_mariadb_takes_back_in_silence_ends_no_sweep
);

/// The relay gives an acquisition up after one lease, and a statement only after half a minute. So it must
/// not try again on a connection that stays mute.
async fn half_open(scope: &Scope) {
    let (proxy, url) = scope.behind_proxy().await;
    let target = Scripted::new();
    let lane = Lane::named("main").unwrap().lease(Duration::from_secs(2)).to(Arc::new(target.clone()));
    let store = scope.open_at(&url).await as Arc<dyn Store>;
    let relay = Relay::new(store).poll_max(Duration::from_millis(20)).lane(lane);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let cutting = async {
        scope.say("INSERT INTO openoutbox_events (event_id) VALUES ('before')").await;
        eventually(super::DEADLINE, "the first event is delivered", async || {
            scope.rows().await == ["before DELIVERED 0"]
        })
        .await
        .unwrap();
        proxy.set(Weather::HalfOpen);
        eventually(super::DEADLINE, "the server has lost the relay", async || scope.sessions().await == 0)
            .await
            .unwrap();
        proxy.set(Weather::Fair);
        scope.say("INSERT INTO openoutbox_events (event_id) VALUES ('since')").await;
        eventually(super::DEADLINE, "the relay goes on by new connections", async || {
            target.acknowledged() == ["before", "since"]
        })
        .await
        .unwrap();
        drop(stop);
    };
    let (ended, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), cutting);
    ended.unwrap();
}

on_both!(
    half_open,
    a_relay_goes_on_after_its_connections_to_postgres_are_half_open,
    a_relay_goes_on_after_its_connections_to_mariadb_are_half_open
);
