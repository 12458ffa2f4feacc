//! What was changed, and by whom.

use serde_json::{Value, json};

use crate::cli::dead::with_dead;
use crate::cli::folder::{Answer, Folder};
use crate::cli::server::serve;

fn verbs(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["verb"].as_str().unwrap()).collect()
}

#[test]
fn every_verb_that_changes_something_is_listed_with_who_gave_it() {
    let folder = with_dead();
    folder.ok(&["dead", "redrive", "--lane", "main", "--id", "1"]);
    folder.ok(&["dead", "discard", "--lane", "main", "--id", "2", "--reason", "a typo", "--yes"]);
    folder.ok(&["lane", "pause", "main"]);
    folder.ok(&["lane", "resume", "--all"]);
    folder.ok(&["relay", "--once", "--to", "null:"]);
    folder.ok(&["replay", "--lane", "main"]);
    folder.ok(&["lane", "seek", "main", "--to", "beginning", "--yes"]);
    folder.ok(&["relay", "--once", "--to", "null:"]);
    folder.ok(&["prune", "--older-than", "0s", "--yes"]);
    folder.ok(&["lane", "remove", "main", "--yes"]);
    let page = folder.json(&["audit", "--all"]);
    assert_eq!(
        verbs(&page),
        ["remove", "prune", "seek", "replay", "resume", "pause", "discard", "redrive"],
        "{page:#}"
    );
    let discard = &page["entries"][6];
    assert_eq!((&discard["matched"], &discard["changed"]), (&json!(1), &json!(1)));
    assert_eq!(discard["filter"], json!({"lane": "main", "state": "dead", "ids": ["2"], "reason": "a typo"}));
    let owner = std::process::Command::new("id").arg("-un").output().unwrap();
    assert_eq!(discard["actor"], String::from_utf8(owner.stdout).unwrap().trim());
    assert!(discard["via"].as_str().unwrap().starts_with("cli@"), "{discard}");
    let table = folder.ok(&["audit", "--verb", "discard"]).text().to_owned();
    assert!(table.contains("VERB") && table.contains("reason=a typo"), "{table}");
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[test]
fn the_record_is_read_in_pages_and_by_what_is_asked_for() {
    let folder = with_dead();
    for _ in 0..3 {
        folder.ok(&["lane", "pause", "main"]);
        folder.ok(&["lane", "resume", "main"]);
    }
    folder.ok(&["prune", "--yes"]);
    assert_eq!(
        folder.json(&["audit"])["entries"].as_array().unwrap().len(),
        6,
        "a prune of nothing is no change"
    );
    assert_eq!(verbs(&folder.json(&["audit", "--all", "--limit", "1"])), ["prune"]);
    let first = folder.json(&["audit", "--verb", "pause", "--limit", "2"]);
    assert_eq!(verbs(&first), ["pause", "pause"]);
    let next = first["next"].as_str().unwrap();
    let second = folder.json(&["audit", "--verb", "pause", "--limit", "2", "--after", next]);
    assert_eq!((verbs(&second), &second["next"]), (vec!["pause"], &Value::Null));
    assert!(folder.ok(&["audit", "--limit", "2"]).stderr.contains("--after"));
    assert_eq!(verbs(&folder.json(&["audit", "--actor", "nobody"])), [""; 0]);
    assert_eq!(folder.json(&["audit", "--since", "1h"])["entries"].as_array().unwrap().len(), 6);
    folder.sql("DROP TRIGGER posthaste_audit_update; UPDATE posthaste_audit SET at = at - 7200000000");
    assert_eq!(verbs(&folder.json(&["audit", "--since", "1h"])), [""; 0]);
    assert_eq!(folder.run(&["audit", "--verb", "sing"]).code, 2);
    folder.run(&["audit", "--after", "x"]).assert_failed(2, &["is not a page"]);
    assert!(folder.ok(&["audit", "--actor", "nobody"]).text().contains("nothing was changed"));
}

#[test]
fn the_server_answers_with_the_same_record_as_the_store() {
    let folder = with_dead();
    folder.ok(&["lane", "pause", "main"]);
    folder.ok(&["dead", "redrive", "--lane", "main"]);
    let (mut running, address) = serve(&folder);
    let server = format!("http://{address}");
    for verb in [&["audit"][..], &["audit", "--all", "--verb", "pause", "--since", "1h", "--limit", "1"]] {
        let by_server = folder.json(&[verb, &["--server", &server]].concat());
        let by_store = folder.json(&[verb, &["--store", "sqlite://posthaste.db"]].concat());
        assert_eq!(by_server, by_store);
        assert!(!by_server["entries"].as_array().unwrap().is_empty());
    }
    let stranger: Answer = folder
        .command(&["audit", "--server", &server])
        .env("POSTHASTE_API_KEY", "ph_no")
        .output()
        .unwrap()
        .into();
    stranger.assert_failed(3, &["did not prove that it knows the API key"]);
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}

#[test]
fn nobody_changes_the_record_in_passing() {
    let folder = with_dead();
    folder.ok(&["lane", "pause", "main"]);
    let file = rusqlite::Connection::open(folder.path("posthaste.db")).unwrap();
    for statement in ["UPDATE posthaste_audit SET actor = 'eve'", "DELETE FROM posthaste_audit"] {
        let error = file.execute_batch(statement).unwrap_err();
        assert!(error.to_string().contains("only added to"), "{error}");
    }
    assert_eq!(verbs(&folder.json(&["audit"])), ["pause"]);
}

/// A relay that drives a lane with other settings changes it too.
#[test]
fn a_lane_that_is_defined_anew_is_in_the_record() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\n");
    folder.ok(&["relay", "--once"]);
    folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\ntopics = [\"y\"]\n");
    folder.ok(&["relay", "--once"]);
    let page = folder.json(&["audit"]);
    assert_eq!((verbs(&page), &page["entries"][0]["via"]), (vec!["redefine"], &json!("relay")));
    assert!(page["entries"][0]["filter"]["new"].as_str().unwrap().contains("\"y\""), "{page:#}");
}
