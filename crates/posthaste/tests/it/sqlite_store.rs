//! The SQLite store beyond the laws: identity, plain SQL, bytes, retention in steps, steps of commands, waking.

use std::sync::Arc;
use std::time::Duration;

use posthaste::ErrorKind;
use posthaste::admin::{Actor, Command, EventState, Filter, Pace, Page, Seek, all_lanes};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::publisher::Published;
use posthaste::relay::{Lane, Relay};
use posthaste::review::AuditFilter;
use posthaste::schema::Backend;
use posthaste::store::{
    Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Store, StoreOptions, Then, open_with,
};
use posthaste::target::{DeliverError, DeliverKind};
use posthaste::time::{ManualClock, Timestamp};
use posthaste_testkit::target::Scripted;
use rusqlite::Connection;
use tempfile::TempDir;

/// A store in a folder of its own, on a clock that the test moves.
struct Bench {
    folder: TempDir,
    clock: ManualClock,
    store: Arc<dyn Backend>,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000));
        let store = Self::open(&folder, &clock).await;
        Self { folder, clock, store }
    }

    async fn open(folder: &TempDir, clock: &ManualClock) -> Arc<dyn Backend> {
        let mut options = StoreOptions::default();
        options.clock = Arc::new(clock.clone());
        open_with(&format!("sqlite://{}/store.db", folder.path().display()), options).await.unwrap()
    }

    /// The file, as another program sees it.
    fn file(&self) -> Connection {
        Connection::open(self.folder.path().join("store.db")).unwrap()
    }

    async fn publish(&self, count: usize) {
        for chunk in (0..count).collect::<Vec<_>>().chunks(500) {
            let events = chunk.iter().map(|n| Envelope::new("order.placed", format!("{{\"n\":{n}}}")));
            self.store.publish(events.collect()).await.unwrap();
        }
    }

    async fn lease(&self, name: &str) -> Lease {
        let spec = LaneSpec::new(name.parse().unwrap());
        self.store.acquire(&spec, &Owner::new("test")).await.unwrap().expect("the lane is free")
    }

    async fn claim(&self, lease: &Lease) -> Vec<Claimed> {
        self.store.claim(lease, Room { events: 1_000, bytes: u64::MAX }).await.unwrap()
    }

    async fn settle(&self, lease: &Lease, claimed: &[Claimed], outcome: Outcome) {
        let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, outcome.clone())).collect();
        let standing = self.store.settle(lease, outcomes, Then::Hold).await.unwrap();
        assert_eq!(standing, Standing::Held);
    }

    /// Claims and settles so until nothing comes any more; answers how many came.
    async fn drain(&self, lease: &Lease, outcome: Outcome) -> usize {
        let mut drained = 0;
        loop {
            let claimed = self.claim(lease).await;
            if claimed.is_empty() {
                return drained;
            }
            drained += claimed.len();
            self.settle(lease, &claimed, outcome.clone()).await;
        }
    }

    async fn apply(&self, filter: &Filter, command: Command) -> (u64, u64) {
        let applied =
            self.store.apply(filter, command, &Actor::new("test", "cli"), &Pace::full()).await.unwrap();
        (applied.matched, applied.changed)
    }

    async fn assert_totals(&self) {
        for lane in all_lanes(&*self.store).await.unwrap() {
            assert!(lane.adds_up(), "{lane:?}");
        }
    }

    fn count(&self, sql: &str) -> i64 {
        self.file().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn dead() -> Outcome {
    Outcome::Dead { error: DeliverError::new(DeliverKind::Rejected, "http 400", "no") }
}

fn of_lane(name: &str) -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some(name.parse().unwrap());
    filter
}

#[tokio::test]
async fn publishing_again_is_no_mistake_but_other_contents_are() {
    let bench = Bench::new().await;
    let mut event = Envelope::new("order.placed", "{}");
    event.headers.insert("a".to_owned(), "1".to_owned());
    assert_eq!(bench.store.publish(vec![event.clone()]).await.unwrap(), [Published::Now]);
    assert_eq!(bench.store.publish(vec![event.clone()]).await.unwrap(), [Published::Before]);

    let fresh = Envelope::new("order.placed", "{}");
    let mut other = event.clone();
    other.payload = b"[]".to_vec();
    let error = bench.store.publish(vec![fresh.clone(), other]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        bench.count("SELECT count(*) FROM posthaste_events"),
        1,
        "nothing of the refused call is stored"
    );

    let mut elsewhere = event.clone();
    elsewhere.source = "/shop".to_owned();
    elsewhere.payload = b"[]".to_vec();
    assert_eq!(
        bench.store.publish(vec![elsewhere]).await.unwrap(),
        [Published::Now],
        "identity is source and id"
    );
}

#[tokio::test]
async fn any_program_can_publish_with_plain_sql() {
    let bench = Bench::new().await;
    let file = bench.file();
    let insert = "INSERT INTO posthaste_events (event_id, event_type, payload)";
    file.execute_batch(&format!("{insert} VALUES ('a', 'order.placed', '{{\"q\":\"\\\\\"}}')")).unwrap();
    file.execute_batch(&format!("{insert} VALUES ('b', 'order.placed', x'00ff')")).unwrap();
    file.execute(
        "INSERT INTO posthaste_events (event_id, event_type, headers, payload) VALUES ('c', 't', ?1, '')",
        [r#"{"n":1,"s":"x"}"#],
    )
    .unwrap();

    let lease = bench.lease("main").await;
    let claimed = bench.claim(&lease).await;
    let payloads: Vec<_> = claimed.iter().map(|claimed| claimed.parcel.envelope.payload.clone()).collect();
    assert_eq!(payloads, [br#"{"q":"\\"}"#.to_vec(), vec![0, 0xff], vec![]]);
    assert_eq!(claimed[0].parcel.envelope.topic, "order.placed", "the type unless chosen");
    assert_eq!(claimed[2].parcel.envelope.headers["n"], "1", "an odd header does not stop the lane");
    let stamp = claimed[0].parcel.stored_at.as_micros();
    assert!(stamp > 1_700_000_000_000_000, "the default is the time in microseconds: {stamp}");
}

#[tokio::test]
async fn plain_sql_cannot_store_what_would_stop_a_lane() {
    let bench = Bench::new().await;
    let file = bench.file();
    let long = "x".repeat(256);
    let values = [
        "'', 't', '', NULL, '{}', 0".to_owned(),
        "'a', '', '', NULL, '{}', 0".to_owned(),
        format!("'a', 't', '', '{long}', '{{}}', 0"),
        format!("'a', 't', '', '{}', '{{}}', 0", "é".repeat(128)),
        "'a', 't', 5, NULL, '{}', 0".to_owned(),
        "'a', 't', '', NULL, '[]', 0".to_owned(),
        "'a', 't', '', NULL, 'no', 0".to_owned(),
        "'a', 't', '', NULL, '{}', 'yesterday'".to_owned(),
    ];
    for values in values {
        let insert = format!(
            "INSERT INTO posthaste_events (event_id, event_type, payload, key, headers, occurred_at) VALUES ({values})"
        );
        assert!(file.execute_batch(&insert).is_err(), "{values}");
    }
}

#[tokio::test]
async fn bytes_and_texts_come_back_as_they_were() {
    let bench = Bench::new().await;
    let mut events = Vec::new();
    for payload in
        [vec![], vec![0], vec![0xff, 0xfe, 0, 1], "{\"a\":\"q\\\"q\"}".into(), vec![7; 1024 * 1024]]
    {
        let mut event = Envelope::new("größe.geändert", payload);
        event.key = Some("schlüssel 🔑".to_owned());
        event.subject = Some("\u{1F4E6} 'x'; --".to_owned());
        event.headers.insert("h".to_owned(), "\"quoted\" \\ ünï".to_owned());
        event.version = u32::MAX;
        events.push(event);
    }
    bench.store.publish(events.clone()).await.unwrap();
    let lease = bench.lease("main").await;
    let claimed = bench.claim(&lease).await;
    assert_eq!(claimed.len(), events.len());
    for (claimed, mut event) in claimed.iter().zip(events.clone()) {
        event.occurred_at = claimed.parcel.envelope.occurred_at;
        assert_eq!(*claimed.parcel.envelope, event);
    }
    let mut page = Page::first(10);
    page.with_payload = true;
    let found = bench.store.find(&Filter::default(), page).await.unwrap();
    assert_eq!(found.records[0].envelope.payload, events[4].payload);
    assert_eq!(found.records[0].payload_bytes, Some(1024 * 1024));
}

/// More than one step of everything: 2,500 events, of which the lane kills the first 1,100.
#[tokio::test]
async fn prune_goes_in_steps_and_leaves_what_is_dead_or_unread() {
    let bench = Bench::new().await;
    bench.publish(2_500).await;
    let lease = bench.lease("main").await;
    let first = bench.claim(&lease).await;
    bench.settle(&lease, &first, dead()).await;
    let more = bench.store.claim(&lease, Room { events: 100, bytes: u64::MAX }).await.unwrap();
    bench.settle(&lease, &more, dead()).await;
    let last = bench.claim(&lease).await;
    bench.settle(&lease, &last, Outcome::Delivered).await;
    bench.clock.advance(Duration::from_secs(100));

    let age = |seconds| Some(Duration::from_secs(seconds));
    let prune = |delivered_age, dead_age, dry_run| Command::Prune { delivered_age, dead_age, dry_run };
    let all = Filter::default();
    assert_eq!(bench.apply(&all, prune(age(200), age(200), false)).await, (0, 0), "nothing is that old");
    assert_eq!(bench.apply(&all, prune(age(50), None, true)).await, (1_000, 0));
    assert_eq!(
        bench.apply(&all, prune(age(50), None, false)).await,
        (1_000, 1_000),
        "400 are unread, 1,100 dead"
    );
    assert_eq!(bench.apply(&all, prune(age(50), age(50), true)).await, (1_100, 0));
    assert_eq!(bench.apply(&all, prune(None, age(50), false)).await, (1_100, 1_100));
    let stats = all_lanes(&*bench.store).await.unwrap().remove(0);
    assert_eq!((stats.accepted, stats.delivered, stats.dead, stats.discarded), (2_100, 1_000, 0, 1_100));
    assert!(stats.adds_up());
    assert_eq!(bench.drain(&lease, Outcome::Delivered).await, 400, "the unread ones are still there");
    // What takes several steps is recorded with each that removes something, and its last record says how many there are.
    let pruned = "SELECT count(*) FROM posthaste_audit WHERE command = 'prune' AND actor = 'test'";
    assert_eq!(bench.count(pruned), 5);
    assert_eq!(bench.count(&format!("{pruned} AND filter NOT LIKE '%\"part\":%'")), 3, "commands");
}

/// What was given up or expired has a time of death too, and there may be very much of it.
#[tokio::test]
async fn what_is_dead_is_counted_behind_any_number_of_discarded_events() {
    let bench = Bench::new().await;
    bench.publish(1).await;
    let lease = bench.lease("main").await;
    let first = bench.claim(&lease).await;
    bench.settle(&lease, &first, dead()).await;
    let discarded = "WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 22000) \
         INSERT INTO posthaste_parked (lane, seq, state, dead_at) SELECT 'main', i, 'discarded', 1800000001000000 + i FROM n";
    assert_eq!(bench.file().execute(discarded, []).unwrap(), 21_001);
    let codes = bench.store.dead_by_code(&of_lane("main")).await.unwrap();
    let told: Vec<_> = codes.groups.iter().map(|group| (group.code.as_deref(), group.events)).collect();
    assert_eq!(told, [(Some("http 400"), 1)]);
    assert!(!codes.is_partial);
}

#[tokio::test]
async fn without_a_lane_nothing_is_pruned_and_numbers_are_never_given_twice() {
    let bench = Bench::new().await;
    bench.publish(3).await;
    bench.clock.advance(Duration::from_secs(100));
    let prune = Command::Prune { delivered_age: Some(Duration::ZERO), dead_age: None, dry_run: false };
    assert_eq!(bench.apply(&Filter::default(), prune.clone()).await, (0, 0));
    let lease = bench.lease("main").await;
    assert_eq!(bench.drain(&lease, Outcome::Delivered).await, 3);
    assert_eq!(bench.apply(&Filter::default(), prune).await, (3, 3));
    bench.publish(1).await;
    assert_eq!(bench.claim(&lease).await[0].ticket.0, 4, "the place of the lane is 3");
}

#[tokio::test]
async fn commands_over_many_events_go_in_steps_and_the_totals_add_up() {
    let bench = Bench::new().await;
    bench.publish(2_300).await;
    let lease = bench.lease("main").await;
    assert_eq!(bench.drain(&lease, dead()).await, 2_300);
    let lane = of_lane("main");
    assert_eq!(bench.apply(&lane, Command::Redrive { dry_run: true }).await, (2_300, 0));
    assert_eq!(bench.apply(&lane, Command::Redrive { dry_run: false }).await, (2_300, 2_300));
    bench.assert_totals().await;
    assert_eq!(bench.drain(&lease, Outcome::Delivered).await, 2_300);
    assert_eq!(bench.apply(&lane, Command::Replay { dry_run: false }).await, (2_300, 2_300));
    bench.assert_totals().await;
    let reason = "not needed".to_owned();
    assert_eq!(bench.apply(&lane, Command::Discard { reason, dry_run: false }).await, (2_300, 2_300));
    let stats = all_lanes(&*bench.store).await.unwrap().remove(0);
    assert_eq!((stats.delivered, stats.discarded, stats.replayed, stats.waiting), (2_300, 2_300, 2_300, 0));
    assert!(stats.adds_up());
    assert_eq!(bench.apply(&lane, Command::Remove { dry_run: true }).await, (2_300, 0));
    assert_eq!(bench.apply(&lane, Command::Remove { dry_run: false }).await, (2_300, 2_300));
    assert_eq!(bench.store.settle(&lease, Vec::new(), Then::Hold).await.unwrap(), Standing::Lost);
    assert!(bench.lease("main").await.epoch() > lease.epoch(), "an old lease never looks valid again");
}

/// A seek over more than one step looks at: what is passed is counted once, and the record is one line.
#[tokio::test]
async fn a_lane_is_moved_over_a_long_log_in_steps() {
    let bench = Bench::new().await;
    let lease = bench.lease("main").await;
    bench.publish(3).await;
    assert_eq!(bench.drain(&lease, Outcome::Delivered).await, 3);
    bench
        .file()
        .execute_batch(
            "INSERT INTO posthaste_events (event_id, event_type, payload)
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 45000) SELECT 'n' || n, 'x', '{}' FROM n",
        )
        .unwrap();
    let seek = |to, dry_run| Command::Seek { to, dry_run };
    assert_eq!(bench.apply(&of_lane("main"), seek(Seek::End, true)).await, (45_000, 0));
    assert_eq!(bench.apply(&of_lane("main"), seek(Seek::End, false)).await, (45_000, 45_000));
    let stats = all_lanes(&*bench.store).await.unwrap().remove(0);
    let totals = (stats.accepted, stats.delivered, stats.discarded, stats.unread);
    assert_eq!(totals, (45_003, 3, 45_000, 0));
    let record = bench.store.audited(&AuditFilter::default(), Page::first(10)).await.unwrap().entries;
    assert_eq!((record.len(), record[0].applied.changed), (1, 45_000));
    assert!(record[0].filter.contains("\"parts\":3"), "{}", record[0].filter);
    assert_eq!(bench.apply(&of_lane("main"), seek(Seek::Beginning, true)).await, (45_003, 0));
    assert_eq!(bench.apply(&of_lane("main"), seek(Seek::Beginning, false)).await, (45_003, 45_003));
    bench.assert_totals().await;
}

#[tokio::test]
async fn find_pages_through_more_than_one_page_of_work() {
    let bench = Bench::new().await;
    bench.publish(25_000).await;
    let mut rare = Envelope::new("rare", "{}");
    rare.key = Some("k".to_owned());
    bench.store.publish(vec![rare]).await.unwrap();
    bench.publish(100).await;
    let mut filter = Filter::default();
    filter.event_type = Some("order.placed".to_owned());
    filter.key = Some("nobody".to_owned());
    let found = bench.store.find(&filter, Page::first(10)).await.unwrap();
    assert!(found.records.is_empty() && found.next.is_some(), "a page's work is bounded");
    filter.event_type = Some("rare".to_owned());
    filter.key = Some("k".to_owned());
    let found = bench.store.find(&filter, Page::first(10)).await.unwrap();
    assert_eq!(found.records[0].envelope.event_type, "rare");

    let (mut page, mut seen) = (Page::first(1_000), Vec::new());
    loop {
        let found = bench.store.find(&Filter::default(), page.clone()).await.unwrap();
        seen.extend(found.records.iter().map(|record| record.seq));
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=25_101).rev().collect::<Vec<_>>(), "everything once, the newest first");
}

#[tokio::test]
async fn a_lane_that_wants_little_reads_on_at_once_and_does_not_read_twice() {
    let bench = Bench::new().await;
    bench.publish(45_000).await;
    bench.store.publish(vec![Envelope::new("rare", "{}")]).await.unwrap();
    let mut spec = LaneSpec::new("rare".parse().unwrap());
    spec.topics = vec!["rare".parse().unwrap()];
    let lease = bench.store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    for _ in 0..2 {
        assert!(bench.claim(&lease).await.is_empty(), "a claim's work is bounded");
        // Would hang for an hour if the store thought that there was nothing to do.
        bench.store.wait(&spec, Duration::from_secs(3_600)).await;
    }
    assert_eq!(bench.claim(&lease).await.len(), 1);
    bench.store.settle(&lease, Vec::new(), Then::Hold).await.unwrap();
    assert_eq!(all_lanes(&*bench.store).await.unwrap()[0].position, 45_000);
}

#[tokio::test]
async fn scheduled_events_beyond_memory_are_recorded_without_a_settle() {
    let bench = Bench::new().await;
    for _ in 0..25 {
        let events = (0..500).map(|_| {
            let mut event = Envelope::new("later", "{}");
            event.available = Some(posthaste::time::Moment::In(Duration::from_secs(60)));
            event
        });
        bench.store.publish(events.collect()).await.unwrap();
    }
    let lease = bench.lease("main").await;
    assert!(bench.claim(&lease).await.is_empty());
    let stats = all_lanes(&*bench.store).await.unwrap().remove(0);
    assert_eq!((stats.waiting, stats.position), (12_500, 12_500));
    bench.clock.advance(Duration::from_secs(61));
    assert_eq!(bench.drain(&lease, Outcome::Delivered).await, 12_500);
    bench.assert_totals().await;
}

#[tokio::test]
async fn an_erased_payload_is_gone_from_the_file() {
    let bench = Bench::new().await;
    let secret = "the-secret-payload-that-must-go";
    let event = Envelope::new("order.placed", secret);
    bench.store.publish(vec![event.clone(), Envelope::new("order.placed", "kept")]).await.unwrap();
    let mut filter = Filter::default();
    filter.ids = vec![event.id.clone()];
    assert_eq!(bench.apply(&filter, Command::Erase { dry_run: true }).await, (1, 0));
    assert_eq!(bench.apply(&filter, Command::Erase { dry_run: false }).await, (1, 1));
    assert_eq!(
        bench.apply(&filter, Command::Erase { dry_run: false }).await,
        (0, 0),
        "there is nothing left of it"
    );
    let found = bench.store.find(&filter, Page::first(1)).await.unwrap();
    assert_eq!(found.records[0].payload_bytes, None);
    assert_eq!(
        bench.store.publish(vec![event]).await.unwrap(),
        [Published::Before],
        "a late second try is no conflict"
    );
    bench.file().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let bytes = std::fs::read(bench.folder.path().join("store.db")).unwrap();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[tokio::test]
async fn a_second_store_on_the_file_sees_everything_and_takes_over() {
    let bench = Bench::new().await;
    bench.publish(3).await;
    let lease = bench.lease("main").await;
    let claimed = bench.claim(&lease).await;
    bench.settle(&lease, &claimed[..1], Outcome::Delivered).await;

    let second = Bench::open(&bench.folder, &bench.clock).await;
    let spec = LaneSpec::new("main".parse().unwrap());
    let other = Owner::new("other");
    assert!(second.acquire(&spec, &other).await.unwrap().is_none(), "the lease lasts");
    bench.clock.advance(Duration::from_secs(11));
    let taken = second.acquire(&spec, &other).await.unwrap().unwrap();
    let again = second.claim(&taken, Room { events: 10, bytes: u64::MAX }).await.unwrap();
    assert_eq!(again.iter().map(|claimed| claimed.ticket.0).collect::<Vec<_>>(), [2, 3]);
    let late = vec![Settled::new(claimed[1].ticket, Outcome::Delivered)];
    assert_eq!(bench.store.settle(&lease, late, Then::Hold).await.unwrap(), Standing::Lost);
    let found = second.find(&Filter::default(), Page::first(10)).await.unwrap();
    let states: Vec<_> = found.records.iter().map(|record| record.lanes[0].state).collect();
    assert_eq!(states, [EventState::Pending, EventState::Pending, EventState::Delivered]);
}

/// A claim looks at a bounded number of events, and one pass comes to the end all the same.
#[tokio::test]
async fn one_pass_delivers_what_comes_after_any_number_of_events_of_other_lanes() {
    let bench = Bench::new().await;
    let file = Connection::open(bench.folder.path().join("store.db")).unwrap();
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 45000)
                INSERT INTO posthaste_events (event_id, event_type, payload) SELECT 'other-' || n, 'other', '' FROM n";
    file.execute_batch(many).unwrap();
    bench.store.publish(vec![Envelope::new("wanted", "{}")]).await.unwrap();
    let target = Scripted::new();
    let lane = Lane::named("main").unwrap().topics(["wanted"]).unwrap().to(Arc::new(target.clone()));
    let done = Relay::new(bench.store as Arc<dyn Store>).lane(lane).once().await.unwrap();
    assert_eq!(done.delivered, 1);
}
