//! Everything at once on one file: two stores as two processes would have them, publishers on both and by plain SQL, and
//! a lane whose driver fails, releases, crashes and moves between the stores. Nothing may be lost, and the first
//! deliveries of every key must follow the log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::admin::{Actor, Command, Filter, Pace, all_lanes};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::schema::Backend;
use posthaste::store::{
    Claimed, Lease, Outcome, Owner, Room, Settled, Standing, StoreOptions, Then, Ticket, open_with,
};
use posthaste::target::{DeliverError, DeliverKind};

const EVENTS_PER_PUBLISHER: usize = 1_500;
const KEYS: u64 = 12;
const DEADLINE: Duration = Duration::from_secs(60);

/// Chance that can be repeated: the same seed gives the same run, as far as threads allow.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn publish(store: Arc<dyn Backend>, mut dice: Dice) -> usize {
    let mut left = EVENTS_PER_PUBLISHER;
    while left > 0 {
        let count = left.min(1 + dice.roll(20) as usize);
        let events = (0..count).map(|_| {
            let mut event = Envelope::new("order.placed", "{}");
            event.key = Some(format!("key-{}", dice.roll(KEYS))).filter(|_| dice.roll(5) > 0);
            event
        });
        store.publish(events.collect()).await.unwrap();
        left -= count;
    }
    EVENTS_PER_PUBLISHER
}

fn publish_by_hand(path: PathBuf) -> usize {
    let mut file = rusqlite::Connection::open(path).unwrap();
    file.busy_timeout(DEADLINE).unwrap();
    for n in 0..200 {
        let tx = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let insert = "INSERT INTO posthaste_events (event_id, event_type, key, payload) VALUES (?1, 'order.placed', ?2, '{}')";
        for part in ["a", "b"] {
            tx.execute(insert, (format!("{n}-{part}"), format!("key-{}", n % KEYS))).unwrap();
        }
        // Every other transaction is rolled back and must leave no trace.
        if n % 2 == 0 { tx.commit().unwrap() } else { tx.rollback().unwrap() }
    }
    200
}

/// A driver that keeps the rules of a relay.
struct Driver {
    stores: [Arc<dyn Backend>; 2],
    spec: LaneSpec,
    owner: Owner,
    dice: Dice,
    /// Every delivery in order.
    delivered: Vec<(Ticket, Option<String>)>,
}

impl Driver {
    /// Drives the lane until so many events were acknowledged and settled.
    async fn run(mut self, expected: usize) -> Vec<(Ticket, Option<String>)> {
        let start = Instant::now();
        let mut turn = 0;
        while self.settled(expected).await < expected as u64 {
            assert!(start.elapsed() < DEADLINE, "{:?}", all_lanes(&*self.stores[0]).await);
            turn += 1;
            let store = Arc::clone(&self.stores[turn % 2]);
            let lease = store.acquire(&self.spec, &self.owner).await.unwrap().expect("the same owner");
            self.drive(store.as_ref(), &lease).await;
        }
        self.delivered
    }

    async fn settled(&self, expected: usize) -> u64 {
        let lanes = all_lanes(&*self.stores[0]).await.unwrap();
        lanes.iter().for_each(|lane| assert!(lane.adds_up(), "{lane:?}"));
        assert!(lanes.iter().all(|lane| lane.accepted <= expected as u64), "{lanes:?}");
        lanes.first().map_or(0, |lane| lane.delivered)
    }

    /// Until it crashes, or has nothing to do.
    async fn drive(&mut self, store: &dyn Backend, lease: &Lease) {
        let mut claimed = store.claim(lease, self.room()).await.unwrap();
        loop {
            let (outcomes, parks) = self.deliver(&claimed);
            if self.dice.roll(40) == 0 {
                return;
            }
            let room = self.room();
            let standing;
            if parks || claimed.is_empty() {
                standing = store.settle(lease, outcomes, Then::Hold).await.unwrap();
                if claimed.is_empty() && self.dice.roll(4) == 0 {
                    store.settle(lease, Vec::new(), Then::GiveUp).await.unwrap();
                    return;
                }
                claimed = store.claim(lease, room).await.unwrap();
            } else {
                // Only acknowledgements: the next claim may run beside the settle.
                let (settled, next) = futures_util::future::join(
                    store.settle(lease, outcomes, Then::Hold),
                    store.claim(lease, room),
                )
                .await;
                (standing, claimed) = (settled.unwrap(), next.unwrap());
            }
            assert_eq!(standing, Standing::Held);
        }
    }

    fn room(&mut self) -> Room {
        Room { events: 1 + self.dice.roll(60) as u32, bytes: u64::MAX }
    }

    /// Delivers one after the other; what fails keeps the later ones of its key.
    fn deliver(&mut self, claimed: &[Claimed]) -> (Vec<Settled>, bool) {
        let (mut outcomes, mut failed, mut parks) = (Vec::new(), HashSet::new(), false);
        for claimed in claimed {
            let key = claimed.parcel.envelope.key.clone();
            let outcome = if key.as_ref().is_some_and(|key| failed.contains(key)) {
                Outcome::Behind
            } else if self.dice.roll(15) == 0 {
                failed.extend(key);
                let error = DeliverError::new(DeliverKind::Failed, "timeout", "no answer");
                Outcome::Retry { after: Duration::from_millis(self.dice.roll(10)), error }
            } else {
                self.delivered.push((claimed.ticket, key));
                Outcome::Delivered
            };
            parks |= !matches!(outcome, Outcome::Delivered);
            outcomes.push(Settled::new(claimed.ticket, outcome));
        }
        (outcomes, parks)
    }
}

/// The first delivery of each event, by key, in the order they happened.
fn first_deliveries(delivered: &[(Ticket, Option<String>)]) -> HashMap<Option<String>, Vec<i64>> {
    let (mut seen, mut by_key) = (HashSet::new(), HashMap::<_, Vec<i64>>::new());
    for (ticket, key) in delivered.iter().filter(|(ticket, _)| seen.insert(*ticket)) {
        by_key.entry(key.clone()).or_default().push(ticket.0);
    }
    by_key
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_every_key_keeps_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let url = format!("sqlite://{}", path.display());
    // Three writers with hardly a pause, and whoever loses asks again only now and then: the usual limit is soon over.
    let patient = || {
        let mut options = StoreOptions::default();
        options.busy_timeout = DEADLINE;
        options
    };
    let stores = [open_with(&url, patient()).await.unwrap(), open_with(&url, patient()).await.unwrap()];
    let expected = 4 * EVENTS_PER_PUBLISHER + 200;
    let driver = Driver {
        stores: stores.clone(),
        spec: LaneSpec::new("main".parse().unwrap()),
        owner: Owner::new("driver"),
        dice: Dice(7),
        delivered: Vec::new(),
    };
    let by_hand = tokio::task::spawn_blocking(move || publish_by_hand(path));
    let publishers = (0..4).map(|n| publish(Arc::clone(&stores[n % 2]), Dice(n as u64)));
    let (delivered, published) =
        futures_util::future::join(driver.run(expected), futures_util::future::join_all(publishers)).await;
    assert_eq!(published.iter().sum::<usize>() + by_hand.await.unwrap(), expected);

    let by_key = first_deliveries(&delivered);
    assert_eq!(by_key.values().map(Vec::len).sum::<usize>(), expected, "every event once, and no other");
    for (key, numbers) in by_key.iter().filter(|(key, _)| key.is_some()) {
        assert!(numbers.is_sorted(), "{key:?} was delivered out of order: {numbers:?}");
    }
    let prune = Command::Prune { delivered_age: Some(Duration::ZERO), dead_age: None, dry_run: false };
    let pruned =
        stores[1].apply(&Filter::default(), prune, &Actor::new("test", "cli"), &Pace::full()).await.unwrap();
    assert_eq!(pruned.changed, expected as u64, "every lane has passed everything");
}
