//! Several relays on one table, and what ends without a word: relays, and the server itself.

use crate::stand::Stand;

/// Nobody is harmed: every event comes once, whoever has it.
#[tokio::test]
async fn relays_share_a_table_and_nothing_comes_twice() {
    let Some(stand) = Stand::new("mariadb::relays_share_a_table_and_nothing_comes_twice").await else {
        return;
    };
    let relays = [(); 3].map(|()| stand.relay());
    for _ in 0..10 {
        stand.insert(300).await;
    }
    stand.until(3_000, "status = 'DELIVERED'").await;
    stand.until_seen(3_000).await;
    drop(relays);
    let seen = stand.seen();
    for id in stand.ids().await {
        assert_eq!(seen[&id], 1, "{id}");
    }
    stand.end().await;
}

/// Relays are killed and started while rows come: every row arrives, and no invariant of a row is ever broken (the table checks
/// them itself).
#[tokio::test]
async fn relays_killed_at_random_lose_nothing() {
    let Some(stand) = Stand::new("mariadb::relays_killed_at_random_lose_nothing").await else { return };
    let mut relays: Vec<_> = (0..3).map(|_| stand.relay()).collect();
    for round in 0..8 {
        stand.insert(200).await;
        stand.until_seen(round * 40).await;
        // A kill, not a stop: what it held waits for its lease to end.
        relays.remove(fastrand::usize(..relays.len())).signal("KILL");
        relays.push(stand.relay());
    }
    stand.until(1_600, "status = 'DELIVERED'").await;
    stand.until_seen(1_600).await;
    assert_eq!(stand.count("locked_by IS NOT NULL OR locked_at IS NOT NULL").await, 0);
    stand.end().await;
}

/// The server is killed and comes back while relays work and producers insert: what was committed arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_comes_back_loses_nothing() {
    let Some(mut stand) =
        Stand::private("mariadb::a_server_that_is_killed_and_comes_back_loses_nothing").await
    else {
        return;
    };
    let mut relays = [(); 2].map(|()| stand.relay());
    for round in 0..3 {
        stand.insert(400).await;
        stand.until_seen(round * 400 + 100).await;
        stand.crash();
    }
    stand.insert(100).await;
    stand.until(1_300, "status = 'DELIVERED'").await;
    stand.until_seen(1_300).await;
    for relay in &mut relays {
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
    }
}

/// A relay stands still with rows in its hands until others have delivered them; when it wakes, what it says counts no more.
#[tokio::test]
async fn a_relay_that_slept_past_its_lease_changes_nothing() {
    let Some(stand) = Stand::new("mariadb::a_relay_that_slept_past_its_lease_changes_nothing").await else {
        return;
    };
    stand.insert(40).await;
    // Nobody reads this one's stdout, and all together are larger than the pipe: it holds its rows.
    stand.say("UPDATE openoutbox_events SET payload = concat('\"', repeat('x', 4000), '\"')").await;
    let mut command =
        stand.folder.command(&["relay", "--storage-url", &stand.url(), "--publisher", "stdout:"]);
    command.env("POSTHASTE__RELAY__LEASE", "1s").env("POSTHASTE__LANES__MAIN__TIMEOUT", "900ms");
    let sleeper = crate::folder::Running(command.spawn().unwrap());
    stand.until(40, "status = 'DELIVERING'").await;
    sleeper.signal("STOP");
    let relay = stand.relay();
    stand.until(40, "status = 'DELIVERED' AND attempts = 1 AND last_error LIKE 'LEASE_EXPIRED%'").await;
    drop(relay);
    let all = "event_id, status, attempts, updated_at, coalesce(delivered_at, ''), last_error";
    let before = stand.checksum(all).await;
    sleeper.signal("CONT");
    // It has come to itself when it claims anew.
    stand.insert(1).await;
    stand.until(1, "status = 'DELIVERING' OR status = 'PENDING' AND attempts > 0").await;
    stand.say("DELETE FROM openoutbox_events WHERE status <> 'DELIVERED'").await;
    assert_eq!(stand.checksum(all).await, before);
    stand.end().await;
}
