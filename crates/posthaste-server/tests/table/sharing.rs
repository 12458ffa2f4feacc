//! Several relays on one table, and relays that end without a word.

use std::time::Instant;

use crate::stand::{Seen, Stand, on_every_database};

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

/// Relays are killed and started while rows come: every row arrives, and no invariant of a row is ever broken (the table checks
/// them itself).
async fn relays_killed_at_random_lose_nothing(stand: Stand) {
    let seen = Seen::default();
    let mut relays: Vec<_> = (0..3).map(|_| stand.relay(&seen)).collect();
    for round in 0..10 {
        stand.insert(200).await;
        seen.until(round * 40);
        // A kill, not a stop: what it held waits for its lease to end.
        relays.remove(fastrand::usize(..relays.len())).signal("KILL");
        relays.push(stand.relay(&seen));
    }
    stand.until(2_000, "status = 'DELIVERED'").await;
    seen.until(2_000);
    for id in stand.ids().await {
        assert!(seen.times(&id) >= 1, "{id} never came");
    }
    assert_eq!(stand.count("locked_by IS NOT NULL OR locked_at IS NOT NULL").await, 0);
    drop(relays);
    stand.end().await;
}

/// A relay stands still with rows in its hands until others have delivered them; when it wakes, what it says counts no more.
async fn a_relay_that_slept_past_its_lease_changes_nothing(stand: Stand) {
    stand.insert(40).await;
    // Nobody reads this one's stdout, and all together are larger than the pipe: it holds its rows.
    let large = "x".repeat(4_000);
    stand.say(&format!("UPDATE openoutbox_events SET payload = '\"{large}\"'")).await;
    let patient = [("POSTHASTE__LANES__MAIN__TIMEOUT", "900ms")];
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

/// Ten thousand rows that a crashed relay held: one lease and one interval later they are on their way again.
async fn what_a_crashed_relay_held_is_taken_over_within_a_lease_and_an_interval(stand: Stand) {
    stand.insert(10_000).await;
    let now = stand.base.either("now()", "utc_timestamp(6)");
    stand
        .say(&format!(
            "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'crashed', locked_at = {now}"
        ))
        .await;
    let crashed = Instant::now();
    let seen = Seen::default();
    let relay = stand.patient_relay(&seen);
    stand.until(0, "locked_by = 'crashed'").await;
    let took = crashed.elapsed();
    // The lease, an interval of a sixth of it, and what a busy machine needs for it.
    assert!(took.as_secs_f64() < 6.0 + 1.0 + 30.0, "{took:?}");
    let others = stand.all("attempts <> 1").await;
    assert!(others.is_empty(), "a lease that ends counts once, but {} are {others:?}", others.len());
    drop(relay);
    stand.end().await;
}
