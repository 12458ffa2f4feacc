//! Everything at once on one Postgres database: producers whose transactions take their numbers early and commit late,
//! are rolled back in part or as a whole, or commit in two phases; a lane whose driver fails, crashes and moves between
//! two stores; and retention that runs beside it. Nothing may be lost or made up, and the first deliveries of every key
//! must follow its producers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

#[path = "conformance/postgres.rs"]
mod postgres;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use posthaste::admin::{Actor, Command, Filter, Pace, all_lanes};
use posthaste::lane::LaneSpec;
use posthaste::schema::Backend;
use posthaste::store::{Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Then};
use posthaste::target::{DeliverError, DeliverKind};
use posthaste_testkit::rig::{RigClock, RigMaker as _};
use tokio_postgres::NoTls;

const PRODUCERS: u64 = 10;
const TRANSACTIONS_PER_PRODUCER: u64 = 60;
const KEYS: u64 = 12;
const DEADLINE: Duration = Duration::from_secs(60);

/// Chance that can be repeated: the same seed gives the same run, as far as the server allows.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Publishes in transactions of all kinds; answers the ids that were committed.
async fn produce(url: String, number: u64) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let work = async move {
        let (mut dice, mut committed) = (Dice(number), Vec::new());
        for n in 0..TRANSACTIONS_PER_PRODUCER {
            let name = format!("{number}-{n}");
            let begins = if dice.roll(3) == 0 { "BEGIN; SELECT pg_current_xact_id()" } else { "BEGIN" };
            client.batch_execute(begins).await.unwrap();
            // The key is locked before its events are inserted and until the commit: that is what gives it an order.
            let key = dice.roll(KEYS);
            client.batch_execute(&format!("SELECT pg_advisory_xact_lock({key})")).await.unwrap();
            let mut ids = Vec::new();
            for part in 0..=dice.roll(6) {
                let id = format!("{name}-{part}");
                let is_undone = dice.roll(6) == 0;
                let insert = format!(
                    "SAVEPOINT s; INSERT INTO posthaste_events (event_id, event_type, key, payload) \
                     VALUES ('{id}', 'order.placed', 'key-{key}', '{{}}')"
                );
                client.batch_execute(&insert).await.unwrap();
                if is_undone {
                    client.batch_execute("ROLLBACK TO SAVEPOINT s").await.unwrap();
                } else {
                    ids.push(id);
                }
            }
            if dice.roll(4) == 0 {
                // Others commit meanwhile, with higher numbers; the server waits, not this test.
                let pause = dice.roll(150);
                client.batch_execute(&format!("SELECT pg_sleep(0.001 * {pause})")).await.unwrap();
            }
            match dice.roll(8) {
                0 => client.batch_execute("ROLLBACK").await.unwrap(),
                1 => {
                    client.batch_execute(&format!("PREPARE TRANSACTION '{name}'")).await.unwrap();
                    client.batch_execute(&format!("COMMIT PREPARED '{name}'")).await.unwrap();
                    committed.extend(ids);
                }
                _ => {
                    client.batch_execute("COMMIT").await.unwrap();
                    committed.extend(ids);
                }
            }
        }
        committed
    };
    let (committed, ended) = join(work, connection).await;
    ended.unwrap();
    committed
}

/// A driver that keeps the rules of a relay.
struct Driver {
    stores: [Arc<dyn Backend>; 2],
    spec: LaneSpec,
    owner: Owner,
    dice: Dice,
    /// Every delivery in order: number, id and key.
    delivered: Vec<(i64, String, Option<String>)>,
}

impl Driver {
    /// Drives the lane until nothing more comes after the producers have ended.
    async fn run(mut self, is_over: &std::sync::atomic::AtomicBool) -> Vec<(i64, String, Option<String>)> {
        let start = Instant::now();
        let mut turn = 0;
        loop {
            assert!(start.elapsed() < DEADLINE, "{:?}", all_lanes(&*self.stores[0]).await);
            let was_over = is_over.load(std::sync::atomic::Ordering::SeqCst);
            turn += 1;
            let store = Arc::clone(&self.stores[turn % 2]);
            let lease = store.acquire(&self.spec, &self.owner).await.unwrap().expect("the same owner");
            let found = self.drive(store.as_ref(), &lease).await;
            let lanes = all_lanes(&*store).await.unwrap();
            assert!(lanes.iter().all(|lane| lane.adds_up()), "{lanes:?}");
            if was_over && !found && lanes.iter().all(|lane| lane.waiting == 0) {
                return self.delivered;
            }
        }
    }

    /// Until it crashes, or has nothing to do; answers whether anything came.
    async fn drive(&mut self, store: &dyn Backend, lease: &Lease) -> bool {
        let mut found = false;
        let mut claimed = store.claim(lease, self.room()).await.unwrap();
        loop {
            found |= !claimed.is_empty();
            let (outcomes, parks) = self.deliver(&claimed);
            if self.dice.roll(30) == 0 {
                return true;
            }
            let (room, standing) = (self.room(), Standing::Held);
            if claimed.is_empty() {
                assert_eq!(store.settle(lease, outcomes, Then::GiveUp).await.unwrap(), standing);
                return found;
            } else if parks {
                assert_eq!(store.settle(lease, outcomes, Then::Hold).await.unwrap(), standing);
                claimed = store.claim(lease, room).await.unwrap();
            } else {
                // Only acknowledgements: the next claim may run beside the settle.
                let (settled, next) =
                    join(store.settle(lease, outcomes, Then::Hold), store.claim(lease, room)).await;
                assert_eq!(settled.unwrap(), standing);
                claimed = next.unwrap();
            }
        }
    }

    fn room(&mut self) -> Room {
        Room { events: 1 + self.dice.roll(40) as u32, bytes: u64::MAX }
    }

    /// Delivers one after the other; what fails keeps the later ones of its key.
    fn deliver(&mut self, claimed: &[Claimed]) -> (Vec<Settled>, bool) {
        let (mut outcomes, mut failed, mut parks) = (Vec::new(), HashSet::new(), false);
        for claimed in claimed {
            let envelope = &claimed.parcel.envelope;
            let outcome = if envelope.key.as_ref().is_some_and(|key| failed.contains(key)) {
                Outcome::Behind
            } else if self.dice.roll(15) == 0 {
                failed.extend(envelope.key.clone());
                let error = DeliverError::new(DeliverKind::Failed, "timeout", "no answer");
                Outcome::Retry { after: Duration::from_millis(self.dice.roll(10)), error }
            } else {
                self.delivered.push((claimed.ticket.0, envelope.id.clone(), envelope.key.clone()));
                Outcome::Delivered
            };
            parks |= !matches!(outcome, Outcome::Delivered);
            outcomes.push(Settled::new(claimed.ticket, outcome));
        }
        (outcomes, parks)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_made_up_and_every_key_keeps_its_order() {
    let [direct, _] = postgres::RIGS;
    if let Some(why) = direct.missing() {
        let is_ci = posthaste_testkit::harness::Settings::from_env().all_required;
        assert!(!is_ci, "cannot be had here: {why}");
        eprintln!("skipped: {why}");
        return;
    }
    let rig = direct.rig(RigClock::Host).await.unwrap();
    let stores = [rig.open().await.unwrap(), rig.open().await.unwrap()];
    let driver = Driver {
        stores: stores.clone(),
        spec: LaneSpec::new("main".parse().unwrap()),
        owner: Owner::new("driver"),
        dice: Dice(7),
        delivered: Vec::new(),
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let producing = async {
        let all = join_all((0..PRODUCERS).map(|n| produce(rig.url().unwrap(), n))).await;
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        all.concat()
    };
    let pruning = async {
        let prune = Command::Prune { delivered_age: Some(Duration::ZERO), dead_age: None, dry_run: false };
        let mut pruned = 0;
        while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
            let actor = Actor::new("test", "cli");
            pruned += stores[1]
                .apply(&Filter::default(), prune.clone(), &actor, &Pace::full())
                .await
                .unwrap()
                .changed;
        }
        pruned
    };
    let (delivered, (committed, pruned)) = join(driver.run(&is_over), join(producing, pruning)).await;

    let (mut seen, mut by_key) = (HashSet::new(), HashMap::<_, Vec<i64>>::new());
    for (seq, id, key) in &delivered {
        if seen.insert(id.clone()) {
            by_key.entry(key.clone()).or_default().push(*seq);
        }
    }
    let committed: HashSet<String> = committed.into_iter().collect();
    let lost: Vec<_> = committed.difference(&seen).collect();
    let made_up: Vec<_> = seen.difference(&committed).collect();
    assert!(lost.is_empty() && made_up.is_empty(), "lost {lost:?}, made up {made_up:?}");
    for (key, numbers) in &by_key {
        assert!(numbers.is_sorted(), "{key:?} was delivered out of order: {numbers:?}");
    }
    assert!(pruned > 0, "retention removed nothing, so it was not tried");
}
