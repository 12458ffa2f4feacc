//! Several relays on one table, and relays that end without a word.

use crate::table::stand::{Base, Seen, Stand, on_every_database};

on_every_database! {
    new: relays_share_a_table_and_nothing_comes_twice, relays_killed_at_random_lose_nothing,
    a_relay_that_slept_past_its_lease_changes_nothing,
    what_a_crashed_relay_held_is_taken_over_within_a_lease_and_an_interval,
}

/// Nobody is harmed: every event comes once, whoever has it.
async fn relays_share_a_table_and_nothing_comes_twice(stand: Stand) {
    let seen = Seen::default();
    let relays = [(); 3].map(|()| stand.lasting_relay(&seen));
    for _ in 0..10 {
        stand.insert(300).await;
    }
    stand.until(3_000, "status = 'DELIVERED'").await;
    seen.until(3_000);
    drop(relays);
    stand.assert_once(&seen).await;
    stand.end().await;
}

/// Two to five relays are killed and started while rows come: every row arrives, one that no fault touched arrives once, and no
/// invariant of a row is ever broken (the table checks them itself).
async fn relays_killed_at_random_lose_nothing(stand: Stand) {
    let seen = Seen::default();
    let mut relays: Vec<_> = (0..fastrand::usize(2..=5)).map(|_| stand.relay(&seen)).collect();
    for round in 0..10 {
        stand.insert(200).await;
        seen.until(round * 40);
        // A kill, not a stop: what it held waits for its lease to end.
        relays.remove(fastrand::usize(..relays.len())).signal("KILL");
        for _ in relays.len()..fastrand::usize(2..=5) {
            relays.push(stand.relay(&seen));
        }
    }
    stand.until(2_000, "status = 'DELIVERED'").await;
    seen.until(2_000);
    for id in stand.ids().await {
        assert!(seen.times(&id) >= 1, "{id} never came");
    }
    assert_eq!(stand.count("locked_by IS NOT NULL OR locked_at IS NOT NULL").await, 0);
    drop(relays);
    for id in stand.ids_where("attempts = 0").await {
        assert_eq!(seen.times(&id), 1, "{id}: no lease of it ended and no attempt failed");
    }
    stand.end().await;
}

/// A relay stands still with rows in its hands until others have delivered them; when it wakes, what it says counts no more.
async fn a_relay_that_slept_past_its_lease_changes_nothing(stand: Stand) {
    stand.insert(40).await;
    // Nobody reads this one's stdout, and all together are larger than the pipe: it holds its rows.
    let large = "x".repeat(4_000);
    stand.say(&format!("UPDATE openoutbox_events SET payload = '\"{large}\"'")).await;
    let patient = [("POSTHASTE__RELAY__LEASE", "6s"), ("POSTHASTE__LANES__MAIN__TIMEOUT", "5s")];
    let sleeper = stand.quiet_relay(&patient);
    stand.until(40, "status = 'DELIVERING'").await;
    sleeper.signal("STOP");
    let relay = stand.patient_relay(&Seen::default());
    stand.until(40, "status = 'DELIVERED' AND attempts = 1 AND last_error LIKE 'LEASE_EXPIRED%'").await;
    drop(relay);
    let old = format!("event_id IN ('{}')", stand.ids().await.join("', '"));
    let before = stand.all(&old).await;
    sleeper.signal("CONT");
    // It has come to itself when it claims anew.
    stand.insert(1).await;
    stand.until(1, &format!("NOT {old} AND (status <> 'PENDING' OR attempts > 0)")).await;
    assert!(stand.all(&old).await == before, "what others delivered has changed");
    drop(sleeper);
    stand.end().await;
}

/// Thousands of rows that a relay held when it was killed: by the database's own clock, one lease and one interval after it last gave
/// a sign of life they are pending again.
async fn what_a_crashed_relay_held_is_taken_over_within_a_lease_and_an_interval(stand: Stand) {
    const HELD: i64 = 10_000;
    for _ in 0..10 {
        stand.insert(1_000).await;
    }
    // Nobody reads what it publishes, and the first one is larger than the pipe: it holds everything.
    let large = stand.base.either("convert_to(repeat('x', 100000), 'UTF8')", "repeat('x', 100000)");
    let first = "available_at = available_at - INTERVAL";
    let (hour, now) =
        (stand.base.either("'1 hour'", "1 HOUR"), stand.base.either("now()", "utc_timestamp(6)"));
    let one = stand.ids().await.remove(0);
    stand
        .say(&format!(
            "UPDATE openoutbox_events SET payload = {large}, {first} {hour} WHERE event_id = '{one}'"
        ))
        .await;
    let crashed = stand.quiet_relay(&[
        ("POSTHASTE__RELAY__LEASE", "60s"),
        ("POSTHASTE__LANES__MAIN__TIMEOUT", "50s"),
        ("POSTHASTE__LANES__MAIN__WINDOW", "20000"),
    ]);
    stand.until(HELD, "status = 'DELIVERING'").await;
    crashed.signal("KILL");
    drop(crashed);
    // What is taken back is not claimed at once, so that the row says when it was taken back.
    stand.say(&format!("UPDATE openoutbox_events SET available_at = {now} + INTERVAL {hour}")).await;
    let alive = stand.one("SELECT max(locked_at) FROM openoutbox_events").await;
    let relay = stand.patient_relay(&Seen::default());
    stand.until(HELD, "status = 'PENDING' AND attempts = 1 AND last_error LIKE 'LEASE_EXPIRED%'").await;
    let took = match stand.base {
        Base::Postgres => format!("extract(epoch FROM max(updated_at) - '{alive}')"),
        Base::Mariadb => format!("timestampdiff(microsecond, '{alive}', max(updated_at)) / 1000000"),
    };
    let took: f64 = stand.one(&format!("SELECT {took} FROM openoutbox_events")).await.parse().unwrap();
    // The lease, an interval of a sixth of it, and what a busy machine needs to begin and to do it.
    assert!((6.0..6.0 + 1.0 + 10.0).contains(&took), "{took} s");
    drop(relay);
    stand.end().await;
}
