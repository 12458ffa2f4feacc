//! What only an outbox table of somebody else has: one lane by its configured name, rows of one time, states of its owner's, and a
//! record of commands beside it, or on stderr.

use std::time::Duration;

use posthaste::admin::{Filter, Page, all_lanes};
use posthaste::review::AuditFilter;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::http_api::client::DEADLINE;
use crate::verbs::ground::Ground;
use crate::verbs::ids;

const TABLE: &str = "openoutbox_events";

/// A reference table in SQLite, and one on Postgres if there is a server.
async fn tables(trial: &str) -> Vec<Ground> {
    let mut grounds = vec![Ground::sqlite_table().await];
    grounds.extend(Ground::postgres_table(trial).await);
    grounds
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_lane_is_not_found_and_nothing_is_changed() {
    for ground in tables("an_unknown_lane_is_not_found_and_nothing_is_changed").await {
        for verb in [
            &["dead", "list", "--lane", "typo"][..],
            &["dead", "redrive", "--lane", "typo"],
            &["dead", "redrive", "--lane", "typo", "--dry-run"],
            &["dead", "discard", "--lane", "typo", "--yes"],
            &["replay", "--lane", "typo"],
            &["event", "bury", "--lane", "typo"],
        ] {
            ground.refused(verb, 6, "no lane typo");
        }
        let total = ground.json(&["stats"])["total"].clone();
        assert_eq!((&total["dead"], &total["delivered"]), (&json!(2), &json!(1)), "{total}");
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lane_of_a_table_has_its_configured_name() {
    for ground in tables("the_lane_of_a_table_has_its_configured_name").await {
        ground.configure("[lanes.mail]\nto = \"null:\"\n");
        assert_eq!(ground.json(&["lane", "show", "mail"])["dead"], 2);
        ground.refused(&["lane", "show", "main"], 6, "main");
        ground.refused(&["dead", "redrive", "--lane", "main"], 6, "no lane main");
        assert_eq!(ground.applied(&["dead", "redrive", "--lane", "mail", "--dry-run"]), (2, 0));
        let listed = ground.json(&["dead", "list", "--lane", "mail"]);
        assert_eq!(listed["events"][0]["lanes"][0]["lane"], "mail", "{listed}");
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_time_are_all_shown() {
    for ground in tables("rows_of_one_time_are_all_shown").await {
        ground.sql(&format!("UPDATE {TABLE} SET created_at = (SELECT min(created_at) FROM {TABLE})")).await;
        let tail = ground.tail(3);
        assert!(["a", "b", "c"].iter().all(|name| tail.contains(&ground.id(name))), "{tail}");
        let counted = ground.json(&["dead", "redrive", "--lane", "main", "--dry-run"]);
        assert_eq!(crate::verbs::sample(&counted), ["c", "b"].map(|name| ground.id(name)));
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_filled_with_what_was_asked_for() {
    for ground in tables("a_page_is_filled_with_what_was_asked_for").await {
        let newest = ground.id("c");
        ground
            .sql(&format!("UPDATE {TABLE} SET last_error = 'other: away' WHERE event_id = '{newest}'"))
            .await;
        for flags in [["--code", "http 400"], ["--error", "customer"]] {
            let page = ground.json(&["dead", "list", "--limit", "1", flags[0], flags[1]]);
            assert_eq!(ids(&page), [ground.id("b")], "{flags:?}");
        }
        ground
            .sql(&format!("UPDATE {TABLE} SET event_type = 'stock.moved' WHERE event_id = '{newest}'"))
            .await;
        let page = ground.json(&["event", "list", "--limit", "2", "--topic", "order.*"]);
        assert_eq!(ids(&page), [ground.id("b"), ground.id("a")]);
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_nobody_named_is_shown_as_unknown() {
    for ground in tables("a_state_that_nobody_named_is_shown_as_unknown").await {
        let one = ground.id("a");
        let odd = match ground.is_embedded() {
            true => format!(
                "PRAGMA ignore_check_constraints = 1; UPDATE {TABLE} SET status = 'ODD' WHERE event_id = '{one}'"
            ),
            false => format!(
                "ALTER TABLE {TABLE} ALTER COLUMN status DROP NOT NULL; UPDATE {TABLE} SET status = NULL WHERE event_id = '{one}'"
            ),
        };
        ground.sql(&odd).await;
        let events = ground.json(&["event", "list"]);
        assert_eq!(events["events"][2]["lanes"][0]["state"], "unknown", "{events}");
        assert_eq!(ids(&ground.json(&["event", "list", "--state", "unknown"])), [one]);
        let lane = ground.json(&["lane", "show", "main"]);
        assert!(lane["reason"].as_str().unwrap().contains("1 row is in a state"), "{lane}");
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_table_is_not_counted_row_by_row() {
    for ground in tables("a_long_table_is_not_counted_row_by_row").await {
        let bulk = match ground.is_embedded() {
            true => {
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
                     INSERT INTO openoutbox_events (event_id, event_type, payload, status)
                     SELECT 'bulk-' || i, 'bulk', x'00', 'DELIVERED' FROM n"
            }
            false => {
                "INSERT INTO openoutbox_events (event_id, event_type, payload, status)
                      SELECT gen_random_uuid(), 'bulk', decode(repeat('00', 600), 'hex'), 'DELIVERED'
                      FROM generate_series(1, 60000); ANALYZE openoutbox_events"
            }
        };
        ground.sql(bulk).await;
        let lane = ground.json(&["lane", "show", "main"]);
        assert_eq!(lane["estimated"], json!(["accepted", "delivered"]), "{lane}");
        assert_eq!((&lane["dead"], &lane["waiting"], &lane["unread"]), (&json!(2), &json!(0), &json!(0)));
        let delivered = lane["delivered"].as_u64().unwrap();
        assert!((55_000..65_000).contains(&delivered), "{lane}");
        assert!(ground.ok(&["stats"]).contains(&format!("~{delivered}")));
        ground.adds_up();
        let index = if ground.is_embedded() {
            "DROP INDEX openoutbox_events_dead"
        } else {
            "DROP INDEX openoutbox_events_dead; ANALYZE openoutbox_events"
        };
        ground.sql(index).await;
        let lane = ground.json(&["lane", "show", "main"]);
        assert!(lane["estimated"].as_array().unwrap().contains(&json!("dead")), "{lane}");
        assert!(lane["reason"].as_str().unwrap().contains("no index"), "{lane}");
        ground.end().await;
    }
}

/// The records, the oldest first.
fn record(ground: &Ground) -> Vec<Value> {
    let mut entries = ground.json(&["audit", "--all"])["entries"].as_array().unwrap().clone();
    entries.reverse();
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_is_recorded_where_there_is_a_table_for_it() {
    for ground in tables("every_command_is_recorded_where_there_is_a_table_for_it").await {
        ground.refused(&["audit"], 2, "migrate print --audit");
        ground.keep_record().await;
        ground.ok(&["dead", "redrive", "--lane", "main", "--dry-run"]);
        assert_eq!(record(&ground).len(), 0, "nothing was changed");
        let one = ground.id("b");
        let (code, said) = ground.said(&["dead", "redrive", "--lane", "main", "--id", &one]);
        assert!(code == 0 && !said.contains("operator"), "it is not said what is recorded: {said}");
        ground.ok(&["dead", "discard", "--lane", "main", "--reason", "left", "--yes"]);
        ground.ok(&["prune", "--delivered-age", "0s", "--yes"]);
        let entries = record(&ground);
        let told: Vec<_> =
            entries.iter().map(|entry| (entry["verb"].as_str().unwrap(), &entry["changed"])).collect();
        assert_eq!(told, [("redrive", &json!(1)), ("discard", &json!(1)), ("prune", &json!(1))]);
        assert_eq!(entries[0]["filter"], json!({"ids": [one], "lane": "main", "state": "dead"}));
        assert_eq!(entries[1]["filter"]["reason"], "left");
        assert!(
            entries.iter().all(|entry| entry["via"].as_str().unwrap().starts_with("cli@")),
            "{entries:?}"
        );
        ground.end().await;
    }
}

/// The line that says what a command has done; before its first step another one says who gave it.
fn end_of_command(said: &str) -> &str {
    let lines: Vec<_> = said.lines().filter(|line| line.contains("an operator's command")).collect();
    let [begun, ended] = lines[..] else { panic!("{said}") };
    assert!(begun.contains("it begins") && begun.contains("verb=\"redrive\""), "{begun}");
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_no_table_keeps_is_said_at_every_level() {
    for ground in tables("a_command_that_no_table_keeps_is_said_at_every_level").await {
        ground.configure("[log]\nlevel = \"error\"\n");
        let one = ground.id("b");
        let (code, said) = ground.said(&["dead", "redrive", "--lane", "main", "--id", &one]);
        assert_eq!(code, 0, "{said}");
        let line = end_of_command(&said);
        for word in ["actor=", "via=\"cli", "verb=\"redrive\"", &one, "changed=1", "migrate print --audit"] {
            assert!(line.contains(word), "{word}: {line}");
        }
        let (_, said) = ground.said(&["dead", "redrive", "--lane", "main", "--dry-run"]);
        assert!(!said.contains("operator"), "nothing was changed: {said}");
        ground.end().await;
    }
}

/// The owner's trigger lets no operator touch the last of the dead rows.
fn trigger(ground: &Ground) -> String {
    let last = ground.id("c");
    match ground.is_embedded() {
        true => format!(
            "CREATE TRIGGER keep BEFORE UPDATE ON {TABLE} WHEN OLD.event_id = '{last}' BEGIN SELECT RAISE(ABORT, 'hands off'); END"
        ),
        false => format!(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hands off'; END $$;
             CREATE TRIGGER keep BEFORE UPDATE ON {TABLE} FOR EACH ROW WHEN (OLD.event_id = '{last}') EXECUTE FUNCTION keep()"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_half_way_leaves_its_record() {
    // At this rate a step is one row.
    let redrive = ["dead", "redrive", "--lane", "main", "--rate", "4/s"];
    for ground in tables("a_command_that_fails_half_way_leaves_its_record").await {
        ground.sql(&trigger(&ground)).await;
        ground.keep_record().await;
        let (code, said) = ground.said(&redrive);
        assert!(code != 0 && said.contains("hands off"), "{said}");
        let entries = record(&ground);
        // The records of its steps are seen as one.
        assert_eq!(entries.len(), 1, "{entries:#?}");
        let (filter, changed) = (&entries[0]["filter"], &entries[0]["changed"]);
        assert_eq!((&filter["parts"], &filter["stopped"], changed), (&json!(2), &json!(true), &json!(1)));
        assert!(filter["failed"].as_str().unwrap().contains("hands off"), "{entries:#?}");
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_half_way_is_said_where_no_table_keeps_it() {
    for ground in tables("a_command_that_fails_half_way_is_said_where_no_table_keeps_it").await {
        ground.sql(&trigger(&ground)).await;
        let (code, said) = ground.said(&["dead", "redrive", "--lane", "main", "--rate", "4/s"]);
        assert_ne!(code, 0, "{said}");
        let line = end_of_command(&said);
        assert!(line.contains("changed=1") && line.contains("hands off"), "{line}");
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_nobody_waits_for_is_ended_on_the_server() {
    let trial = "a_look_that_nobody_waits_for_is_ended_on_the_server";
    let Some(ground) = Ground::postgres_table(trial).await else { return };
    let store = ground.open().await;
    all_lanes(&*store).await.unwrap();
    let holder = ground.connect().await;
    holder.batch_execute(&format!("BEGIN; LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let everything = Filter::default();
    let look = timeout(Duration::from_millis(500), store.find(&everything, Page::first(1))).await;
    assert!(look.is_err(), "it waits for the lock");
    // The next one to take a connection neither waits behind it nor leaves it there.
    let filter = AuditFilter::default();
    let next = timeout(DEADLINE, store.audited(&filter, Page::first(1))).await;
    assert!(next.is_ok(), "it is answered");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let end = Instant::now() + DEADLINE;
    while holder.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < end, "the look is still in the server");
        sleep(Duration::from_millis(20)).await;
    }
    drop(holder);
    ground.end().await;
}
