//! Dead events: found, sent again, given up.

use std::io::Read as _;

use posthaste::lane::LaneSpec;
use posthaste::store::{Outcome, Owner, Room, Settled, Then};
use posthaste::target::{DeliverError, DeliverKind};
use serde_json::Value;

use crate::cli::folder::{Folder, Running, eventually};
use crate::cli::server::serve;

/// A folder whose lane `main` has three dead events.
pub(crate) fn with_dead() -> Folder {
    let folder = Folder::new();
    for id in ["1", "2", "3"] {
        folder.ok(&["publish", "--type", "x", "--id", id, "--data", "{}"]);
    }
    kill(&folder, &DeliverError::new(DeliverKind::Rejected, "http 400", "no such customer"));
    folder
}

/// A folder whose lane `main` has one dead event, with the id 1, of which its target said this.
pub(crate) fn with_dead_of(message: &str) -> Folder {
    let folder = Folder::new();
    folder.ok(&["publish", "--type", "x", "--id", "1", "--data", "{}"]);
    kill(&folder, &DeliverError::new(DeliverKind::Rejected, "http 400", message));
    folder
}

/// Whatever the lane `main` has not read dies of this.
fn kill(folder: &Folder, error: &DeliverError) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", folder.path("posthaste.db").display());
        let store = posthaste::store::open(&url).await.unwrap();
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
        let dead = |ticket| Settled::new(ticket, Outcome::Dead { error: error.clone() });
        let outcomes = claimed.iter().map(|claimed| dead(claimed.ticket)).collect();
        store.settle(&lease, outcomes, Then::GiveUp).await.unwrap();
    });
}

#[test]
fn dead_events_are_listed_with_why() {
    let folder = with_dead();
    let text = folder.ok(&["dead", "list"]).text().to_owned();
    assert!(text.contains("http 400") && text.contains("no such customer"), "{text}");
    let page = folder.json(&["dead", "list", "--lane", "main", "--code", "http 400"]);
    assert_eq!(page["events"].as_array().unwrap().len(), 3);
    assert_eq!(folder.json(&["dead", "list", "--code", "timeout"])["events"], Value::Array(vec![]));
    let shown = folder.ok(&["dead", "show", "2"]).text().to_owned();
    assert!(shown.contains("main dead, 1 failed (no such customer)"), "{shown}");
}

#[test]
fn redriven_events_are_delivered() {
    let folder = with_dead();
    assert_eq!(folder.json(&["dead", "redrive", "--lane", "main", "--id", "2", "--dry-run"])["matched"], 1);
    assert_eq!(folder.json(&["dead", "redrive", "--lane", "main", "--id", "2"])["changed"], 1);
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 1);
    assert_eq!(folder.json(&["lane", "list"])["lanes"][0]["dead"], 2);
    folder.run(&["dead", "redrive"]).assert_failed(2, &["--lane LANE"]);
}

#[test]
fn discarding_needs_a_yes() {
    let folder = with_dead();
    folder.run(&["dead", "discard", "--lane", "main"]).assert_failed(2, &["3 dead events", "--yes"]);
    assert_eq!(folder.json(&["dead", "discard", "--lane", "main", "--dry-run"])["matched"], 3);
    assert_eq!(folder.json(&["dead", "discard", "--lane", "main", "--yes"])["changed"], 3);
    let stats = folder.json(&["stats"]);
    assert_eq!((&stats["total"]["dead"], &stats["total"]["discarded"]), (&Value::from(0), &Value::from(3)));
    folder.run(&["dead", "discard", "--lane", "main", "--yes"]).assert_failed(6, &["dead events"]);
}

#[test]
fn nothing_to_do_needs_no_consent_and_one_event_is_not_several() {
    let folder = with_dead_of("no");
    let counted = folder.ok(&["dead", "redrive", "--lane", "main", "--dry-run"]);
    assert!(counted.text().starts_with("would redrive 1 dead event\n"), "{}", counted.text());
    folder.run(&["dead", "discard", "--lane", "main"]).assert_failed(2, &["discard 1 dead event:", "--yes"]);
    folder
        .run(&["dead", "discard", "--lane", "main", "--code", "none"])
        .assert_failed(6, &["find any dead events"]);
    let pruned = folder.ok(&["prune", "--older-than", "30d", "--dead-older-than", "30d"]);
    assert_eq!(pruned.text(), "prune: 0 of 0 events\n");
    let seek = folder.ok(&["lane", "seek", "main", "--to", "end"]);
    assert_eq!(seek.text(), "seek: lane main past 0 of 0 events, skipped or sent again\n");
    assert_eq!(folder.ok(&["lane", "pause", "main"]).text(), "pause: 1 of 1 lane\n");
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder.ok(&["relay", "--once", "--to", "null:"]);
    // The lane goes with its place, which is something to consent to.
    folder.run(&["lane", "remove", "main"]).assert_failed(2, &["lane main with 0 parked events", "--yes"]);
    folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\n");
    assert!(folder.ok(&["check"]).text().contains("valid, 1 lane, 0 targets"));
}

/// Redriven and delivered: by a relay beside it, and through a server that drives the lane.
#[test]
fn a_redrive_waits_until_its_events_are_delivered() {
    let folder = with_dead();
    folder.write("posthaste.toml", "[server]\noperators = [\"first\"]\n[lanes.main]\nto = \"null:\"\n");
    let relay = Running(folder.command(&["relay"]).spawn().unwrap());
    let waited = folder.ok(&["dead", "redrive", "--lane", "main", "--id", "2", "--wait"]);
    assert_eq!(waited.text(), "redrive: 1 of 1 dead event\ndelivered 1, dead again 0, still waiting 0\n");
    relay.signal("TERM");
    drop(relay);
    let (mut running, address) = serve(&folder);
    let waited = folder.json(&[
        "dead",
        "redrive",
        "--lane",
        "main",
        "--wait",
        "--server",
        &format!("http://{address}"),
    ]);
    assert_eq!((&waited["changed"], &waited["delivered"]), (&Value::from(2), &Value::from(2)), "{waited:#}");
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    folder.run(&["dead", "redrive", "--lane", "main", "--wait"]).assert_failed(6, &["dead events"]);
}

/// The target refuses them once more.
#[test]
fn a_redrive_waits_until_its_events_are_dead_again() {
    let folder = with_dead();
    let mut redrive =
        Running(folder.command(&["dead", "redrive", "--lane", "main", "--wait"]).spawn().unwrap());
    eventually("they are redriven", || (folder.json(&["stats"])["total"]["waiting"] == 3).then_some(()));
    kill(&folder, &DeliverError::new(DeliverKind::Rejected, "http 400", "no such customer"));
    assert_eq!(redrive.code(), 7);
    let mut said = String::new();
    redrive.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.ends_with("delivered 0, dead again 3, still waiting 0\n"), "{said}");
}

/// No relay drives the lane: redriven events still wait when the time is up, and the exit code says so.
#[test]
fn a_redrive_that_is_not_delivered_in_time_says_so() {
    let folder = with_dead();
    let redrive = ["dead", "redrive", "--lane", "main", "--wait", "--timeout", "1s"];
    let waited = folder.run(&[&redrive[..], &["--output", "json"]].concat());
    assert_eq!(waited.code, 7, "{}", waited.stderr);
    let document = waited.json();
    let figures =
        ["matched", "changed", "delivered", "dead_again", "still_waiting"].map(|name| &document[name]);
    assert_eq!(figures, [3, 3, 0, 0, 3].map(Value::from).each_ref(), "{document:#}");
    assert!(waited.stderr.contains("3 events not delivered yet"), "{}", waited.stderr);
    assert_eq!(
        folder.run(&["dead", "redrive", "--lane", "main", "--timeout", "1s"]).code,
        2,
        "only with --wait"
    );
    assert_eq!(folder.run(&[&redrive[..], &["--dry-run"]].concat()).code, 2);
    folder.run(&redrive).assert_failed(6, &["dead events"]);
}

/// Three dead of one code and, of the same lane, one of another.
fn with_two_codes() -> Folder {
    let folder = with_dead();
    folder.ok(&["publish", "--type", "y", "--id", "4", "--data", "{}"]);
    kill(&folder, &DeliverError::new(DeliverKind::Failed, "timeout", "No answer within 5 s"));
    folder
}

#[test]
fn dead_events_are_counted_by_code() {
    let folder = with_two_codes();
    let page = folder.json(&["dead", "list", "--by", "code"]);
    let codes = page["codes"].as_array().unwrap();
    let seen: Vec<_> = codes.iter().map(|code| (&code["code"], &code["events"], &code["example"])).collect();
    let text = |text: &str| Value::from(text);
    assert_eq!(
        seen,
        [(&text("http 400"), &Value::from(3), &text("3")), (&text("timeout"), &Value::from(1), &text("4"))],
        "{page:#}"
    );
    assert_eq!((&codes[0]["error"], &page["partial"]), (&text("no such customer"), &Value::from(false)));
    assert!(codes[0]["first_at"].as_str() <= codes[0]["last_at"].as_str(), "{page:#}");
    assert!(codes[0]["last_at"].as_str() < codes[1]["first_at"].as_str(), "{page:#}");
    let only = |arguments: &[&str]| -> Vec<Value> {
        let page = folder.json(&[&["dead", "list", "--by", "code"], arguments].concat());
        page["codes"].as_array().unwrap().iter().map(|code| code["code"].clone()).collect()
    };
    assert_eq!(only(&["--error", "no ANSWER"]), ["timeout"]);
    assert_eq!(only(&["--lane", "main", "--code", "http 400"]), ["http 400"]);
    folder.run(&["dead", "list", "--by", "code", "--lane", "other"]).assert_failed(6, &["no lane other"]);
    let table = folder.ok(&["dead", "list", "--by", "code"]).text().to_owned();
    assert!(table.contains("LAST SEEN") && table.contains("http 400"), "{table}");
    folder.run(&["dead", "list", "--by", "code", "--type", "x"]).assert_failed(2, &["one by one"]);
    assert_eq!(folder.run(&["dead", "list", "--by", "moon"]).code, 2);
    folder.ok(&["dead", "discard", "--lane", "main", "--code", "http 400", "--yes"]);
    assert_eq!(only(&[]), ["timeout"], "what was given up is not dead");
}

#[test]
fn events_are_found_and_redriven_by_a_text_in_their_error() {
    let folder = with_two_codes();
    let ids = |arguments: &[&str]| -> Vec<Value> {
        let page = folder.json(arguments);
        page["events"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect()
    };
    assert_eq!(ids(&["dead", "list", "--error", "such CUSTOMER"]), ["3", "2", "1"]);
    assert_eq!(ids(&["event", "list", "--error", "within 5"]), ["4"]);
    assert_eq!(ids(&["dead", "list", "--error", "100%"]), Vec::<Value>::new(), "no sign has a meaning");
    assert_eq!(folder.run(&["dead", "list", "--error", &"x".repeat(256)]).code, 2);
    let (mut running, address) = serve(&folder);
    let server = format!("http://{address}");
    for verb in
        [&["dead", "list", "--error", "no answer"][..], &["dead", "list", "--by", "code", "--error", "NO"]]
    {
        let by_server = folder.json(&[verb, &["--server", &server]].concat());
        assert_eq!(by_server, folder.json(&[verb, &["--store", "sqlite://posthaste.db"]].concat()));
    }
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    assert_eq!(folder.json(&["dead", "redrive", "--lane", "main", "--error", "no answer"])["changed"], 1);
    assert_eq!(folder.json(&["lane", "list"])["lanes"][0]["dead"], 3);
}

/// Three dead events, and after them more that are retried than a page looks at.
fn with_dead_below_many() -> Folder {
    let folder = with_dead();
    folder.sql(
        "INSERT INTO posthaste_events (event_id, event_type, payload)
         WITH RECURSIVE n(n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n WHERE n < 21100) SELECT n, 'x', '{}' FROM n;
         INSERT INTO posthaste_parked (lane, seq, state, available_at, attempts, first_failed_at)
         SELECT 'main', seq, CASE seq WHEN 4 THEN 'scheduled' ELSE 'retrying' END, 9000000000000000, 1, created_at
         FROM posthaste_events WHERE seq > 3;
         UPDATE posthaste_lanes SET position = 21004, accepted = accepted + 21001, waiting = 21001",
    );
    folder
}

#[test]
fn dead_events_are_found_below_any_number_of_others() {
    let folder = with_dead_below_many();
    let ids = |arguments: &[&str]| -> Vec<Value> {
        let page = folder.json(arguments);
        page["events"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect()
    };
    assert_eq!(ids(&["dead", "list"]), ["3", "2", "1"]);
    assert_eq!(ids(&["dead", "list", "--lane", "main", "--limit", "2"]), ["3", "2"]);
    assert_eq!(ids(&["event", "list", "--state", "scheduled"]), ["100"], "it reads on where a page has none");
    let dry = folder.json(&["dead", "redrive", "--lane", "main", "--dry-run"]);
    assert_eq!((&dry["matched"], dry["sample"].as_array().unwrap().len()), (&Value::from(3), 3), "{dry:#}");
    let lane = folder.json(&["lane", "show", "main"]);
    assert_eq!((&lane["waiting"], lane.get("retrying")), (&Value::from(21_001), None), "too many to count");
}

#[test]
fn a_lane_that_is_not_there_is_told() {
    let folder = with_dead();
    let (mut running, address) = serve(&folder);
    let server = format!("http://{address}");
    for at in [["--store", "sqlite://posthaste.db"], ["--server", &server]] {
        for verb in [&["dead", "list"][..], &["event", "list"], &["dead", "list", "--by", "code"]] {
            let asked = [verb, &["--lane", "mian"], &at].concat();
            folder.run(&asked).assert_failed(6, &["no lane mian"]);
        }
    }
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}
