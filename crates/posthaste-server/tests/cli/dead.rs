//! Dead events: found, sent again, given up.

use posthaste::lane::LaneSpec;
use posthaste::store::{Outcome, Owner, Room, Settled, Then};
use posthaste::target::{DeliverError, DeliverKind};
use serde_json::Value;

use crate::folder::Folder;

/// A folder whose lane `main` has three dead events.
pub(crate) fn with_dead() -> Folder {
    let folder = Folder::new();
    for id in ["1", "2", "3"] {
        folder.ok(&["publish", "--type", "x", "--id", id, "--data", "{}"]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", folder.path("posthaste.db").display());
        let store = posthaste::store::open(&url).await.unwrap();
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
        let error = DeliverError::new(DeliverKind::Rejected, "http 400", "no such customer");
        let dead = |ticket| Settled::new(ticket, Outcome::Dead { error: error.clone() });
        let outcomes = claimed.iter().map(|claimed| dead(claimed.ticket)).collect();
        store.settle(&lease, outcomes, Then::GiveUp).await.unwrap();
    });
    folder
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
