//! Steering lanes.

use serde_json::Value;

use crate::cli::folder::Folder;

fn lane(folder: &Folder) -> Value {
    folder.json(&["lane", "list"])["lanes"][0].clone()
}

fn delivered() -> Folder {
    let folder = Folder::new();
    for n in 0..3 {
        folder.publish("x", &n.to_string());
    }
    folder.ok(&["relay", "--once", "--to", "null:"]);
    folder
}

#[test]
fn a_paused_lane_is_not_driven_until_it_is_resumed() {
    let folder = delivered();
    folder.ok(&["lane", "pause", "main"]);
    assert_eq!(lane(&folder)["state"], "paused");
    folder.publish("x", "{}");
    let skipped = folder.json(&["relay", "--once", "--to", "null:"]);
    assert_eq!((&skipped["delivered"], &skipped["lanes_skipped"]), (&Value::from(0), &Value::from(1)));
    folder.ok(&["lane", "resume", "main"]);
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 1);
}

#[test]
fn why_a_lane_is_not_driven_is_told_in_full() {
    let folder = delivered();
    let reason = "connection refused: ".repeat(9) + "the end";
    folder.sql(&format!("UPDATE posthaste_lanes SET state = 'unavailable', reason = '{reason}'"));
    let list = folder.ok(&["lane", "list"]);
    assert!(list.text().ends_with(&format!("main is unavailable: {reason}\n")), "{}", list.text());
}

#[test]
fn a_replay_is_counted_first_and_then_delivered_again() {
    let folder = delivered();
    let dry = folder.json(&["replay", "--lane", "main", "--since", "1h", "--dry-run"]);
    assert_eq!((&dry["matched"], &dry["changed"]), (&Value::from(3), &Value::from(0)));
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 0);
    assert_eq!(folder.json(&["replay", "--lane", "main"])["changed"], 3);
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 3);
    folder.run(&["replay", "--lane", "main", "--type", "y"]).assert_failed(6, &["delivered events"]);
    folder.run(&["replay"]).assert_failed(2, &["--lane LANE"]);
}

#[test]
fn seeking_needs_a_yes_and_delivers_again_from_there() {
    let folder = delivered();
    folder.run(&["lane", "seek", "main", "--to", "beginning"]).assert_failed(2, &["3 events", "--yes"]);
    assert_eq!(lane(&folder)["unread"], 0);
    folder.ok(&["lane", "seek", "main", "--to", "beginning", "--yes"]);
    assert_eq!(lane(&folder)["unread"], 3);
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 3);
    assert_eq!(folder.run(&["lane", "seek", "main", "--to", "sideways"]).code, 2);
}

#[test]
fn removing_needs_a_yes_and_forgets_the_lane() {
    let folder = delivered();
    folder.run(&["lane", "remove", "main"]).assert_failed(2, &["--yes"]);
    folder.ok(&["lane", "remove", "main", "--yes"]);
    assert_eq!(folder.json(&["lane", "list"])["lanes"], Value::Array(vec![]));
    for verb in ["pause", "resume"] {
        folder.run(&["lane", verb, "nobody"]).assert_failed(6, &[&format!("failed to {verb}: "), "nobody"]);
    }
}

#[test]
fn pruning_removes_what_every_lane_has_passed_after_a_yes() {
    let folder = delivered();
    assert_eq!(folder.json(&["prune", "--yes"])["changed"], 0, "younger than store.retain");
    assert_eq!(folder.json(&["prune", "--older-than", "0s", "--dry-run"])["matched"], 3);
    folder.run(&["prune", "--older-than", "0s"]).assert_failed(2, &["prune 3 events", "--yes"]);
    assert_eq!(
        folder.json(&["event", "list"])["events"].as_array().map(Vec::len),
        Some(3),
        "nothing was removed"
    );
    assert_eq!(folder.json(&["prune", "--older-than", "0s", "--yes"])["changed"], 3);
    assert_eq!(folder.json(&["event", "list"])["events"], Value::Array(vec![]));
}

#[test]
fn pruning_what_consumers_remember_needs_a_yes_and_leaves_the_young() {
    let folder = delivered();
    let row = "INSERT INTO posthaste_inbox (consumer, event_id, source";
    folder.sql(&format!("{row}, handled_at) VALUES ('stock', 'old-1', '', 0), ('stock', 'old-2', '', 0)"));
    folder.sql(&format!("{row}) VALUES ('stock', 'young', '')"));
    folder.sql("INSERT INTO posthaste_dedup (consumer, event_id, source, state, token, at) VALUES ('mail', 'old', '', 'processed', 't', 0)");
    let prune = ["prune", "--inbox-older-than", "1h"];
    folder.run(&prune).assert_failed(2, &["3 handled events", "--yes"]);
    assert_eq!(folder.json(&[&prune[..], &["--dry-run"]].concat())["matched"], 3);
    assert_eq!(folder.json(&[&prune[..], &["--yes"]].concat())["changed"], 3);
    assert_eq!(folder.json(&[&prune[..], &["--yes"]].concat())["matched"], 0, "the young one stays");
    assert_eq!(folder.json(&["event", "list"])["events"].as_array().map(Vec::len), Some(3), "no event went");
}

#[test]
fn what_a_seek_passes_is_given_up_and_what_is_unread_is_marked_as_an_estimate() {
    let folder = delivered();
    for n in 0..2 {
        folder.publish("x", &n.to_string());
    }
    let shown = lane(&folder);
    assert_eq!((&shown["unread"], &shown["unread_is_estimate"]), (&Value::from(2), &Value::from(true)));
    for verb in [&["lane", "list"][..], &["stats"], &["lane", "show", "main"]] {
        let text = folder.ok(verb).text().to_owned();
        assert!(text.contains("~2"), "{text}");
    }
    folder.ok(&["lane", "seek", "main", "--to", "end", "--yes"]);
    let shown = lane(&folder);
    let totals = ["accepted", "delivered", "discarded", "unread"].map(|name| shown[name].as_u64());
    assert_eq!(totals, [5, 3, 2, 0].map(Some), "{shown:#}");
    let record = folder.json(&["audit", "--verb", "seek"]);
    assert_eq!(record["entries"][0]["changed"], 2, "{record:#}");
}

#[test]
fn half_a_lane_is_not_brought_back() {
    let folder = delivered();
    folder.sql("UPDATE posthaste_lanes SET state = 'error', reason = 'being removed; repeat the removal to finish it'");
    for verb in ["resume", "pause"] {
        folder.run(&["lane", verb, "main"]).assert_failed(2, &["being removed", "lane remove main --yes"]);
    }
    folder.run(&["lane", "resume", "--all"]).assert_failed(6, &["find any lanes"]);
    assert_eq!(lane(&folder)["state"], "error");
    folder.ok(&["lane", "remove", "main", "--yes"]);
    assert_eq!(folder.json(&["lane", "list"])["lanes"], Value::Array(vec![]));
}
