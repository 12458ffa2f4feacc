//! Idempotency records: the same contract for memory, SQLite, Postgres, MariaDB and Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::consumer::{
    Begun, Consumer, Cx, Dedup, DedupKey, Failure, Finished, Idempotent, MemoryDedup, NoDatabase, Token,
};
use posthaste::envelope::Envelope;
use posthaste::local::LocalBroker;
use posthaste::prefix::TablePrefix;
use posthaste::store::{StoreOptions, open_dedup};
use posthaste::time::{ManualClock, Timestamp};
use posthaste_testkit::rig::{RigClock, RigMaker as _};

use crate::inbox::place::servers;
use crate::inbox::{Placed, placed};

const MINUTE: Duration = Duration::from_secs(60);

/// A store, and how its clock is moved.
struct Records {
    store: Arc<dyn Dedup>,
    pass: Box<dyn Fn(Duration) + Send + Sync>,
    _keeper: Box<dyn Send + Sync>,
}

fn memory() -> Records {
    let clock = ManualClock::at(Timestamp::from_micros(1_000_000));
    let store = Arc::new(MemoryDedup::on(clock.clone()));
    Records { store, pass: Box::new(move |span| clock.advance(span)), _keeper: Box::new(()) }
}

async fn sqlite() -> Records {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(1_000_000));
    let mut options = StoreOptions::default();
    options.clock = Arc::new(clock.clone());
    let url = format!("sqlite://{}", folder.path().join("dedup.db").display());
    let store = open_dedup(&url, options).await.unwrap();
    Records { store, pass: Box::new(move |span| clock.advance(span)), _keeper: Box::new(folder) }
}

async fn postgres(server: &crate::postgres::PostgresRigs) -> Records {
    let rig = server.rig(RigClock::Manual).await.unwrap();
    let store = open_dedup(&rig.url().unwrap(), StoreOptions::default()).await.unwrap();
    let keeper = Arc::clone(&rig);
    Records { store, pass: Box::new(move |span| rig.pass(span)), _keeper: Box::new(keeper) }
}

/// `None`: there is no server, and the trial was said to be skipped.
async fn mariadb(trial: &str) -> Option<Records> {
    if let Some(why) = crate::mariadb::missing() {
        crate::inbox::place::skip(trial, &why);
        return None;
    }
    let scope = crate::mariadb::Scope::new(&crate::mariadb::server().unwrap()).await.unwrap();
    let tables = posthaste_core::sql::mysql_ddl(&TablePrefix::default());
    crate::mariadb::say(&mut crate::mariadb::connect(&scope.url()).await.unwrap(), &tables).await.unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000));
    let mut options = StoreOptions::default();
    options.clock = Arc::new(clock.clone());
    let store = open_dedup(&scope.url(), options).await.unwrap();
    Some(Records { store, pass: Box::new(move |span| clock.advance(span)), _keeper: Box::new(scope) })
}

/// A URL with a prefix of its own; `None`: there is no server, and the trial was said to be skipped.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment where a server is")]
fn redis_url(trial: &str) -> Option<String> {
    let Ok(server) = std::env::var("POSTHASTE_TEST_REDIS") else {
        crate::inbox::place::skip(trial, "POSTHASTE_TEST_REDIS is not set");
        return None;
    };
    Some(format!("{server}?prefix=dedup-{}:", posthaste::envelope::fresh_id()))
}

async fn redis(trial: &str) -> Option<Records> {
    let url = redis_url(trial)?;
    let clock = ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000));
    let mut options = StoreOptions::default();
    options.clock = Arc::new(clock.clone());
    let store = open_dedup(&url, options).await.unwrap();
    Some(Records { store, pass: Box::new(move |span| clock.advance(span)), _keeper: Box::new(()) })
}

/// Makes a test of each function for each store.
macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[tokio::test]
            async fn memory() {
                super::$test(super::memory()).await;
            }

            #[tokio::test]
            async fn sqlite() {
                super::$test(super::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                for server in super::servers(concat!("dedup::", stringify!($test), "::postgres")) {
                    super::$test(super::postgres(server).await).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                if let Some(records) = super::mariadb(concat!("dedup::", stringify!($test), "::mariadb")).await {
                    super::$test(records).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                if let Some(records) = super::redis(concat!("dedup::", stringify!($test), "::redis")).await {
                    super::$test(records).await;
                }
            }
        }
    )*};
}

on_every_store! {
    a_record_is_begun_once_and_then_remembered,
    a_failure_holds_nobody,
    an_abandoned_record_is_taken_over_and_its_old_token_finishes_nothing,
    of_many_who_begin_at_once_one_does,
    only_what_ended_long_ago_is_pruned,
    records_are_kept_apart_by_consumer_source_and_id,
}

/// Redis forgets a record by itself, by its own clock.
#[tokio::test]
async fn a_record_in_redis_is_forgotten_when_its_time_is_over() {
    let trial = "dedup::a_record_in_redis_is_forgotten_when_its_time_is_over";
    let Some(url) = redis_url(trial) else { return };
    let store = open_dedup(&format!("{url}&ttl=3s"), StoreOptions::default()).await.unwrap();
    let key = key();
    let Begun::New(token) = store.begin(&key, MINUTE).await.unwrap() else { panic!("not new") };
    assert!(store.finish(&key, &token, Finished::Processed).await.unwrap());
    assert_eq!(store.begin(&key, MINUTE).await.unwrap(), Begun::Before);
    let forgotten = async || matches!(store.begin(&key, MINUTE).await, Ok(Begun::New(_)));
    posthaste_testkit::wait::eventually(MINUTE, "the record is forgotten", forgotten).await.unwrap();
}

fn key() -> DedupKey {
    DedupKey::of("stock", &Envelope::new("order.placed", "{}"))
}

async fn begin(records: &Records, key: &DedupKey) -> Begun {
    records.store.begin(key, MINUTE).await.unwrap()
}

async fn begin_new(records: &Records, key: &DedupKey) -> Token {
    match begin(records, key).await {
        Begun::New(token) => token,
        other => panic!("{other:?}"),
    }
}

async fn finish(records: &Records, key: &DedupKey, token: &Token, end: Finished) -> bool {
    records.store.finish(key, token, end).await.unwrap()
}

async fn a_record_is_begun_once_and_then_remembered(records: Records) {
    let key = key();
    let token = begin_new(&records, &key).await;
    assert_eq!(begin(&records, &key).await, Begun::Busy(MINUTE));
    (records.pass)(MINUTE / 4);
    assert_eq!(begin(&records, &key).await, Begun::Busy(MINUTE * 3 / 4));
    assert!(finish(&records, &key, &token, Finished::Processed).await);
    assert_eq!(begin(&records, &key).await, Begun::Before);
    (records.pass)(MINUTE * 100);
    assert_eq!(begin(&records, &key).await, Begun::Before, "processed is not abandoned");
    assert!(!finish(&records, &key, &token, Finished::Failed("late".into())).await, "it ended before");
    assert_eq!(begin(&records, &key).await, Begun::Before);
}

async fn a_failure_holds_nobody(records: Records) {
    let key = key();
    let token = begin_new(&records, &key).await;
    assert!(finish(&records, &key, &token, Finished::Failed("no\0text 🦀".into())).await);
    let again = begin_new(&records, &key).await;
    assert_ne!(token, again);
    assert!(!finish(&records, &key, &token, Finished::Processed).await, "the old token");
    assert!(finish(&records, &key, &again, Finished::Processed).await);
}

async fn an_abandoned_record_is_taken_over_and_its_old_token_finishes_nothing(records: Records) {
    let key = key();
    let old = begin_new(&records, &key).await;
    (records.pass)(MINUTE);
    let Begun::TakenOver(new) = begin(&records, &key).await else { panic!("not taken over") };
    assert_eq!(begin(&records, &key).await, Begun::Busy(MINUTE), "the time begins anew");
    assert!(!finish(&records, &key, &old, Finished::Processed).await);
    assert!(finish(&records, &key, &new, Finished::Failed("no".into())).await);
    let again = begin_new(&records, &key).await;
    assert!(finish(&records, &key, &again, Finished::Processed).await);
    assert_eq!(begin(&records, &key).await, Begun::Before);
}

async fn of_many_who_begin_at_once_one_does(records: Records) {
    let key = key();
    for round in 0..10 {
        let all = join_all((0..8).map(|_| begin(&records, &key))).await;
        let ours: Vec<_> = all
            .into_iter()
            .filter_map(|begun| match begun {
                Begun::New(token) | Begun::TakenOver(token) => Some(token),
                _ => None,
            })
            .collect();
        assert_eq!(ours.len(), 1, "round {round}");
        if round % 2 == 0 {
            assert!(finish(&records, &key, &ours[0], Finished::Failed("again".into())).await);
        } else {
            (records.pass)(MINUTE);
        }
    }
}

async fn only_what_ended_long_ago_is_pruned(records: Records) {
    let (running, failed, processed) = (key(), key(), key());
    begin_new(&records, &running).await;
    let token = begin_new(&records, &failed).await;
    assert!(finish(&records, &failed, &token, Finished::Failed("no".into())).await);
    let token = begin_new(&records, &processed).await;
    (records.pass)(MINUTE);
    assert!(finish(&records, &processed, &token, Finished::Processed).await);
    (records.pass)(MINUTE / 2);
    assert_eq!(records.store.prune(MINUTE, 10).await.unwrap(), 1, "what failed");
    (records.pass)(MINUTE);
    assert_eq!(records.store.prune(MINUTE, 0).await.unwrap(), 0, "no more than so many");
    assert_eq!(records.store.prune(MINUTE, 10).await.unwrap(), 1, "what was processed");
    assert_eq!(records.store.prune(MINUTE, 10).await.unwrap(), 0, "what is in progress stays");
    assert!(matches!(begin(&records, &running).await, Begun::TakenOver(_)));
}

async fn records_are_kept_apart_by_consumer_source_and_id(records: Records) {
    let event = Envelope::new("order.placed", "{}");
    let other_id = Envelope::new("order.placed", "{}");
    let mut other_source = event.clone();
    other_source.source = "/elsewhere".into();
    let keys = [
        DedupKey::of("stock", &event),
        DedupKey::of("mail", &event),
        DedupKey::of("stock", &other_id),
        DedupKey::of("stock", &other_source),
    ];
    for key in &keys {
        begin_new(&records, key).await;
    }
    for key in &keys {
        assert_eq!(begin(&records, key).await, Begun::Busy(MINUTE));
    }
}

async fn count(cx: &mut Cx<NoDatabase, Arc<AtomicU32>>, _: Placed) -> Result<(), Failure> {
    cx.state().fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// The server of the records is away: the handler is not run, nothing is dead, and the event is still there.
#[tokio::test]
async fn without_the_store_the_handler_is_not_run() {
    let nowhere = {
        // A port that nobody listens on any more.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("postgres://nobody@{}/none", listener.local_addr().unwrap())
    };
    let store = open_dedup(&nowhere, StoreOptions::default()).await.unwrap();
    let error = store.begin(&key(), MINUTE).await.unwrap_err();
    assert!(error.retryable(), "{error}");
    let (broker, runs) = (LocalBroker::new(), Arc::new(AtomicU32::new(0)));
    let consumer = Consumer::with_state("stock", Arc::clone(&runs)).on(count);
    let consumer = consumer.around(Idempotent::by(store).store_pause(Duration::from_millis(1)));
    consumer.declare(&broker).await.unwrap();
    broker.publish(placed(1)).await.unwrap();
    let asked_often = tokio::time::sleep(Duration::from_millis(300));
    consumer.run(broker.clone(), asked_often).await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(broker.dead().is_empty());
    assert_eq!(broker.close().await.left, 1);
}
