//! Rows of an outbox table that something is odd about, on SQLite: they keep nobody, and are not charged for what others did.

mod servers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste::admin::{Actor, Command, Filter, Pace};
use posthaste::lane::{LaneSpec, Order};
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::schema::Backend;
use posthaste::store::{
    Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Store, StoreOptions, TableOptions, Then,
    open_table,
};
use posthaste::table::{Column, Profile};
use posthaste::target::{DeliverError, DeliverKind};
use posthaste::{BoxFuture, Error, Result};
use posthaste_testkit::target::{Say, Scripted};
use rusqlite::Connection;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const ROOM: Room = Room { events: 100, bytes: 1 << 20 };

/// A file with an outbox table, whose ids are what a test says.
struct Stand {
    folder: TempDir,
    profile: Profile,
}

impl Stand {
    /// With these rules of its owner.
    fn new(id: &str, rules: &str) -> Self {
        let stand = Self { folder: tempfile::tempdir().unwrap(), profile: Profile::open_outbox() };
        stand.say(&format!(
            "CREATE TABLE openoutbox_events (
                event_id {id} PRIMARY KEY, event_type text NOT NULL DEFAULT 'order.placed', partition_key text,
                payload blob NOT NULL DEFAULT 'x', headers text NOT NULL DEFAULT '{{}}', status text NOT NULL DEFAULT 'PENDING',
                attempts integer NOT NULL DEFAULT 0, max_attempts integer, last_error text,
                available_at text NOT NULL DEFAULT '2026-01-01 00:00:00', locked_by text, locked_at text, delivered_at text,
                created_at text NOT NULL DEFAULT '2026-01-01 00:00:00', updated_at text {rules})"
        ));
        stand
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn say(&self, sql: &str) {
        let connection = Connection::open(self.file()).unwrap();
        connection.busy_timeout(DEADLINE).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    /// Rows as `id state attempts`, with more if a test asks for it.
    fn rows(&self, more: &str) -> Vec<String> {
        let connection = Connection::open(self.file()).unwrap();
        connection.busy_timeout(DEADLINE).unwrap();
        let text = format!(
            "SELECT event_id || ' ' || status || ' ' || attempts {more} FROM openoutbox_events ORDER BY event_id"
        );
        let mut statement = connection.prepare(&text).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    async fn open(&self) -> Arc<dyn Backend> {
        let url = format!("sqlite://{}", self.file().display());
        let table = TableOptions::new(self.profile.clone());
        open_table(&url, table, StoreOptions::default()).await.unwrap()
    }

    /// Waits until the rows are these.
    async fn until(&self, expected: &[&str]) {
        let waited = tokio::time::timeout(DEADLINE, async {
            while self.rows("") != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "{:?}", self.rows(""));
    }
}

fn main_lane() -> LaneSpec {
    let mut lane = LaneSpec::new("main".parse().unwrap());
    lane.order = Order::PerKey;
    lane
}

async fn acquire(store: &dyn Store, owner: &Owner) -> Lease {
    store.acquire(&main_lane(), owner).await.unwrap().expect("a table's lane is everybody's")
}

async fn run_until(relay: Relay, done: impl Future<Output = ()>) {
    tokio::select! {
        ended = relay.run(std::future::pending()) => panic!("the relay ended: {ended:?}"),
        () = done => {}
    }
}

fn ids(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|claimed| claimed.parcel.envelope.id.as_str()).collect()
}

#[tokio::test]
async fn a_row_that_the_table_will_not_have_taken_back_keeps_nobody() {
    let stand = Stand::new("text", ", CHECK (attempts <= 10)");
    stand.say(
        "INSERT INTO openoutbox_events (event_id, attempts, status, locked_by, locked_at) VALUES
            ('a', 1, 'DELIVERING', 'crashed', '2026-01-01'), ('b', 10, 'DELIVERING', 'crashed', '2026-01-02'),
            ('c', 10, 'DELIVERING', 'crashed', '2026-01-03'), ('d', 3, 'DELIVERING', 'crashed', '2026-01-04');
         INSERT INTO openoutbox_events (event_id) VALUES ('new')",
    );
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    let claimed = store.claim(&lease, ROOM).await.unwrap();
    assert_eq!(ids(&claimed), ["a", "d", "new"], "those that may be taken back are");
    let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered));
    let standing = store.settle(&lease, outcomes.collect(), Then::Hold).await.unwrap();
    assert_eq!(standing, Standing::Held);
    let rows = stand.rows("");
    let refused = ["b DELIVERING 10", "c DELIVERING 10"];
    assert_eq!(rows, ["a DELIVERED 2", refused[0], refused[1], "d DELIVERED 4", "new DELIVERED 0"]);
}

#[tokio::test]
async fn a_row_that_cannot_be_handed_back_keeps_nobody() {
    let stand = Stand::new("text", "");
    stand.say("INSERT INTO openoutbox_events (event_id) VALUES ('a'), ('b'), ('c'), ('d')");
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    assert_eq!(store.claim(&lease, ROOM).await.unwrap().len(), 4);
    stand.say(
        "CREATE TRIGGER stays BEFORE UPDATE ON openoutbox_events WHEN old.event_id = 'b'
         BEGIN SELECT RAISE(ABORT, 'b stays'); END",
    );
    assert_eq!(store.settle(&lease, Vec::new(), Then::GiveUp).await.unwrap(), Standing::Held);
    assert_eq!(stand.rows(""), ["a PENDING 1", "b DELIVERING 0", "c PENDING 1", "d PENDING 1"]);
}

/// A trigger of its owner refuses one of a key, and many others that come first of all.
#[tokio::test]
async fn a_row_that_the_table_will_not_have_claimed_keeps_nobody() {
    let stand = Stand::new("text", "");
    stand.say(
        "INSERT INTO openoutbox_events (event_id, partition_key, available_at) VALUES
            ('a', 'k1', '2026-01-02 00:00:01'), ('b', 'k2', '2026-01-02 00:00:02'), ('b2', 'k2', '2026-01-02 00:00:03'),
            ('c', 'k3', '2026-01-02 00:00:04');
         WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 150)
         INSERT INTO openoutbox_events (event_id) SELECT printf('odd %03d', n) FROM n;
         CREATE TRIGGER stays BEFORE UPDATE ON openoutbox_events WHEN old.event_id = 'b' OR old.event_id LIKE 'odd%'
         BEGIN SELECT RAISE(ABORT, 'it stays'); END",
    );
    let (store, target) = (stand.open().await, Scripted::new());
    let once = async |order| {
        let lane = Lane::named("main").unwrap().order(order).to(Arc::new(target.clone()));
        Relay::new(Arc::clone(&store) as Arc<dyn Store>).lane(lane).once().await.unwrap().delivered
    };
    assert_eq!(once(Order::PerKey).await, 2);
    assert_eq!(target.acknowledged(), ["a", "c"], "what follows in the key of a refused row waits for it");
    assert_eq!(once(Order::None).await, 1);
    let rows = stand.rows("");
    assert_eq!(rows[..4], ["a DELIVERED 0", "b PENDING 0", "b2 DELIVERED 0", "c DELIVERED 0"]);
    assert!(rows[4..].iter().all(|row| row.ends_with("PENDING 0")), "{rows:?}");
}

/// More than can be remembered: a relay says so, and does not look for ever.
#[tokio::test]
async fn a_table_that_will_have_nothing_claimed_is_left_alone() {
    let stand = Stand::new("text", "");
    stand.say(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1100)
         INSERT INTO openoutbox_events (event_id) SELECT printf('%04d', n) FROM n;
         CREATE TRIGGER stays BEFORE UPDATE ON openoutbox_events BEGIN SELECT RAISE(ABORT, 'it stays'); END",
    );
    let (store, target) = (stand.open().await, Scripted::new());
    let lane = Lane::named("main").unwrap().order(Order::None).to(Arc::new(target));
    let report = Relay::new(store as Arc<dyn Store>).lane(lane).once().await.unwrap();
    assert_eq!(report.delivered, 0);
    assert!(stand.rows("").iter().all(|row| row.ends_with("PENDING 0")));
}

/// Behind a long backlog it would hold back the followers of its key, all of which a claim would have to pass.
#[tokio::test]
async fn what_a_lease_that_ended_gives_back_comes_before_what_came_later() {
    let stand = Stand::new("text", "");
    stand.say(
        "INSERT INTO openoutbox_events (event_id, attempts, status, locked_by, locked_at, available_at) VALUES
            ('again', 0, 'DELIVERING', 'crashed', '2026-01-01', '2026-01-01'),
            ('spent', 99, 'DELIVERING', 'crashed', '2026-01-02', '2026-01-01'),
            ('later', 0, 'PENDING', NULL, NULL, '2026-01-02')",
    );
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    assert_eq!(stand.rows(""), ["again PENDING 1", "later PENDING 0", "spent DEAD 100"]);
    assert_eq!(ids(&store.claim(&lease, ROOM).await.unwrap()), ["again", "later"]);
}

#[tokio::test]
async fn rows_that_are_no_events_do_not_hide_what_is_due_behind_them() {
    let stand = Stand::new("text", "");
    for n in 0..30 {
        stand.say(&format!(
            "INSERT INTO openoutbox_events (event_id, headers, available_at) VALUES ('bad {n:02}', '[]', '2026-01-01 00:00:{n:02}')"
        ));
    }
    stand.say("INSERT INTO openoutbox_events (event_id, available_at) VALUES ('good', '2026-01-02')");
    let (store, target) = (stand.open().await, Scripted::new());
    let lane = Lane::named("main").unwrap().window(4).to(Arc::new(target.clone()));
    let report = Relay::new(store as Arc<dyn Store>).lane(lane).once().await.unwrap();
    assert_eq!((report.delivered, target.acknowledged()), (1, vec!["good".to_owned()]));
    let dead = stand.rows("").iter().filter(|row| row.contains("DEAD")).count();
    assert_eq!(dead, 30);
}

#[tokio::test]
async fn whole_numbers_as_ids_are_an_order() {
    let stand = Stand::new("integer", "");
    stand.say("INSERT INTO openoutbox_events (event_id, partition_key) VALUES (10, 'k'), (9, 'k'), (11, 'k'), (100, 'k')");
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    assert_eq!(ids(&store.claim(&lease, ROOM).await.unwrap()), ["9", "10", "11", "100"]);
}

#[tokio::test]
async fn a_row_that_dies_by_its_own_number_of_attempts_is_not_put_off() {
    let mut stand = Stand::new("text", "");
    stand.profile = stand.profile.with(Column::MaxAttempts, "max_attempts".parse().unwrap());
    stand.say("INSERT INTO openoutbox_events (event_id, max_attempts) VALUES ('dies', 1), ('lives', 9)");
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    let retry = || {
        let error = DeliverError::new(DeliverKind::Failed, "timeout", "no answer");
        Outcome::Retry { after: SECOND, error }
    };
    let claimed = store.claim(&lease, ROOM).await.unwrap();
    let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, retry())).collect();
    store.settle(&lease, outcomes, Then::Hold).await.unwrap();
    let rows = stand.rows("|| ' ' || (available_at > updated_at)");
    assert_eq!(rows, ["dies DEAD 1 0", "lives PENDING 1 1"]);
}

#[tokio::test]
async fn replayed_rows_of_a_key_do_not_pass_each_other() {
    let stand = Stand::new("text", "");
    let row = |n: u32| format!("('{n}', 'k', '2026-01-01 00:00:0{n}')");
    let rows = [row(1), row(2), row(3)].join(", ");
    stand.say(&format!("INSERT INTO openoutbox_events (event_id, partition_key, created_at) VALUES {rows}"));
    let store = stand.open().await;
    let relay = |target: &Scripted| {
        let backoff = Backoff::exponential(Duration::from_millis(200));
        let lane =
            Lane::named("main").unwrap().order(Order::PerKey).to(Arc::new(target.clone())).retry(backoff);
        Relay::new(Arc::clone(&store) as Arc<dyn Store>).lane(lane)
    };
    relay(&Scripted::new()).once().await.unwrap();
    let replay = Command::Replay { dry_run: false };
    store.apply(&Filter::default(), replay, &Actor::new("eve", "test"), &Pace::full()).await.unwrap();
    let target = Scripted::new().script("1", [Say::Failed]);
    run_until(relay(&target), stand.until(&["1 DELIVERED 1", "2 DELIVERED 0", "3 DELIVERED 0"])).await;
    assert_eq!(target.acknowledged(), ["1", "2", "3"]);
}

/// A table whose next settle fails.
struct Failing {
    inner: Arc<dyn Backend>,
    next_settle_fails: AtomicBool,
}

impl Store for Failing {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.inner.acquire(lane, owner)
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        self.inner.claim(lease, room)
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        if self.next_settle_fails.swap(false, Ordering::SeqCst) {
            return Box::pin(async { Err(Error::unavailable("for once")) });
        }
        self.inner.settle(lease, outcomes, then)
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.inner.wait(lane, at_most)
    }
}

/// The answer to the first of a key cannot be stored while the second is on its way and the third waits for it.
#[tokio::test]
async fn what_was_claimed_and_never_sent_is_no_attempt_after_the_store_failed() {
    let stand = Stand::new("text", "");
    let row = |n: u32| format!("('{n}', 'k', '2026-01-01 00:00:0{n}')");
    let rows = [row(1), row(2), row(3)].join(", ");
    stand.say(&format!("INSERT INTO openoutbox_events (event_id, partition_key, created_at) VALUES {rows}"));
    let failing = Failing { inner: stand.open().await, next_settle_fails: AtomicBool::new(true) };
    let after = |millis| [Say::YesAfter(Duration::from_millis(millis))];
    let target = Scripted::new().script("1", after(50)).script("2", after(1_000));
    let lane = Lane::named("main").unwrap().order(Order::PerKey).to(Arc::new(target.clone()));
    let relay = Relay::new(Arc::new(failing)).lane(lane);
    run_until(relay, stand.until(&["1 DELIVERED 1", "2 DELIVERED 1", "3 DELIVERED 0"])).await;
}

/// The first of a key failed, the others go behind it; the settle that says so fails.
#[tokio::test]
async fn what_waits_behind_a_failed_row_is_no_attempt_after_the_settle_failed() {
    let stand = Stand::new("text", "");
    let row = |n: u32| format!("('{n}', 'k', '2026-01-01 00:00:0{n}')");
    let rows = [row(1), row(2), row(3)].join(", ");
    stand.say(&format!("INSERT INTO openoutbox_events (event_id, partition_key, created_at) VALUES {rows}"));
    let failing = Failing { inner: stand.open().await, next_settle_fails: AtomicBool::new(true) };
    let target = Scripted::new().script("1", [Say::Failed]);
    let lane = Lane::named("main").unwrap().order(Order::PerKey).to(Arc::new(target.clone()));
    let relay = Relay::new(Arc::new(failing)).lane(lane);
    run_until(relay, stand.until(&["1 DELIVERED 1", "2 DELIVERED 0", "3 DELIVERED 0"])).await;
}

/// Somebody holds the file for too long when a relay comes back.
#[tokio::test]
async fn what_could_not_be_handed_back_at_once_is_handed_back_later() {
    let stand = Stand::new("text", "");
    stand.say("INSERT INTO openoutbox_events (event_id) VALUES ('sent'), ('unsent')");
    let mut how = StoreOptions::default();
    how.busy_timeout = Duration::from_millis(50);
    let url = format!("sqlite://{}", stand.file().display());
    let store = open_table(&url, TableOptions::new(stand.profile.clone()), how).await.unwrap();
    let owner = Owner::new("r");
    let lease = acquire(&*store, &owner).await;
    let claimed = store.claim(&lease, ROOM).await.unwrap();
    let is_unsent = |claimed: &&Claimed| claimed.parcel.envelope.id == "unsent";
    lease.note_unsent(claimed.iter().filter(is_unsent).map(|claimed| claimed.ticket));
    let busy = Connection::open(stand.file()).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.acquire(&main_lane(), &owner).await.map(drop).unwrap_err();
    assert!(error.retryable(), "{error}");
    busy.execute_batch("ROLLBACK").unwrap();
    acquire(&*store, &owner).await;
    assert_eq!(stand.rows(""), ["sent PENDING 1", "unsent PENDING 0"]);
}

#[tokio::test]
async fn a_row_that_a_trigger_takes_back_in_silence_ends_no_sweep() {
    let stand = Stand::new("text", "");
    stand.say(
        "INSERT INTO openoutbox_events (event_id, status, locked_by, locked_at) VALUES
            ('a', 'DELIVERING', 'crashed', '2026-01-01'), ('b', 'DELIVERING', 'crashed', '2026-01-01'),
            ('c', 'DELIVERING', 'crashed', '2026-01-01');
         CREATE TRIGGER back AFTER UPDATE ON openoutbox_events WHEN old.event_id = 'a' BEGIN
             UPDATE openoutbox_events SET status = old.status, locked_by = old.locked_by, locked_at = old.locked_at,
                 attempts = old.attempts WHERE event_id = 'a'; END",
    );
    let url = format!("sqlite://{}", stand.file().display());
    let mut table = TableOptions::new(stand.profile.clone());
    table.sweep_rows = 1;
    let store = open_table(&url, table, StoreOptions::default()).await.unwrap();
    let acquired = tokio::time::timeout(DEADLINE, acquire(&*store, &Owner::new("r"))).await;
    acquired.expect("a sweep ends");
    assert_eq!(stand.rows(""), ["a DELIVERING 0", "b PENDING 1", "c PENDING 1"]);
}

#[tokio::test]
async fn a_lease_that_the_table_will_not_have_renewed_ends_no_other() {
    let stand = Stand::new("text", "");
    stand.say(
        "INSERT INTO openoutbox_events (event_id) VALUES ('a'), ('b'), ('c');
         CREATE TRIGGER stays BEFORE UPDATE OF locked_at ON openoutbox_events
         WHEN old.event_id = 'b' AND old.status = 'DELIVERING' AND new.status = 'DELIVERING'
         BEGIN SELECT RAISE(ABORT, 'it stays'); END",
    );
    let store = stand.open().await;
    let lease = acquire(&*store, &Owner::new("r")).await;
    assert_eq!(store.claim(&lease, ROOM).await.unwrap().len(), 3);
    stand.say("CREATE TABLE leased AS SELECT event_id, locked_at FROM openoutbox_events");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(store.settle(&lease, Vec::new(), Then::Hold).await.unwrap(), Standing::Held);
    let is_renewed = "|| ' ' || (locked_at > (SELECT l.locked_at FROM leased l WHERE l.event_id = openoutbox_events.event_id))";
    assert_eq!(stand.rows(is_renewed), ["a DELIVERING 0 1", "b DELIVERING 0 0", "c DELIVERING 0 1"]);
}
