//! What a relay does with rows.

use serde_json::Value;

use crate::table::stand::{Base, Seen, Stand, on_every_database};

on_every_database! {
    new: three_columns_are_enough, the_reference_relay_can_be_replaced_without_a_change,
    rows_that_are_no_events_are_set_aside_and_the_rest_flows, rows_in_an_unknown_state_are_left_alone_and_shown,
    a_replay_in_steps_keeps_the_order_of_keys,
    operators_look_redrive_replay_and_prune, a_stop_under_load_leaves_nothing_delivering_and_repeats_nothing,
}

/// The history of a row says when it was delivered.
fn assert_history_says_when(folder: &crate::cli::folder::Folder, url: &str, id: &str) {
    folder.write("table.toml", format!("[store]\nengine = \"table\"\nurl = \"{url}\"\n"));
    let event = folder.json(&["event", "show", id, "--config", "table.toml"]);
    let history = event["history"].as_array().unwrap();
    let delivered = history.iter().find(|known| known["what"] == "delivered").expect("it was delivered");
    let at = delivered["at"].as_str().expect("the table knows when");
    assert_eq!(event["lanes"][0]["delivered_at"], *at);
    assert!(event["created_at"].as_str().unwrap() <= at, "{event:#}");
    let shown = folder.ok(&["event", "show", id, "--config", "table.toml"]).text().to_owned();
    let seconds = at.split(['.', 'Z']).next().unwrap().replacen('T', " ", 1);
    assert!(shown.contains(&format!("{seconds}  delivered in main")), "{shown}");
}

async fn three_columns_are_enough(stand: Stand) {
    stand.insert(1).await;
    // The other name of the same.
    let (url, before) = (stand.url().replace("mysql://", "mariadb://"), stand.immutable().await);
    let once = ["relay", "--storage-url", &url, "--publisher", "stdout:", "--once"];
    let answer = stand.folder.ok(&once);
    let line: Value = serde_json::from_str(answer.text()).expect("one line for one event");
    assert_eq!((&line["type"], &line["data"]["n"]), (&Value::from("order.placed"), &Value::from(1)));
    assert_eq!(stand.folder.ok(&once).text(), "", "nothing twice");
    assert_eq!(stand.count("status = 'DELIVERED' AND attempts = 0 AND locked_by IS NULL").await, 1);
    assert_eq!(stand.immutable().await, before);
    assert_history_says_when(&stand.folder, &stand.url(), &stand.ids().await[0]);
    stand.end().await;
}

/// Beside a configuration the flag names another database, and nothing else of the table.
#[test]
fn a_storage_url_beside_a_configuration_says_what_it_keeps() {
    let folder = crate::cli::folder::Folder::new();
    folder.write(
        "posthaste.toml",
        "[store]\nprofile = \"custom\"\ntable = \"billing\"\n[store.columns]\ntype = \"kind\"\n",
    );
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    let print =
        ["migrate", "print", "--profile", "open-outbox", "--table", "billing", "--store", "sqlite://shop.db"];
    shop.execute_batch(&folder.ok(&print).text().replace("\"event_type\"", "\"kind\"")).unwrap();
    let once = ["relay", "--storage-url", "sqlite://shop.db", "--publisher", "null:", "--once"];
    let answer = folder.ok(&once);
    for part in [
        "store.profile (posthaste.toml:2)",
        "store.table (posthaste.toml:3)",
        "store.columns (posthaste.toml:4)",
    ] {
        assert!(answer.stderr.contains(part), "{part}: {}", answer.stderr);
    }
    let named = folder.run(&[&once[..], &["--profile", "open-outbox", "--table", "billing"]].concat());
    assert!(
        !named.stderr.contains("store.profile (") && named.stderr.contains("store.columns ("),
        "{}",
        named.stderr
    );
    folder.write("other.toml", "");
    let other = folder.run(&[&once[..], &["--config", "other.toml"]].concat());
    assert!(!other.stderr.contains("keeps what the file says"), "{}", other.stderr);
}

#[tokio::test]
async fn three_columns_are_enough_on_sqlite() {
    let folder = crate::cli::folder::Folder::new();
    let ddl = folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", "sqlite://shop.db"]);
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    shop.execute_batch(ddl.text()).unwrap();
    shop.execute_batch("INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES ('a', 'order.placed', '{\"n\":1}')")
        .unwrap();
    let once = ["relay", "--storage-url", "sqlite://shop.db", "--publisher", "stdout:", "--once"];
    let line: Value = serde_json::from_str(folder.ok(&once).text()).expect("one line for one event");
    assert_eq!((&line["id"], &line["data"]["n"]), (&Value::from("a"), &Value::from(1)));
    assert_eq!(folder.ok(&once).text(), "", "nothing twice");
    assert_history_says_when(&folder, "sqlite://shop.db", "a");
    let state =
        shop.query_row("SELECT status FROM openoutbox_events", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(state, "DELIVERED");
    let mode = shop.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(mode, "delete", "the file of somebody else stays as it is");
}

/// In a file that is not strict, any column may hold anything: such a row is dead with its reason, and what stands beside it arrives.
#[tokio::test]
async fn odd_rows_are_set_aside_on_sqlite_and_the_rest_flows() {
    let folder = crate::cli::folder::Folder::new();
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE openoutbox_events (event_id TEXT PRIMARY KEY, event_type TEXT, partition_key TEXT, payload BLOB,
             headers TEXT DEFAULT '{}', status TEXT DEFAULT 'PENDING', attempts INTEGER DEFAULT 0, last_error TEXT,
             available_at TEXT DEFAULT '2026-01-01 00:00:00', locked_by TEXT, locked_at TEXT, delivered_at TEXT,
             created_at TEXT DEFAULT '2026-01-01 00:00:00', updated_at TEXT);
         INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES ('a', 'order.placed', '{}'), ('z', 'order.placed', '{}');
         INSERT INTO openoutbox_events (event_id, event_type, payload, headers) VALUES ('b', 'order.placed', '{}', x'ff');
         INSERT INTO openoutbox_events (event_id, event_type, payload, attempts) VALUES ('c', 'order.placed', '{}', 'many');
         INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key) VALUES ('d', 'order.placed', '{}', x'fe');
         INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (x'ff', 'order.placed', '{}'), (NULL, 'order.placed', '{}');",
    )
    .unwrap();
    let once = ["relay", "--storage-url", "sqlite://shop.db", "--publisher", "stdout:", "--once"];
    let came = folder.ok(&once);
    assert_eq!(came.text().lines().count(), 2, "{}", came.text());
    let mut states = shop
        .prepare("SELECT event_id || ' ' || status || ' ' || coalesce(last_error, '') FROM openoutbox_events WHERE event_id >= 'a' AND event_id < 'zz' ORDER BY event_id")
        .unwrap();
    let states: Vec<String> =
        states.query_map([], |row| row.get(0)).unwrap().map(|state| state.unwrap()).collect();
    assert_eq!(
        states,
        [
            "a DELIVERED ",
            "b DEAD INVALID_HEADERS: headers holds no text in UTF-8",
            "c DEAD INVALID_ATTEMPTS: attempts holds no whole number",
            "d DEAD INVALID_KEY: key holds no text in UTF-8",
            "z DELIVERED ",
        ]
    );
    assert_eq!(folder.ok(&once).text(), "", "nothing twice");
}

/// The variables of the reference are enough, and what it does not know is said.
async fn the_reference_relay_can_be_replaced_without_a_change(stand: Stand) {
    stand.insert(3).await;
    let mut command = stand.folder.command(&["relay", "--once"]);
    command.env("STORAGE_TYPE", stand.base.either("postgres", "mariadb"));
    command.env("STORAGE_URL", stand.url()).env("PUBLISHER_TYPE", "stdout");
    command.env("BATCH_SIZE", "2").env("LEASE_TIMEOUT", "3m").env("KAFKA_ASINC", "1");
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 3);
    assert!(stderr.contains("KAFKA_ASINC is not a setting of the reference relay"), "{stderr}");
    stand.end().await;
}

/// Bad headers, no payload, no type: each is dead with its reason, and what stands between them arrives.
async fn rows_that_are_no_events_are_set_aside_and_the_rest_flows(stand: Stand) {
    let nullable = stand.base.either("ALTER COLUMN payload DROP NOT NULL", "MODIFY payload longblob NULL");
    stand.say(&format!("ALTER TABLE openoutbox_events {nullable}")).await;
    stand.insert(2).await;
    let [a, b, c] = [(); 3].map(|()| posthaste::envelope::fresh_id());
    stand
        .say(&format!(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, headers) VALUES
             ('{a}', 'bad', '{{}}', '[1]'), ('{b}', 'bad', NULL, '{{}}'), ('{c}', '', '{{}}', '{{}}')"
        ))
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

/// What a state means that the profile does not name, only the table's owner knows: the row stays as it is, and operators are told.
async fn rows_in_an_unknown_state_are_left_alone_and_shown(stand: Stand) {
    let checked = stand.base.either("openoutbox_events_status_check", "CONSTRAINT_1");
    stand.say(&format!("ALTER TABLE openoutbox_events DROP CONSTRAINT {checked}")).await;
    stand.insert(3).await;
    let id = stand.ids().await.remove(0);
    stand.say(&format!("UPDATE openoutbox_events SET status = 'ARCHIVED' WHERE event_id = '{id}'")).await;
    stand.folder.ok(&["relay", "--storage-url", &stand.url(), "--publisher", "null:", "--once"]);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 2);
    assert_eq!(stand.count("status = 'ARCHIVED' AND attempts = 0 AND last_error IS NULL").await, 1);
    for verb in [["lane", "list"].as_slice(), &["stats"]] {
        let said = operate(&stand, verb);
        assert!(said.contains("1 row is in a state that the profile does not name"), "{verb:?}: {said}");
    }
    stand.end().await;
}

/// What the binary says to an operator of the table.
pub(crate) fn operate(stand: &Stand, arguments: &[&str]) -> String {
    let mut command = stand.folder.command(arguments);
    command.args(["--store", &stand.url()]).env("POSTHASTE__STORE__ENGINE", "table");
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// An operator redrives what is dead and replays what was delivered; looks change nothing, and pending rows are never pruned.
async fn operators_look_redrive_replay_and_prune(stand: Stand) {
    stand.insert(4).await;
    let ids = stand.ids().await;
    stand
        .say(&format!(
            "UPDATE openoutbox_events SET status = 'DEAD', attempts = 25, last_error = 'x: y'
             WHERE event_id IN ('{}', '{}')",
            ids[0], ids[1]
        ))
        .await;
    let verb = |arguments: &[&str]| operate(&stand, arguments);
    let (immutable, all) = (stand.immutable().await, stand.all("true").await);
    assert_eq!(verb(&["dead", "list", "--lane", "main"]).matches("order.placed").count(), 2);
    assert_eq!(verb(&["event", "list"]).matches("order.placed").count(), 4);
    assert!(verb(&["event", "show", &ids[2]]).contains(&ids[2]));
    assert!(verb(&["stats"]).contains("main"));
    assert_eq!(stand.all("true").await, all, "a look changes nothing");
    verb(&["dead", "redrive", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND attempts = 0").await, 4);
    let (url, publisher) = (stand.url(), "null:");
    let once = ["relay", "--storage-url", &url, "--publisher", publisher, "--once"];
    stand.folder.ok(&once);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 4);
    verb(&["replay", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND delivered_at IS NULL").await, 4);
    assert_eq!(stand.immutable().await, immutable);
    verb(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!(stand.count("true").await, 4, "pending rows are never pruned");
    stand.folder.ok(&once);
    verb(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!(stand.count("true").await, 0);
    stand.end().await;
}

/// More rows than one step of a replay takes, which lie in the table in the opposite order of their times.
async fn a_replay_in_steps_keeps_the_order_of_keys(stand: Stand) {
    const ROWS: u32 = 6_000;
    let row = |n: u32| {
        let (id, at) =
            (posthaste::envelope::fresh_id(), format!("2026-01-01 00:00:{:02}.{:03}", n / 1_000, n % 1_000));
        format!(
            "('{id}', 'order.placed', 'key-{}', '{{\"n\":{n}}}', 'DELIVERED', '{at}', '{at}', '{at}')",
            n % 7
        )
    };
    let rows: Vec<String> = (0..ROWS).rev().map(row).collect();
    let columns =
        "event_id, event_type, partition_key, payload, status, created_at, available_at, delivered_at";
    stand.say(&format!("INSERT INTO openoutbox_events ({columns}) VALUES {}", rows.join(", "))).await;
    operate(&stand, &["replay", "--lane", "main"]);
    assert_eq!(stand.count("status = 'PENDING' AND delivered_at IS NULL").await, i64::from(ROWS));
    let mut command =
        stand.folder.command(&["relay", "--storage-url", &stand.url(), "--publisher", "stdout:"]);
    let output = command.arg("--once").env("POSTHASTE__LANES__MAIN__ORDER", "key").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut last = [None; 7];
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let n = usize::try_from(line["data"]["n"].as_u64().unwrap()).unwrap();
        assert!(last[n % 7] < Some(n), "{n} came after {:?}", last[n % 7]);
        last[n % 7] = Some(n);
    }
    assert_eq!(stand.count("status = 'DELIVERED'").await, i64::from(ROWS));
    stand.end().await;
}

/// What consumers remember in a database without a log engine goes by the same command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_consumers_remember_on_mariadb_is_pruned() {
    let Some(stand) = Stand::new(Base::Mariadb, "what_consumers_remember_on_mariadb_is_pruned").await else {
        return;
    };
    stand.say(stand.folder.ok(&["migrate", "print", "--store", &stand.url()]).text()).await;
    stand
        .say(
            "INSERT INTO posthaste_inbox (consumer, event_id, source, handled_at) VALUES
             ('c', 'old', '', utc_timestamp(6) - INTERVAL 31 DAY), ('c', 'young', '', utc_timestamp(6))",
        )
        .await;
    operate(&stand, &["prune", "--inbox-older-than", "30d", "--yes"]);
    assert_eq!(stand.one("SELECT group_concat(event_id) FROM posthaste_inbox").await, "young");
    stand.end().await;
}

/// Rows in hand when the signal comes: what was printed is delivered, what was not is pending, and nothing is repeated.
async fn a_stop_under_load_leaves_nothing_delivering_and_repeats_nothing(stand: Stand) {
    let seen = Seen::default();
    for round in 0..3 {
        stand.insert(2_000).await;
        let mut relay = stand.lasting_relay(&seen);
        seen.until(200 + round * 400);
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
        assert_eq!(stand.count("status = 'DELIVERING'").await, 0);
    }
    let relay = stand.lasting_relay(&seen);
    stand.until(6_000, "status = 'DELIVERED'").await;
    seen.until(6_000);
    drop(relay);
    stand.assert_once(&seen).await;
    stand.end().await;
}
