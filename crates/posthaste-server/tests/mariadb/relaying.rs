//! What a relay does with rows, and operators with a table.

use serde_json::Value;

use crate::stand::Stand;

#[tokio::test]
async fn three_columns_are_enough() {
    let Some(stand) = Stand::new("mariadb::three_columns_are_enough").await else { return };
    stand.insert(1).await;
    let (url, before) = (stand.url().replace("mysql://", "mariadb://"), stand.immutable().await);
    let once = ["relay", "--storage-url", &url, "--publisher", "stdout:", "--once"];
    let line: Value = serde_json::from_str(stand.folder.ok(&once).text()).expect("one line for one event");
    assert_eq!((&line["type"], &line["data"]["n"]), (&Value::from("order.placed"), &Value::from(1)));
    assert_eq!(stand.folder.ok(&once).text(), "", "nothing twice");
    assert_eq!(stand.count("status = 'DELIVERED' AND attempts = 0 AND locked_by IS NULL").await, 1);
    assert_eq!(stand.immutable().await, before);
    stand.end().await;
}

/// Bad headers, no payload, no type: each is dead with its reason, and what stands between them arrives.
#[tokio::test]
async fn rows_that_are_no_events_are_set_aside_and_the_rest_flows() {
    let Some(stand) = Stand::new("mariadb::rows_that_are_no_events_are_set_aside").await else { return };
    stand.say("ALTER TABLE openoutbox_events MODIFY payload longblob NULL").await;
    stand.insert(2).await;
    stand
        .say(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, headers) VALUES
             (uuid(), 'bad', '{}', '[1]'), (uuid(), 'bad', NULL, '{}'), (uuid(), '', '{}', '{}')",
        )
        .await;
    stand.insert(2).await;
    stand.folder.ok(&["relay", "--storage-url", &stand.url(), "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 4);
    for reason in ["INVALID_HEADERS", "INVALID_PAYLOAD", "INVALID_TYPE"] {
        let dead = format!("status = 'DEAD' AND attempts = 1 AND last_error LIKE '{reason}%'");
        assert_eq!(stand.count(&dead).await, 1, "{reason}");
    }
    stand.end().await;
}

/// An operator redrives what is dead and replays what was delivered; looks change nothing, and pending rows are never pruned.
#[tokio::test]
async fn operators_look_redrive_replay_and_prune() {
    let Some(stand) = Stand::new("mariadb::operators_look_redrive_replay_and_prune").await else { return };
    stand.insert(4).await;
    stand
        .say("UPDATE openoutbox_events SET status = 'DEAD', attempts = 25, last_error = 'x: y' LIMIT 2")
        .await;
    let url = stand.url();
    let verb = |arguments: &[&str]| {
        let mut command = stand.folder.command(arguments);
        command.args(["--store", &url]).env("POSTHASTE__STORE__ENGINE", "table");
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = "event_id, status, attempts, available_at, updated_at, coalesce(last_error, ''), coalesce(delivered_at, '')";
    let (before, immutable) = (stand.checksum(all).await, stand.immutable().await);
    assert_eq!(verb(&["dead", "list", "--lane", "main"]).matches("order.placed").count(), 2);
    assert_eq!(verb(&["event", "list"]).matches("order.placed").count(), 4);
    let id = stand.ids().await.remove(0);
    assert!(verb(&["event", "show", &id]).contains(&id));
    assert!(verb(&["stats"]).contains("main"));
    assert_eq!(stand.checksum(all).await, before, "a look changes nothing");
    verb(&["dead", "redrive", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND attempts = 0").await, 4);
    stand.folder.ok(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 4);
    verb(&["replay", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND delivered_at IS NULL").await, 4);
    assert_eq!(stand.immutable().await, immutable);
    verb(&["prune", "--older-than", "0s"]);
    assert_eq!(stand.count("true").await, 4, "pending rows are never pruned");
    stand.folder.ok(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    verb(&["prune", "--older-than", "0s"]);
    assert_eq!(stand.count("true").await, 0);
    stand.end().await;
}

/// Rows in hand when the signal comes: what was printed is delivered, what was not is pending, and nothing is repeated.
#[tokio::test]
async fn a_stop_under_load_leaves_nothing_delivering_and_repeats_nothing() {
    let Some(stand) = Stand::new("mariadb::a_stop_under_load").await else { return };
    for round in 0..3 {
        stand.insert(2_000).await;
        let mut relay = stand.relay();
        stand.until_seen(200 + round * 400).await;
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
        assert_eq!(stand.count("status = 'DELIVERING'").await, 0);
    }
    let relay = stand.relay();
    stand.until(6_000, "status = 'DELIVERED'").await;
    stand.until_seen(6_000).await;
    drop(relay);
    let seen = stand.seen();
    for id in stand.ids().await {
        assert_eq!(seen[&id], 1, "{id}");
    }
    stand.end().await;
}
