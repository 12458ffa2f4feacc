//! Transactions that last, targets that are slow, and a database that is away.

use std::time::{Duration, Instant};

use crate::folder::Running;
use crate::stand::{DEADLINE, Seen, Stand, connect};

const INSERT: &str = "INSERT INTO openoutbox_events (event_id, event_type, payload)
    SELECT gen_random_uuid(), 'order.placed', convert_to('{\"n\":' || n || '}', 'UTF8') FROM generate_series(1, 50) n";

/// Everything came, and nothing came twice.
async fn assert_once(stand: &Stand, seen: &Seen) {
    for id in stand.ids().await {
        assert_eq!(seen.times(&id), 1, "{id}");
    }
}

/// Transactions begin in one order and commit in another, while a relay is long past their times: nothing is passed over.
#[tokio::test]
async fn what_commits_late_is_delivered() {
    let Some(stand) = Stand::new("what_commits_late_is_delivered").await else { return };
    let seen = Seen::default();
    let relay = stand.relay(&seen);
    let mut late = Vec::new();
    for _ in 0..5 {
        let producer = connect(&stand.url()).await;
        producer.batch_execute(&format!("BEGIN; {INSERT}")).await.unwrap();
        late.push(producer);
        stand.insert(50).await;
        seen.until(late.len() * 50);
    }
    // The youngest first.
    for (ended, producer) in late.iter().rev().enumerate() {
        producer.batch_execute("COMMIT").await.unwrap();
        seen.until(250 + (ended + 1) * 50);
    }
    stand.until(500, "status = 'DELIVERED'").await;
    drop(relay);
    assert_once(&stand, &seen).await;
    stand.end().await;
}

/// A reader keeps its snapshot, so that nothing of what is delivered can be cleaned up: the rest flows all the same.
#[tokio::test]
async fn a_long_open_transaction_delays_nobody() {
    let Some(stand) = Stand::new("a_long_open_transaction_delays_nobody").await else { return };
    let reader = connect(&stand.url()).await;
    let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM openoutbox_events";
    reader.batch_execute(open).await.unwrap();
    let writer = connect(&stand.url()).await;
    writer.batch_execute(&format!("BEGIN; {INSERT}")).await.unwrap();
    let seen = Seen::default();
    let relay = stand.relay(&seen);
    for round in 1..=10 {
        let before = Instant::now();
        stand.insert(400).await;
        seen.until(round * 400);
        assert!(before.elapsed() < Duration::from_secs(10), "round {round} took {:?}", before.elapsed());
    }
    writer.batch_execute("COMMIT").await.unwrap();
    stand.until(4_050, "status = 'DELIVERED'").await;
    seen.until(4_050);
    reader.batch_execute("COMMIT").await.unwrap();
    drop(relay);
    assert_once(&stand, &seen).await;
    stand.end().await;
}

/// One key's rows are claimed together and sent one by one to a target that takes longer for all of them than a lease lasts, with
/// another relay beside that looks for leases that have ended: they are renewed, and every row comes once.
#[tokio::test]
async fn a_batch_that_is_slower_than_its_lease_is_not_delivered_twice() {
    const ROWS: i64 = 60;
    let Some(stand) = Stand::new("a_batch_that_is_slower_than_its_lease_is_not_delivered_twice").await else {
        return;
    };
    stand.insert(60).await;
    // Larger than what a pipe keeps, so that the reader's pace is the target's.
    let large = "UPDATE openoutbox_events SET partition_key = 'k',
        payload = convert_to('\"' || repeat('x', 12000) || '\"', 'UTF8')";
    stand.client.batch_execute(large).await.unwrap();
    let seen = Seen::default();
    let mut command =
        stand.folder.command(&["relay", "--storage-url", &stand.url(), "--publisher", "stdout:"]);
    command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "900ms");
    command.env("POSTHASTE__LANES__MAIN__ORDER", "key").stderr(std::process::Stdio::null());
    let mut slow = Running(command.spawn().unwrap());
    // All are claimed; the few that fit into the pipe may be delivered.
    stand.until(0, "status = 'PENDING'").await;
    let began: String = stand.one("SELECT min(locked_at)::text FROM openoutbox_events").await;
    let others = stand.relay(&seen);
    seen.read_slowly(slow.0.stdout.take().unwrap(), Duration::from_millis(50));
    stand.until(ROWS, "status = 'DELIVERED' AND attempts = 0").await;
    let took =
        format!("SELECT (max(delivered_at) - '{began}' > interval '1 second')::text FROM openoutbox_events");
    assert_eq!(stand.one(&took).await, "true", "it was to take longer than a lease");
    seen.until(60);
    drop((slow, others));
    assert_once(&stand, &seen).await;
    stand.end().await;
}

/// An outcome cannot be stored after its event was published: the row comes once more when its lease has ended, and then no more.
#[tokio::test]
async fn an_outcome_that_cannot_be_stored_is_one_duplicate_and_no_loop() {
    let Some(stand) = Stand::new("an_outcome_that_cannot_be_stored_is_one_duplicate_and_no_loop").await
    else {
        return;
    };
    // The first time that a row is to be delivered the table refuses it.
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.status = 'DELIVERED' AND OLD.attempts = 0 THEN RAISE EXCEPTION 'not yet'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION refuse();";
    stand.client.batch_execute(refuse).await.unwrap();
    stand.insert(20).await;
    let seen = Seen::default();
    let mut relay = stand.relay(&seen);
    let end = Instant::now() + DEADLINE;
    while stand.count("status = 'DELIVERED'").await < 20 {
        assert!(Instant::now() < end, "not all of them are delivered");
        // A table that refuses an outcome is no outage: whoever supervises the relay starts it again.
        if relay.0.try_wait().unwrap().is_some() {
            relay = stand.relay(&seen);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stand.insert(5).await;
    stand.client.batch_execute("DROP TRIGGER refuse ON openoutbox_events").await.unwrap();
    stand.until(25, "status = 'DELIVERED'").await;
    drop(relay);
    for id in stand.ids_where("attempts > 0").await {
        assert_eq!(seen.times(&id), 2, "{id}: published, refused, published again, stored");
    }
    stand.end().await;
}

/// Postgres is killed again and again while rows come and two relays work: every row that was committed arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_and_comes_back_loses_nothing() {
    const ROUNDS: usize = 3;
    let trial = "a_database_that_is_killed_and_comes_back_loses_nothing";
    let Some(mut server) = crate::stand::private_server(trial) else { return };
    let mut stand = Stand::at(server.url()).await;
    let seen = Seen::default();
    let relays = [(); 2].map(|()| stand.relay(&seen));
    for round in 1..=ROUNDS {
        stand.insert(2_000).await;
        seen.until(round * 2_000 - 1_500);
        tokio::task::block_in_place(|| {
            server.kill().unwrap();
            server.start().unwrap();
        });
        stand.client = connect(&stand.url()).await;
    }
    stand.until(6_000, "status = 'DELIVERED'").await;
    seen.until(6_000);
    drop(relays);
    for id in stand.ids().await {
        assert!(seen.times(&id) >= 1, "{id} never came");
    }
    assert_eq!(stand.count("locked_by IS NOT NULL").await, 0);
}
