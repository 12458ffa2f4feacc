//! Every verb of an operator as a program, on every kind of store: an embedded log, a log on Postgres, and a reference open-outbox
//! table in either. What a table of somebody else cannot do is refused with why, and nothing is changed.

pub(crate) mod ground;
pub(crate) mod rest;
pub(crate) mod tables;

use serde_json::{Value, json};

use ground::Ground;

/// What every store can do: look, redrive, replay, prune.
fn what_all_can(ground: &Ground) {
    let events = ground.json(&["event", "list"]);
    assert_eq!(ids(&events), ["c", "b", "a"].map(|id| ground.id(id)), "the newest first");
    assert_eq!(ids(&ground.json(&["event", "list", "--id", &ground.id("b")])), [ground.id("b")]);
    let two = ["event", "list", "--id", &ground.id("a"), "--id", &ground.id("c")];
    assert_eq!(ids(&ground.json(&two)), ["c", "a"].map(|id| ground.id(id)));
    assert_eq!(ids(&ground.json(&["event", "list", "--state", "delivered"])), [ground.id("a")]);
    assert_eq!(ids(&ground.json(&["event", "list", "--type", "order.placed", "--since", "1h"])).len(), 3);
    assert_eq!(ids(&ground.json(&["event", "list", "--until", "1h"])).len(), 0);
    let first = ground.json(&["event", "list", "--limit", "2"]);
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&ground.json(&["event", "list", "--limit", "2", "--after", next])), [ground.id("a")]);
    assert_eq!(ground.ok(&["event", "show", &ground.id("b"), "--payload"]), "{\"n\":2}");
    let tail = ground.tail(3);
    assert!(["a", "b", "c"].iter().all(|name| tail.contains(&ground.id(name))), "{tail}");

    let dead = ground.json(&["dead", "list", "--lane", "main"]);
    assert_eq!(ids(&dead), [ground.id("c"), ground.id("b")]);
    let shown = ground.ok(&["dead", "show", &ground.id("b")]);
    assert!(shown.contains("main dead") && shown.contains("no such customer"), "{shown}");
    let lane = ground.json(&["lane", "show", "main"]);
    assert_eq!((&lane["delivered"], &lane["dead"]), (&json!(1), &json!(2)), "{lane}");
    assert_eq!(ground.json(&["lane", "list"])["lanes"], json!([lane]));
    ground.refused(&["lane", "show", "other"], 6, "other");
    assert_eq!(ground.json(&["stats"])["total"]["dead"], 2);

    let one = ground.id("b");
    let counted = ground.json(&["dead", "redrive", "--lane", "main", "--dry-run"]);
    assert_eq!((&counted["matched"], &counted["changed"]), (&json!(2), &json!(0)), "{counted}");
    assert_eq!(sample(&counted), ["c", "b"].map(|id| ground.id(id)), "a few of them are shown");
    let shown = ground.ok(&["dead", "redrive", "--lane", "main", "--dry-run"]);
    assert!(shown.starts_with("would redrive 2 dead events\n") && shown.contains(&one), "{shown}");
    ground.refused(&["dead", "redrive", "--lane", "main", "--rate", "0/s"], 2, "rate");
    let redrive = ["dead", "redrive", "--lane", "main", "--id", &one, "--rate", "50/s"];
    assert_eq!(ground.applied(&redrive), (1, 1));
    assert_eq!(ground.relay(), 1);
    assert_eq!(ground.applied(&["replay", "--lane", "main", "--id", &ground.id("a"), "--dry-run"]), (1, 0));
    assert_eq!(ground.applied(&["replay", "--lane", "main", "--id", &ground.id("a")]), (1, 1));
    assert_eq!(ground.relay(), 1);
    ground.adds_up();
}

/// What a log can do beyond.
fn what_a_log_can(ground: &Ground) {
    let codes = ground.json(&["dead", "list", "--by", "code"]);
    assert_eq!((&codes["codes"][0]["code"], &codes["codes"][0]["events"]), (&json!("http 400"), &json!(1)));
    assert_eq!(
        ids(&ground.json(&["dead", "list", "--code", "http 400", "--error", "CUSTOMER"])),
        [ground.id("c")]
    );
    assert_eq!(ground.applied(&["dead", "redrive", "--lane", "main", "--id", "c"]), (1, 1));
    ground.refused(&["event", "schedule", "--at", "1h"], 2, "--lane LANE");
    assert_eq!(ground.applied(&["event", "schedule", "--lane", "main", "--id", "c", "--at", "1h"]), (1, 1));
    assert_eq!(ground.relay(), 0, "its time has not come");
    assert_eq!(ground.applied(&["event", "bury", "--lane", "main", "--id", "c", "--dry-run"]), (1, 0));
    assert_eq!(ground.applied(&["event", "bury", "--lane", "main", "--reason", "no such customer"]), (1, 1));
    assert_eq!(ids(&ground.json(&["dead", "list", "--code", "buried"])), ["c"]);
    ground.adds_up();
    ground.refused(&["dead", "discard", "--lane", "main"], 2, "--yes");
    let discard = ["dead", "discard", "--lane", "main", "--reason", "left", "--yes"];
    assert_eq!(ground.applied(&discard), (1, 1));
    assert_eq!(ids(&ground.json(&["event", "list", "--state", "discarded"])), [ground.id("c")]);
    ground.adds_up();

    ground.refused(&["event", "erase", "--yes"], 2, "which events");
    ground.refused(&["event", "erase", "--id", "c"], 2, "--yes");
    assert_eq!(ground.applied(&["event", "erase", "--id", "c", "--dry-run"]), (1, 0));
    assert_eq!(ground.applied(&["event", "erase", "--id", "c", "--yes"]), (1, 1));
    assert!(ground.ok(&["event", "show", "c"]).contains("erased"));

    assert_eq!(ground.applied(&["lane", "pause", "main"]), (1, 1));
    assert_eq!(ground.json(&["lane", "show", "main"])["state"], "paused");
    assert_eq!(ground.applied(&["lane", "resume", "--all"]), (1, 1));
    ground.refused(&["lane", "seek", "main", "--to", "beginning"], 2, "--yes");
    ground.ok(&["lane", "seek", "main", "--to", "beginning", "--yes"]);
    // What was discarded stays so.
    assert_eq!(ground.relay(), 2);
    ground.adds_up();
    assert_eq!(ground.applied(&["prune", "--delivered-age", "0s", "--dry-run"]), (2, 0));
    ground.refused(
        &["prune", "--delivered-age", "0s"],
        2,
        "prune 2 events: this cannot be undone; say --yes",
    );
    assert_eq!(ids(&ground.json(&["event", "list"])).len(), 3, "without consent nothing is removed");
    assert_eq!(ground.applied(&["prune", "--delivered-age", "0s", "--yes"]), (2, 2));
    ground.refused(&["prune", "--dead-age", "0s"], 2, "--yes");
    assert_eq!(ground.applied(&["prune", "--delivered-age", "0s", "--dead-age", "0s", "--yes"]), (1, 1));
    assert_eq!(ids(&ground.json(&["event", "list"])).len(), 0);
    ground.adds_up();
    ground.ok(&["lane", "remove", "main", "--yes"]);
    assert_eq!(ground.json(&["lane", "list"])["lanes"], json!([]));
    ground.refused(&["lane", "rebase", "--yes"], 2, "nothing to rebase");

    let record = ground.json(&["audit"]);
    let entries = record["entries"].as_array().unwrap();
    let verbs: Vec<&str> = entries.iter().rev().map(|entry| entry["verb"].as_str().unwrap()).collect();
    let expected = [
        "redrive", "replay", "redrive", "schedule", "bury", "discard", "erase", "pause", "resume", "seek",
        "prune", "prune", "remove",
    ];
    assert_eq!(verbs, expected, "{record:#}");
    assert!(entries.iter().all(|entry| entry["via"].as_str().unwrap().starts_with("cli@")), "{record:#}");
}

/// What consumers remember goes only when asked, and only what is old.
async fn what_consumers_remember(ground: &Ground) {
    ground.remember().await;
    let prune = ["prune", "--inbox-older-than", "1h"];
    ground.refused(&prune, 2, "2 handled events");
    assert_eq!(ground.applied(&[&prune[..], &["--dry-run"]].concat()), (2, 0));
    assert_eq!(ground.applied(&[&prune[..], &["--yes"]].concat()), (2, 2));
    assert_eq!(ground.applied(&[&prune[..], &["--yes"]].concat()), (0, 0), "the young one stays");
    let newest = ground.json(&["audit", "--limit", "1"])["entries"][0].clone();
    assert_eq!((&newest["verb"], &newest["changed"]), (&json!("prune-inbox"), &json!(2)), "{newest}");
}

/// What a table can do beyond: `c` is dead, and is put off, buried and given up.
fn what_a_table_can(ground: &Ground) {
    let codes = ground.json(&["dead", "list", "--by", "code"]);
    assert_eq!((&codes["codes"][0]["code"], &codes["codes"][0]["events"]), (&json!("http 400"), &json!(1)));
    let dry = |flag: &str, value: &str| {
        ground.applied(&["dead", "redrive", "--lane", "main", flag, value, "--dry-run"]).0
    };
    assert_eq!((dry("--code", "http 400"), dry("--error", "CUSTOMER"), dry("--topic", "order.*")), (1, 1, 1));
    for (flag, value) in
        [("--code", "http 4"), ("--error", "400"), ("--topic", "order"), ("--topic", "stock.#")]
    {
        ground.refused(&["dead", "redrive", "--lane", "main", flag, value], 6, "dead events");
    }
    assert_eq!(ground.applied(&["dead", "redrive", "--lane", "main", "--code", "http 400"]), (1, 1));
    assert_eq!(
        ground.applied(&["event", "schedule", "--lane", "main", "--topic", "order.#", "--at", "1h"]),
        (1, 1)
    );
    assert_eq!(ground.relay(), 0, "its time has not come");
    let counted = ground.json(&["event", "bury", "--lane", "main", "--dry-run"]);
    assert_eq!((&counted["matched"], sample(&counted)), (&json!(1), vec![ground.id("c")]), "{counted}");
    assert_eq!(ground.applied(&["event", "bury", "--lane", "main", "--reason", "no such customer"]), (1, 1));
    assert_eq!(ids(&ground.json(&["dead", "list", "--code", "buried"])), [ground.id("c")]);
    ground.refused(&["event", "bury", "--lane", "main"], 6, "waiting events");
    ground.adds_up();
    ground.refused(&["dead", "discard", "--lane", "main"], 2, "--yes");
    assert_eq!(ground.applied(&["dead", "discard", "--lane", "main", "--reason", "left", "--yes"]), (1, 1));
    assert_eq!(ids(&ground.json(&["event", "list", "--state", "discarded"])), [ground.id("c")]);
    assert!(ground.ok(&["event", "show", &ground.id("c")]).contains("left"));
    ground.refused(&["dead", "redrive", "--lane", "main"], 6, "dead events");
    let total = ground.json(&["stats"])["total"].clone();
    assert_eq!((&total["dead"], &total["discarded"]), (&json!(0), &json!(1)), "{total}");
    ground.adds_up();
}

/// What a table of somebody else has no place for.
fn what_a_table_cannot(ground: &Ground) {
    let before = ground.json(&["event", "list"]);
    for verb in [
        &["event", "erase", "--id", &ground.id("a"), "--yes"][..],
        &["lane", "pause", "main"],
        &["lane", "resume", "main"],
        &["lane", "seek", "main", "--to", "beginning", "--yes"],
        &["lane", "remove", "main", "--yes"],
        &["lane", "rebase", "--yes"],
        &["prune", "--inbox-older-than", "1h", "--yes"],
        &["key", "add", "grafana"],
        &["audit"],
    ] {
        ground.refused(verb, 2, "table");
    }
    assert_eq!(ground.json(&["event", "list"]), before);
    // Pending rows are never pruned, dead ones only when asked.
    ground.refused(
        &["prune", "--delivered-age", "0s"],
        2,
        "prune 2 events: this cannot be undone; say --yes",
    );
    assert_eq!(ground.applied(&["prune", "--delivered-age", "0s", "--yes"]), (2, 2));
    assert_eq!(ids(&ground.json(&["event", "list"])), [ground.id("c")]);
    assert_eq!(ground.applied(&["prune", "--delivered-age", "0s", "--dead-age", "0s", "--yes"]), (1, 1));
    assert_eq!(ids(&ground.json(&["event", "list"])).len(), 0);
}

/// The ids of the sample that a dry run shows.
fn sample(counted: &Value) -> Vec<String> {
    ids(&json!({ "events": counted["sample"] }))
}

fn ids(page: &Value) -> Vec<String> {
    page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_an_embedded_log() {
    let ground = Ground::sqlite_log().await;
    what_all_can(&ground);
    what_a_log_can(&ground);
    what_consumers_remember(&ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_a_log_on_postgres() {
    let Some(ground) = Ground::postgres_log("every_verb_on_a_log_on_postgres").await else { return };
    what_all_can(&ground);
    what_a_log_can(&ground);
    what_consumers_remember(&ground).await;
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_over_rest_on_an_embedded_log() {
    rest::every_verb(&Ground::sqlite_log().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_over_rest_on_a_log_on_postgres() {
    let trial = "every_verb_over_rest_on_a_log_on_postgres";
    let Some(ground) = Ground::postgres_log(trial).await else { return };
    rest::every_verb(&ground).await;
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_a_reference_table_in_sqlite() {
    let ground = Ground::sqlite_table().await;
    what_all_can(&ground);
    what_a_table_can(&ground);
    what_a_table_cannot(&ground);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_a_reference_table_on_postgres() {
    let Some(ground) = Ground::postgres_table("every_verb_on_a_reference_table_on_postgres").await else {
        return;
    };
    what_all_can(&ground);
    what_a_table_can(&ground);
    what_a_table_cannot(&ground);
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_over_rest_on_a_reference_table_in_sqlite() {
    rest::every_verb_of_a_table(&Ground::sqlite_table().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_over_rest_on_a_reference_table_on_postgres() {
    let trial = "every_verb_over_rest_on_a_reference_table_on_postgres";
    let Some(ground) = Ground::postgres_table(trial).await else { return };
    rest::every_verb_of_a_table(&ground).await;
    ground.end().await;
}

/// Stops a redrive of many events at one a second, and sees what it says and did.
async fn stops_when_asked(ground: &Ground) {
    let dead = 2 + ground.add_dead(58).await;
    let said = ground.stopped_on_the_way(&["dead", "redrive", "--lane", "main", "--rate", "1/s"]).await;
    assert!(said["stopped"] == true && said["changed"].as_u64().is_some_and(|changed| changed > 0), "{said}");
    let changed = said["changed"].as_u64().unwrap();
    assert!(changed < dead, "it was stopped before the end");
    let total = ground.json(&["stats"])["total"].clone();
    assert_eq!(total["dead"], dead - changed, "what it says it did is what it did: {total}");
    ground.adds_up();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_stopped_says_and_records_what_it_did() {
    let mut grounds = vec![Ground::sqlite_log().await];
    grounds.extend(Ground::postgres_log("a_command_that_is_stopped_says_and_records_what_it_did").await);
    for ground in grounds {
        stops_when_asked(&ground).await;
        let record = ground.json(&["audit", "--verb", "redrive"]);
        let entries = record["entries"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["filter"]["stopped"] == true), "{record:#}");
        let recorded: u64 = entries.iter().map(|entry| entry["changed"].as_u64().unwrap()).sum();
        assert_eq!(recorded, 60 - ground.json(&["stats"])["total"]["dead"].as_u64().unwrap(), "{record:#}");
        ground.end().await;
    }
    stops_when_asked(&Ground::sqlite_table().await).await;
    let table = Ground::postgres_table("a_command_that_is_stopped_says_and_records_what_it_did").await;
    if let Some(ground) = table {
        stops_when_asked(&ground).await;
        ground.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_over_rest_is_stopped_by_its_name_and_says_what_it_did() {
    let trial = "a_command_over_rest_is_stopped_by_its_name_and_says_what_it_did";
    let mut grounds = vec![Ground::sqlite_log().await, Ground::sqlite_table().await];
    grounds.extend(Ground::postgres_log(trial).await);
    grounds.extend(Ground::postgres_table(trial).await);
    for ground in grounds {
        rest::stops_when_asked(&ground).await;
        ground.end().await;
    }
}
