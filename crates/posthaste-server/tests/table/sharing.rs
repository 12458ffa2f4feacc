//! Several relays on one table, and relays that end without a word.

use std::time::Instant;

use crate::stand::{DEADLINE, Seen, Stand};

/// Nobody is harmed: every event comes once, whoever has it.
#[tokio::test]
async fn relays_share_a_table_and_nothing_comes_twice() {
    let Some(stand) = Stand::new("relays_share_a_table_and_nothing_comes_twice").await else { return };
    let seen = Seen::default();
    let relays = [(); 3].map(|()| stand.relay(&seen));
    for _ in 0..10 {
        stand.insert(500).await;
    }
    stand.until(5_000, "status = 'DELIVERED'").await;
    seen.until(5_000);
    drop(relays);
    for id in stand.ids().await {
        assert_eq!(seen.times(&id), 1, "{id}");
    }
    stand.end().await;
}

/// Relays are killed and started while rows come: every row arrives, and no invariant of a row is ever broken (the table checks
/// them itself).
#[tokio::test]
async fn relays_killed_at_random_lose_nothing() {
    let Some(stand) = Stand::new("relays_killed_at_random_lose_nothing").await else { return };
    let (seen, before) = (Seen::default(), Instant::now());
    let mut relays: Vec<_> = (0..3).map(|_| stand.relay(&seen)).collect();
    for round in 0..12 {
        stand.insert(300).await;
        seen.until(seen.count().max(round * 40));
        // A kill, not a stop: what it held waits for its lease to end.
        relays.remove(fastrand::usize(..relays.len())).signal("KILL");
        relays.push(stand.relay(&seen));
        assert!(before.elapsed() < DEADLINE * 2);
    }
    stand.until(3_600, "status = 'DELIVERED'").await;
    seen.until(3_600);
    for id in stand.ids().await {
        assert!(seen.times(&id) >= 1, "{id} never came");
    }
    assert_eq!(stand.count("locked_by IS NOT NULL OR locked_at IS NOT NULL").await, 0);
    drop(relays);
    stand.end().await;
}

/// A relay stands still with rows in its hands until others have delivered them; when it wakes, what it says counts no more.
#[tokio::test]
async fn a_relay_that_slept_past_its_lease_changes_nothing() {
    let Some(stand) = Stand::new("a_relay_that_slept_past_its_lease_changes_nothing").await else { return };
    stand.insert(40).await;
    // Nobody reads this one's stdout, and all together are larger than the pipe: it holds its rows.
    let large =
        "UPDATE openoutbox_events SET payload = convert_to('\"' || repeat('x', 4000) || '\"', 'UTF8')";
    stand.client.batch_execute(large).await.unwrap();
    let mut command =
        stand.folder.command(&["relay", "--storage-url", &stand.url(), "--publisher", "stdout:"]);
    command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "900ms");
    let sleeper = crate::folder::Running(command.spawn().unwrap());
    stand.until(40, "status = 'DELIVERING'").await;
    sleeper.signal("STOP");
    let seen = Seen::default();
    let relay = stand.relay(&seen);
    stand.until(40, "status = 'DELIVERED' AND attempts = 1 AND last_error LIKE 'LEASE_EXPIRED%'").await;
    drop(relay);
    let rows = "SELECT md5(string_agg(t::text, '' ORDER BY event_id)) FROM openoutbox_events t";
    let before: String = stand.client.query_one(rows, &[]).await.unwrap().get(0);
    sleeper.signal("CONT");
    // It has come to itself when it claims anew.
    stand.insert(1).await;
    stand.until(1, "status = 'DELIVERING' OR status = 'PENDING' AND attempts > 0").await;
    let old = "SELECT md5(string_agg(t::text, '' ORDER BY event_id)) FROM openoutbox_events t WHERE status = 'DELIVERED'";
    let after: String = stand.client.query_one(old, &[]).await.unwrap().get(0);
    assert_eq!(before, after);
    drop(sleeper);
    stand.end().await;
}

/// Ten thousand rows that a crashed relay held: one lease and one interval later they are on their way again.
#[tokio::test]
async fn what_a_crashed_relay_held_is_taken_over_within_a_lease_and_an_interval() {
    let Some(stand) =
        Stand::new("what_a_crashed_relay_held_is_taken_over_within_a_lease_and_an_interval").await
    else {
        return;
    };
    stand.insert(10_000).await;
    let crash =
        "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'crashed', locked_at = now()";
    stand.client.batch_execute(crash).await.unwrap();
    let crashed = Instant::now();
    let seen = Seen::default();
    let relay = stand.relay(&seen);
    stand.until(0, "locked_by = 'crashed'").await;
    let took = crashed.elapsed();
    // A lease of 1 s, an interval of a sixth of it, and what a busy machine needs for it.
    assert!(took.as_secs_f64() < 1.0 + 0.17 + 4.0, "{took:?}");
    assert_eq!(stand.count("attempts = 1").await, 10_000, "a lease that ends counts");
    drop(relay);
    stand.end().await;
}
