//! Transactions that last, targets that are slow, and a database that is away.

use std::time::{Duration, Instant};

use crate::table::stand::{Seen, Stand, insert, on_every_database};

on_every_database! {
    new: what_commits_late_is_delivered, a_long_open_transaction_delays_nobody,
    a_batch_that_is_slower_than_its_lease_is_not_delivered_twice,
    an_outcome_that_cannot_be_stored_is_one_duplicate_and_no_loop,
    a_row_whose_outcome_is_never_stored_keeps_nobody_else_from_it,
    an_error_that_is_longer_than_its_column_is_cut,
}
on_every_database! { private: a_database_that_is_killed_and_comes_back_loses_nothing }

/// Transactions begin in one order and commit in another, while a relay is long past their times: nothing is passed over.
async fn what_commits_late_is_delivered(stand: Stand) {
    let seen = Seen::default();
    let relay = stand.lasting_relay(&seen);
    let mut late = Vec::new();
    for _ in 0..5 {
        let producer = stand.session().await;
        producer.say(&format!("BEGIN; {}", insert(50))).await;
        late.push(producer);
        stand.insert(50).await;
        seen.until(late.len() * 50);
    }
    // The youngest first.
    for (ended, producer) in late.iter().rev().enumerate() {
        producer.say("COMMIT").await;
        seen.until(250 + (ended + 1) * 50);
    }
    stand.until(500, "status = 'DELIVERED'").await;
    drop(relay);
    stand.assert_once(&seen).await;
    stand.end().await;
}

/// A reader keeps its snapshot, so that nothing of what is delivered can be cleaned up: the rest flows all the same.
async fn a_long_open_transaction_delays_nobody(stand: Stand) {
    let reader = stand.session().await;
    let open = stand.base.either(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM openoutbox_events",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    );
    reader.say(open).await;
    let writer = stand.session().await;
    writer.say(&format!("BEGIN; {}", insert(50))).await;
    let seen = Seen::default();
    let relay = stand.lasting_relay(&seen);
    for round in 1..=10 {
        let before = Instant::now();
        stand.insert(300).await;
        seen.until(round * 300);
        assert!(before.elapsed() < Duration::from_secs(20), "round {round} took {:?}", before.elapsed());
    }
    writer.say("COMMIT").await;
    stand.until(3_050, "status = 'DELIVERED'").await;
    seen.until(3_050);
    reader.say("COMMIT").await;
    drop(relay);
    stand.assert_once(&seen).await;
    stand.end().await;
}

/// One key's rows are claimed together and sent one by one to a target that takes longer for all of them than a lease lasts, with
/// another relay beside that looks for leases that have ended: they are renewed, and every row comes once.
async fn a_batch_that_is_slower_than_its_lease_is_not_delivered_twice(stand: Stand) {
    const ROWS: i64 = 60;
    stand.insert(60).await;
    // Larger than what a pipe keeps, so that the reader's pace is the target's.
    let large = "x".repeat(12_000);
    stand.say(&format!("UPDATE openoutbox_events SET partition_key = 'k', payload = '\"{large}\"'")).await;
    let seen = Seen::default();
    let mut slow = stand.quiet_relay(&[
        ("POSTHASTE__RELAY__LEASE", "6s"),
        ("POSTHASTE__LANES__MAIN__TIMEOUT", "5s"),
        ("POSTHASTE__LANES__MAIN__ORDER", "key"),
        ("POSTHASTE__LANES__MAIN__WINDOW", "1000"),
    ]);
    // All are claimed; the few that fit into the pipe may be delivered.
    stand.until(0, "status = 'PENDING'").await;
    let began = Instant::now();
    let mut others = stand.quiet_relay(&[("POSTHASTE__RELAY__LEASE", "6s")]);
    seen.read_slowly(others.0.stdout.take().unwrap(), Duration::ZERO);
    seen.read_slowly(slow.0.stdout.take().unwrap(), Duration::from_millis(150));
    stand.until(ROWS, "status = 'DELIVERED' AND attempts = 0").await;
    assert!(began.elapsed() > Duration::from_secs(6), "it was to take longer than a lease");
    seen.until(60);
    drop((slow, others));
    stand.assert_once(&seen).await;
    stand.end().await;
}

/// An outcome cannot be stored after its event was published: the row counts as failed and comes once more, and then no more.
async fn an_outcome_that_cannot_be_stored_is_one_duplicate_and_no_loop(stand: Stand) {
    // The first time that a row is to be delivered the table refuses it.
    let refuse = stand.base.either(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.status = 'DELIVERED' AND OLD.attempts = 0 THEN RAISE EXCEPTION 'not yet'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION refuse();",
        "CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
            IF NEW.status = 'DELIVERED' AND OLD.attempts = 0 THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not yet';
            END IF",
    );
    stand.say(refuse).await;
    stand.insert(20).await;
    let seen = Seen::default();
    let mut relay = stand.lasting_relay(&seen);
    stand.until(20, "status = 'DELIVERED' AND attempts = 1").await;
    assert_eq!(relay.0.try_wait().unwrap(), None, "a table that refuses an outcome is no reason to end");
    stand.insert(5).await;
    stand.say(stand.base.either("DROP TRIGGER refuse ON openoutbox_events", "DROP TRIGGER refuse")).await;
    stand.until(25, "status = 'DELIVERED'").await;
    drop(relay);
    for id in stand.ids_where("attempts > 0").await {
        assert_eq!(seen.times(&id), 2, "{id}: published, refused, published again, stored");
    }
    stand.end().await;
}

/// One row is refused whenever it is to be delivered: the others come once, the relay lives, and the row waits longer each time.
async fn a_row_whose_outcome_is_never_stored_keeps_nobody_else_from_it(stand: Stand) {
    let refuse = stand.base.either(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.status = 'DELIVERED' AND OLD.event_type = 'cursed' THEN RAISE EXCEPTION 'never'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION refuse();",
        "CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
            IF NEW.status = 'DELIVERED' AND OLD.event_type = 'cursed' THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'never';
            END IF",
    );
    stand.say(refuse).await;
    stand.insert(30).await;
    let cursed = stand.ids().await.remove(17);
    stand
        .say(&format!("UPDATE openoutbox_events SET event_type = 'cursed' WHERE event_id = '{cursed}'"))
        .await;
    let seen = Seen::default();
    let mut relay = stand.lasting_relay(&seen);
    stand.until(29, "status = 'DELIVERED'").await;
    stand.until(1, "status = 'PENDING' AND attempts >= 3 AND last_error LIKE 'OUTCOME_REFUSED%never%'").await;
    stand.insert(10).await;
    stand.until(39, "status = 'DELIVERED'").await;
    assert_eq!(relay.0.try_wait().unwrap(), None, "it lives");
    let attempts: u32 = stand.one("SELECT max(attempts) FROM openoutbox_events").await.parse().unwrap();
    // 1 s, then 2 s, then 4 s.
    assert!(attempts <= 5, "in a loop: {attempts} attempts");
    relay.signal("TERM");
    assert_eq!(relay.code(), 0);
    for id in stand.ids().await.iter().filter(|id| **id != cursed) {
        assert_eq!(seen.times(id), 1, "{id}");
    }
    assert!(seen.times(&cursed) <= attempts + 2, "published once for each attempt");
    stand.end().await;
}

/// A column for errors that takes a few characters takes the first few.
async fn an_error_that_is_longer_than_its_column_is_cut(stand: Stand) {
    let narrow = stand.base.either(
        "ALTER TABLE openoutbox_events ALTER COLUMN last_error TYPE varchar(12)",
        "ALTER TABLE openoutbox_events MODIFY last_error varchar(12)",
    );
    stand.say(narrow).await;
    stand.insert(3).await;
    let now = stand.base.either("now()", "utc_timestamp(6)");
    let bad = stand.base.either("'[1]'::jsonb", "'[1]'");
    let [dead, crashed, _] = &stand.ids().await[..] else { panic!("three rows") };
    stand.say(&format!("UPDATE openoutbox_events SET headers = {bad} WHERE event_id = '{dead}'")).await;
    stand
        .say(&format!(
            "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'x', locked_at = {now} - INTERVAL {} \
             WHERE event_id = '{crashed}'",
            stand.base.either("'1 hour'", "1 HOUR")
        ))
        .await;
    let relay = stand.patient_relay(&Seen::default());
    stand.until(1, "status = 'DEAD' AND last_error = 'INVALID_HEAD'").await;
    stand.until(1, "status = 'DELIVERED' AND last_error = 'LEASE_EXPIRE'").await;
    stand.until(2, "status = 'DELIVERED'").await;
    drop(relay);
    stand.end().await;
}

/// The server is killed again and again while rows come and two relays work: every row that was committed arrives, and the relays
/// stop as they should.
async fn a_database_that_is_killed_and_comes_back_loses_nothing(mut stand: Stand) {
    let seen = Seen::default();
    let mut relays = [(); 2].map(|()| stand.relay(&seen));
    for round in 0..3 {
        stand.insert(1_000).await;
        seen.until(round * 1_000 + 250);
        stand.crash();
    }
    stand.insert(100).await;
    stand.until(3_100, "status = 'DELIVERED'").await;
    seen.until(3_100);
    for relay in &mut relays {
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
    }
    for id in stand.ids().await {
        assert!(seen.times(&id) >= 1, "{id} never came");
    }
    assert_eq!(stand.count("locked_by IS NOT NULL").await, 0);
}
