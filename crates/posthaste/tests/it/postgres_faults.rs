//! Postgres behind a broken network, and transactions that commit in the middle of a large window.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::admin::all_lanes;
use posthaste::lane::LaneSpec;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::{Lease, Outcome, Owner, Room, Settled, Standing, Then};
use posthaste_testkit::drive::keyed;
use posthaste_testkit::history::{History, Known};
use posthaste_testkit::proxy::{Proxy, Weather};
use posthaste_testkit::rig::{Rig, RigClock, RigMaker as _};
use posthaste_testkit::target::Scripted;
use posthaste_testkit::wait::eventually;
use tokio_postgres::{Client, NoTls};

const SOON: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(1);
const BATCH: usize = 40;
/// What a lane may have in its hands.
const WINDOW: u32 = 16;

/// A database of its own, unless there is no server.
pub(crate) async fn scope(trial: &str) -> Option<Arc<dyn Rig>> {
    let [direct, _] = crate::postgres::RIGS;
    if let Some(why) = direct.missing() {
        let is_ci = posthaste_testkit::harness::Settings::from_env().all_required;
        assert!(!is_ci, "cannot be had here: {why}");
        eprintln!("skipped: {trial}: {why}");
        return None;
    }
    Some(direct.rig(RigClock::Host).await.unwrap())
}

/// A proxy in front of a scope's server, and the scope's URL through it.
async fn behind_proxy(rig: &dyn Rig) -> (Proxy, String) {
    let url = rig.url().unwrap();
    let (before, rest) = url.split_once("127.0.0.1:").unwrap();
    let (port, after) = rest.split_once('/').unwrap();
    let proxy = Proxy::in_front_of(format!("127.0.0.1:{port}").parse().unwrap()).await.unwrap();
    let through = format!("{before}{}/{after}", proxy.address());
    (proxy, through)
}

/// Relays through a proxy; lets the weather come and go between publishes, each for longer than the lease.
async fn weathers(rig: Arc<dyn Rig>, bad: Weather) {
    let store = rig.open().await.unwrap();
    let (proxy, through) = behind_proxy(rig.as_ref()).await;
    let relayed: Arc<dyn posthaste::store::Store> = posthaste::store::open(&through).await.unwrap();
    let target = Scripted::new();
    let lane = Lane::named("main").unwrap().to(Arc::new(target.clone()));
    let lane = lane.lease(LEASE).window(WINDOW).unsettled_max(WINDOW as usize);
    let relay = Relay::new(relayed).poll_max(Duration::from_millis(20)).lane(lane);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();

    let (mut history, mut count) = (History::new(), 0);
    let rest = async {
        for round in 0..3 {
            let events: Vec<_> =
                (0..BATCH).map(|n| keyed(&format!("{round}-{n}"), &format!("key-{}", n % 5))).collect();
            events
                .iter()
                .for_each(|event| history.published(&event.id, event.key.as_deref(), Known::Accepted));
            if round == 1 {
                // Some of it is in the relay's hands, some is not yet published.
                proxy.set(bad);
            }
            store.publish(events).await.unwrap();
            count += BATCH;
            if round == 1 {
                tokio::time::sleep(LEASE * 2).await;
                proxy.set(Weather::Fair);
            }
            eventually(SOON, "everything is acknowledged", async || target.acknowledged().len() >= count)
                .await
                .unwrap();
        }
        eventually(SOON, "everything is settled", async || {
            let lanes = all_lanes(&*store).await.unwrap();
            lanes.iter().all(|lane| lane.unread == 0 && lane.waiting == 0 && lane.adds_up())
        })
        .await
        .unwrap();
        drop(stop);
    };
    let (ended, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), rest);
    ended.unwrap();
    target.acknowledged().iter().for_each(|id| history.delivered(id));
    // What the relay had in its hands when the weather came, and again when it went.
    let bound = 2 * 3 * WINDOW as usize;
    let judgement = history.judge();
    assert!(judgement.is_good(bound), "{}: {judgement:?}", judgement.summary(bound));
}

macro_rules! a_relay_lives_through {
    ($($name:ident: $weather:expr),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            if let Some(rig) = scope(stringify!($name)).await {
                weathers(rig, $weather).await;
            }
        }
    )*};
}

a_relay_lives_through! {
    a_relay_lives_through_cut_connections: Weather::Refuse,
    a_relay_lives_through_stalled_connections: Weather::Stall,
    a_relay_lives_through_connections_without_answers: Weather::Deaf,
    a_relay_lives_through_half_open_connections: Weather::HalfOpen,
    a_relay_lives_through_slow_connections: Weather::Delay(Duration::from_millis(25)),
}

/// How many rows of the large window stand before and after the late ones.
const HALF: usize = 100_000;
const PAGE: u32 = 5_000;

/// A transaction that took its numbers and commits later.
struct Late {
    client: Client,
    last_word: &'static str,
}

impl Late {
    /// In three ways: as it is, in a savepoint after one that was taken back, and prepared.
    async fn begin(url: &str, name: &str) -> Vec<Self> {
        let insert = |id: &str| {
            format!(
                "INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('{name}-{id}', 'x', '')"
            )
        };
        let shapes = [
            (format!("BEGIN; {}", insert("plain")), "COMMIT"),
            (
                format!(
                    "BEGIN; SAVEPOINT a; {}; ROLLBACK TO SAVEPOINT a; SAVEPOINT b; {}",
                    insert("undone"),
                    insert("savepoint")
                ),
                "COMMIT",
            ),
            (format!("BEGIN; {}; PREPARE TRANSACTION 'late'", insert("prepared")), "COMMIT PREPARED 'late'"),
        ];
        let mut begun = Vec::new();
        for (sql, last_word) in shapes {
            let client = connect(url).await;
            client.batch_execute(&sql.replace("'late'", &format!("'{name}'"))).await.unwrap();
            begun.push(Self { client, last_word });
        }
        begun
    }

    async fn commit(all: Vec<Self>, name: &str) {
        for late in all {
            late.client.batch_execute(&late.last_word.replace("'late'", &format!("'{name}'"))).await.unwrap();
        }
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// A lane driven by hand, and how often each event came.
struct ByHand {
    store: Arc<dyn Backend>,
    lease: Lease,
    seen: HashMap<String, usize>,
}

impl ByHand {
    /// Delivers until so many events have come.
    async fn deliver_until(&mut self, count: usize) {
        let begun = Instant::now();
        while self.seen.len() < count {
            assert!(
                begun.elapsed() < SOON * 2,
                "{} of {count}: {:?}",
                self.seen.len(),
                all_lanes(&*self.store).await
            );
            let claimed =
                self.store.claim(&self.lease, Room { events: PAGE, bytes: u64::MAX }).await.unwrap();
            for claimed in &claimed {
                *self.seen.entry(claimed.parcel.envelope.id.clone()).or_default() += 1;
            }
            let settled =
                claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered)).collect();
            assert_eq!(self.store.settle(&self.lease, settled, Then::Hold).await.unwrap(), Standing::Held);
        }
    }
}

/// Transactions that took their numbers before and inside a window of 200,000 commit when a lane is in its middle, or when it
/// has passed it: all else comes without waiting for them, and they come once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_in_the_middle_of_a_large_window_is_delivered() {
    let Some(rig) = scope("what_commits_in_the_middle_of_a_large_window_is_delivered").await else { return };
    let url = rig.url().unwrap();
    let bulk = connect(&url).await;
    let insert = |name: &str| {
        format!(
            "INSERT INTO posthaste_events (event_id, event_type, payload) \
             SELECT '{name}-' || g, 'x', '' FROM generate_series(1, {HALF}) g"
        )
    };
    let before = Late::begin(&url, "before").await;
    bulk.batch_execute(&insert("first")).await.unwrap();
    let inside = Late::begin(&url, "inside").await;
    let forgotten = Late::begin(&url, "forgotten").await;
    bulk.batch_execute(&insert("second")).await.unwrap();

    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("hand")).await.unwrap().unwrap();
    let mut lane = ByHand { store, lease, seen: HashMap::new() };
    lane.deliver_until(HALF / 2).await;
    Late::commit(before, "before").await;
    Late::commit(inside, "inside").await;
    lane.deliver_until(2 * HALF + 6).await;
    assert!(!lane.seen.keys().any(|id| id.starts_with("forgotten")), "it is not committed");
    Late::commit(forgotten, "forgotten").await;
    lane.deliver_until(2 * HALF + 9).await;
    assert!(lane.seen.values().all(|times| *times == 1), "something came twice");
    assert!(!lane.seen.keys().any(|id| id.ends_with("undone")), "something came that was taken back");
}
