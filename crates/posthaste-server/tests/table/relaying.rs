//! What a relay does with rows.

use serde_json::Value;

use crate::stand::{Seen, Stand};

#[tokio::test]
async fn three_columns_are_enough() {
    let Some(stand) = Stand::new("three_columns_are_enough").await else { return };
    stand.insert(1).await;
    let (url, before) = (stand.url(), stand.immutable().await);
    let once = ["relay", "--storage-url", &url, "--publisher", "stdout:", "--once"];
    let answer = stand.folder.ok(&once);
    let line: Value = serde_json::from_str(answer.text()).expect("one line for one event");
    assert_eq!((&line["type"], &line["data"]["n"]), (&Value::from("order.placed"), &Value::from(1)));
    assert_eq!(stand.folder.ok(&once).text(), "", "nothing twice");
    assert_eq!(stand.count("status = 'DELIVERED' AND attempts = 0 AND locked_by IS NULL").await, 1);
    assert_eq!(stand.immutable().await, before);
    stand.end().await;
}

#[tokio::test]
async fn three_columns_are_enough_on_sqlite() {
    let folder = crate::folder::Folder::new();
    let ddl = folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", "sqlite://shop.db"]);
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    shop.execute_batch(ddl.text()).unwrap();
    shop.execute_batch("INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES ('a', 'order.placed', '{\"n\":1}')")
        .unwrap();
    let once = ["relay", "--storage-url", "sqlite://shop.db", "--publisher", "stdout:", "--once"];
    let line: Value = serde_json::from_str(folder.ok(&once).text()).expect("one line for one event");
    assert_eq!((&line["id"], &line["data"]["n"]), (&Value::from("a"), &Value::from(1)));
    assert_eq!(folder.ok(&once).text(), "", "nothing twice");
    let state =
        shop.query_row("SELECT status FROM openoutbox_events", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(state, "DELIVERED");
    let mode = shop.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(mode, "delete", "the file of somebody else stays as it is");
}

/// The variables of the reference are enough, and what it does not know is said.
#[tokio::test]
async fn the_reference_relay_can_be_replaced_without_a_change() {
    let Some(stand) = Stand::new("the_reference_relay_can_be_replaced_without_a_change").await else {
        return;
    };
    stand.insert(3).await;
    let mut command = stand.folder.command(&["relay", "--once"]);
    command.env("STORAGE_TYPE", "postgres").env("STORAGE_URL", stand.url()).env("PUBLISHER_TYPE", "stdout");
    command.env("BATCH_SIZE", "2").env("LEASE_TIMEOUT", "3m").env("KAFKA_ASINC", "1");
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 3);
    assert!(stderr.contains("KAFKA_ASINC is not a setting of the reference relay"), "{stderr}");
    stand.end().await;
}

/// Bad headers, no payload, no type: each is dead with its reason, and what stands between them arrives.
#[tokio::test]
async fn rows_that_are_no_events_are_set_aside_and_the_rest_flows() {
    let Some(stand) = Stand::new("rows_that_are_no_events_are_set_aside_and_the_rest_flows").await else {
        return;
    };
    stand
        .client
        .batch_execute("ALTER TABLE openoutbox_events ALTER COLUMN payload DROP NOT NULL")
        .await
        .unwrap();
    stand.insert(2).await;
    let bad = "INSERT INTO openoutbox_events (event_id, event_type, payload, headers) VALUES
        (gen_random_uuid(), 'bad', '{}', '[1]'), (gen_random_uuid(), 'bad', NULL, '{}'), (gen_random_uuid(), '', '{}', '{}')";
    stand.client.batch_execute(bad).await.unwrap();
    stand.insert(2).await;
    stand.folder.ok(&["relay", "--storage-url", &stand.url(), "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 4);
    for reason in ["INVALID_HEADERS", "INVALID_PAYLOAD", "INVALID_TYPE"] {
        let dead = format!("status = 'DEAD' AND attempts = 1 AND last_error LIKE '{reason}%'");
        assert_eq!(stand.count(&dead).await, 1, "{reason}");
    }
    stand.end().await;
}

/// What a state means that the profile does not name, only the table's owner knows: the row stays as it is, and operators are told.
#[tokio::test]
async fn rows_in_an_unknown_state_are_left_alone_and_shown() {
    let Some(stand) = Stand::new("rows_in_an_unknown_state_are_left_alone_and_shown").await else { return };
    let free = "ALTER TABLE openoutbox_events DROP CONSTRAINT openoutbox_events_status_check";
    stand.client.batch_execute(free).await.unwrap();
    stand.insert(3).await;
    let archive = "UPDATE openoutbox_events SET status = 'ARCHIVED' WHERE event_id IN (SELECT event_id FROM openoutbox_events LIMIT 1)";
    stand.client.batch_execute(archive).await.unwrap();
    let url = stand.url();
    stand.folder.ok(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 2);
    assert_eq!(stand.count("status = 'ARCHIVED' AND attempts = 0 AND last_error IS NULL").await, 1);
    for verb in [["lane", "list"].as_slice(), &["stats"]] {
        let mut command = stand.folder.command(verb);
        let output =
            command.args(["--store", &url]).env("POSTHASTE__STORE__ENGINE", "table").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("1 row is in a state that the profile does not name"), "{verb:?}: {said}");
    }
    stand.end().await;
}

/// An operator redrives what is dead and replays what was delivered; looks change nothing, and pending rows are never pruned.
#[tokio::test]
async fn operators_look_redrive_replay_and_prune() {
    let Some(stand) = Stand::new("operators_look_redrive_replay_and_prune").await else { return };
    stand.insert(4).await;
    let half = "UPDATE openoutbox_events SET status = 'DEAD', attempts = 25, last_error = 'x: y'
        WHERE event_id IN (SELECT event_id FROM openoutbox_events LIMIT 2)";
    stand.client.batch_execute(half).await.unwrap();
    let url = stand.url();
    let verb = |arguments: &[&str]| {
        let mut command = stand.folder.command(arguments);
        command.args(["--store", &url]).env("POSTHASTE__STORE__ENGINE", "table");
        let output = command.output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let before = stand.immutable().await;
    let rows = "SELECT md5(string_agg(t::text, '' ORDER BY event_id)) FROM openoutbox_events t";
    let all: String = stand.client.query_one(rows, &[]).await.unwrap().get(0);
    assert_eq!(verb(&["dead", "list", "--lane", "main"]).matches("order.placed").count(), 2);
    assert_eq!(verb(&["event", "list"]).matches("order.placed").count(), 4);
    let after: String = stand.client.query_one(rows, &[]).await.unwrap().get(0);
    assert_eq!(all, after, "a look changes nothing");
    verb(&["dead", "redrive", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND attempts = 0").await, 4);
    stand.folder.ok(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 4);
    verb(&["replay", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND delivered_at IS NULL").await, 4);
    assert_eq!(stand.immutable().await, before);
    verb(&["prune", "--older-than", "0s"]);
    assert_eq!(stand.count("true").await, 4, "pending rows are never pruned");
    stand.end().await;
}

/// Rows in hand when the signal comes: what was printed is delivered, what was not is pending, and nothing is repeated.
#[tokio::test]
async fn a_stop_under_load_leaves_nothing_delivering_and_repeats_nothing() {
    let Some(stand) = Stand::new("a_stop_under_load_leaves_nothing_delivering_and_repeats_nothing").await
    else {
        return;
    };
    let seen = Seen::default();
    for round in 0..3 {
        stand.insert(4_000).await;
        let mut relay = stand.relay(&seen);
        seen.until(200 + round * 400);
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
        assert_eq!(stand.count("status = 'DELIVERING'").await, 0);
    }
    let relay = stand.relay(&seen);
    stand.until(12_000, "status = 'DELIVERED'").await;
    seen.until(12_000);
    drop(relay);
    for id in stand.ids().await {
        assert_eq!(seen.times(&id), 1, "{id}");
    }
    stand.end().await;
}
