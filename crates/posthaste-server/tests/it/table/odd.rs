//! Rows that something is odd about keep nobody, and the order of rows is said by the table.

use std::process::Stdio;

use posthaste::envelope::fresh_id;

use crate::table::stand::{Base, Stand, on_every_database};

on_every_database! {
    new: a_lease_that_the_table_will_not_have_taken_back_keeps_nobody,
    rows_of_one_moment_come_in_the_order_of_their_ids,
    what_is_buried_takes_the_steps_that_a_trigger_demands,
}

async fn a_lease_that_the_table_will_not_have_taken_back_keeps_nobody(stand: Stand) {
    let (now, hour) =
        (stand.base.either("now()", "utc_timestamp(6)"), stand.base.either("'1 hour'", "1 HOUR"));
    stand.say("ALTER TABLE openoutbox_events ADD CHECK (attempts <= 10)").await;
    for attempts in [10, 3, 10, 4] {
        let id = fresh_id();
        stand
            .say(&format!(
                "INSERT INTO openoutbox_events (event_id, event_type, payload, attempts, status, locked_by, locked_at)
                 VALUES ('{id}', 'held', '{{}}', {attempts}, 'DELIVERING', 'crashed', {now} - INTERVAL {hour})"
            ))
            .await;
    }
    stand.insert(5).await;
    let url = stand.url();
    let once = stand.folder.run(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    assert_eq!(once.code, 0, "{}", once.stderr);
    assert!(once.stderr.contains("the table refuses that a row is taken back"), "{}", once.stderr);
    assert_eq!(stand.count("status = 'DELIVERED'").await, 7);
    assert_eq!(stand.count("status = 'DELIVERING' AND attempts = 10").await, 2);
    stand.end().await;
}

/// They are inserted backwards, and a claim takes some of them.
async fn rows_of_one_moment_come_in_the_order_of_their_ids(stand: Stand) {
    let ids: Vec<String> = (0..120).map(|_| fresh_id()).collect();
    let moment = stand.base.either("'2026-01-01 00:00:00+00'", "'2026-01-01 00:00:00'");
    let row = |id: &String| format!("('{id}', 'order.placed', '{{}}', 'k', {moment}, {moment})");
    let rows: Vec<String> = ids.iter().rev().map(row).collect();
    stand
        .say(&format!(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key, available_at, created_at) VALUES {}",
            rows.join(", ")
        ))
        .await;
    let url = stand.url();
    let mut relay =
        stand.folder.command(&["relay", "--storage-url", &url, "--publisher", "stdout:", "--once"]);
    relay.env("POSTHASTE__LANES__MAIN__ORDER", "key").env("POSTHASTE__LANES__MAIN__WINDOW", "7");
    let output = tokio::task::block_in_place(|| relay.stderr(Stdio::null()).output().unwrap());
    let lines = String::from_utf8(output.stdout).unwrap();
    let came = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["id"].as_str().unwrap().to_owned()
    });
    assert_eq!(came.collect::<Vec<_>>(), ids);
    stand.end().await;
}

async fn what_is_buried_takes_the_steps_that_a_trigger_demands(stand: Stand) {
    let wrong = "OLD.status <> NEW.status AND NOT (OLD.status = 'DELIVERING' OR NEW.status = 'DELIVERING' OR NEW.status = 'PENDING')";
    let trigger = match stand.base {
        Base::Postgres => format!(
            "CREATE FUNCTION steps() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF {wrong} THEN RAISE EXCEPTION 'a step is missing'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER steps BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION steps()"
        ),
        Base::Mariadb => format!(
            "CREATE TRIGGER steps BEFORE UPDATE ON openoutbox_events FOR EACH ROW
             BEGIN IF {wrong} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a step is missing'; END IF; END"
        ),
    };
    stand.say(&trigger).await;
    stand.insert(3).await;
    let mut bury = stand.folder.command(&["event", "bury", "--lane", "main", "--reason", "why"]);
    bury.args(["--store", &stand.url()]).env("POSTHASTE__STORE__ENGINE", "table");
    bury.env("POSTHASTE__LANES__MAIN__TO", "null:");
    let done = bury.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(stand.count("status = 'DEAD' AND attempts = 0 AND last_error = 'buried: why'").await, 3);
    stand.end().await;
}
