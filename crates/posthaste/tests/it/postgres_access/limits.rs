//! What may take how long on the server: said by every transaction, as a pooler gives sessions to others.

use std::time::{Duration, Instant};

use posthaste::ErrorKind;
use posthaste::admin::{Actor, Applied, Command, Filter, Pace};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::review::AuditEntry;
use posthaste::store::{Owner, StoreOptions, Then, open_with};
use posthaste::time::Timestamp;

use crate::postgres_access::scope::{Scope, connect};

/// Far more than the limits that are tried.
const LONG: Duration = Duration::from_secs(20);

fn options(statement: Duration, lock: Duration) -> StoreOptions {
    let mut options = StoreOptions::default();
    (options.statement_timeout, options.lock_timeout) = (statement, lock);
    options
}

#[tokio::test]
async fn a_lock_that_somebody_holds_is_waited_for_as_long_as_was_said() {
    let trial = "limits::a_lock_that_somebody_holds_is_waited_for_as_long_as_was_said";
    let Some(scope) = Scope::new(trial).await else { return };
    let scope = scope.migrated().await;
    let short = Duration::from_millis(200);
    let store = open_with(&scope.url, options(LONG, short)).await.unwrap();
    let lane = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().expect("it is free");

    let holder = scope.session().await;
    let hold = "BEGIN; SELECT FROM posthaste_lanes FOR UPDATE;
                INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('one', 'x', '{}')";
    holder.batch_execute(hold).await.unwrap();
    let mut event = Envelope::new("x", "{}");
    event.id = "one".to_owned();
    let begun = Instant::now();
    let published = store.publish(vec![event]).await.unwrap_err();
    let pause = store
        .apply(&Filter::default(), Command::Pause, &Actor::new("test", "test"), &Pace::full())
        .await
        .unwrap_err();
    for error in [published, pause] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("store.lock_timeout"), "{error}");
    }
    assert!(begun.elapsed() < LONG, "the limit of the lock, not that of the statement");

    // A settle of one statement has no transaction to say it in: it is ended from here.
    let store = open_with(&scope.url, options(short, LONG)).await.unwrap();
    let error = store.settle(&lease, Vec::new(), Then::Hold).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("store.statement_timeout"), "{error}");
    assert!(begun.elapsed() < LONG);
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let watcher = scope.session().await;
    posthaste_testkit::wait::eventually(LONG, "nothing waits on the server any more", async || {
        watcher.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await
    .unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    // With the short limit a slow disk would be enough to fail it.
    let store = open_with(&scope.url, options(LONG, LONG)).await.unwrap();
    store.publish(vec![Envelope::new("x", "{}")]).await.unwrap();
    scope.end().await;
}

#[tokio::test]
async fn the_limits_end_with_the_transaction() {
    let Some(scope) = Scope::new("limits::the_limits_end_with_the_transaction").await else { return };
    let scope = scope.migrated().await;
    // A trigger tells what is set in the transaction that publishes.
    let watcher = connect(&scope.url).await;
    watcher
        .batch_execute(
            "CREATE TABLE seen (statement text, lock text, idle text);
             CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen VALUES (current_setting('statement_timeout'), current_setting('lock_timeout'),
                                          current_setting('idle_in_transaction_session_timeout'));
                 RETURN NULL;
             END $$;
             CREATE TRIGGER see AFTER INSERT ON posthaste_events FOR EACH STATEMENT EXECUTE FUNCTION see();
             CREATE TRIGGER see AFTER INSERT ON posthaste_audit FOR EACH STATEMENT EXECUTE FUNCTION see()",
        )
        .await
        .unwrap();
    let store = open_with(&scope.url, options(Duration::from_secs(7), Duration::from_secs(3))).await.unwrap();
    store.publish(vec![Envelope::new("x", "{}")]).await.unwrap();
    // What somebody else did is recorded by a statement of its own, on the same connection.
    let (by, applied) = (Actor::new("test", "test"), Applied::new(1, 1));
    let entry = AuditEntry::new(0, Timestamp::default(), by, "key-add", "{}", applied);
    assert!(store.record(&entry).await.unwrap());
    let rows = watcher.query("SELECT statement, lock, idle FROM seen", &[]).await.unwrap();
    let seen: Vec<[String; 3]> = rows.iter().map(|row| [row.get(0), row.get(1), row.get(2)]).collect();
    assert_eq!(seen, [["7s", "3s", "5s"], ["0", "0", "0"]]);
    scope.end().await;
}
