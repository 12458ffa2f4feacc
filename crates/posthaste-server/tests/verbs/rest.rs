//! The same over REST, by a server as a program.

use serde_json::{Value, json};

use crate::client::Client;
use crate::ground::Ground;
use crate::process::Process;

/// Gives a command; answers how many it matched and changed.
async fn give(client: &Client, command: &str) -> (u64, u64) {
    let answer = client.ask("POST", &format!("/v1/commands/{command}"), &[], b"").await;
    assert_eq!(answer.status, 200, "{command}: {}", answer.text());
    let applied = answer.json();
    (applied["matched"].as_u64().unwrap(), applied["changed"].as_u64().unwrap())
}

/// A command that cannot be undone is only counted without a yes.
async fn give_for_good(client: &Client, command: &str) -> (u64, u64) {
    let counted = client.ask("POST", &format!("/v1/commands/{command}"), &[], b"").await;
    assert!(counted.problem(428).contains("yes=true"), "{command}");
    give(client, &format!("{command}&yes=true")).await
}

async fn look(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let document = answer.json();
    if path == "/v1/lanes/main" {
        let number = |name: &str| document[name].as_u64().unwrap();
        let sum: u64 = ["delivered", "waiting", "dead", "discarded"].map(number).iter().sum();
        assert_eq!(number("accepted"), sum, "{document}");
    }
    document
}

/// Every verb of a log, on a store with `a` delivered and `b` and `c` dead.
pub(crate) async fn every_verb(ground: &Ground) {
    ground.configure("[server]\noperators = [\"first\"]\n");
    let server = Process::start(&ground.folder()).await;
    let client = &server.client;
    let events = look(client, "/v1/events?lane=main&state=dead&code=http%20400&error=CUSTOMER").await;
    assert_eq!(crate::ids(&events), ["c", "b"]);
    assert_eq!(look(client, "/v1/events/b").await["data"], json!({"n": 2}));
    assert_eq!(look(client, "/v1/dead/codes?lane=main").await["codes"][0]["events"], 2);
    assert_eq!(look(client, "/v1/lanes").await["lanes"], json!([look(client, "/v1/lanes/main").await]));

    assert_eq!(give(client, "redrive?lane=main&dry_run=true").await, (2, 0));
    assert_eq!(give(client, "redrive?lane=main&id=b").await, (1, 1));
    assert_eq!(give(client, "schedule?lane=main&at=2126-01-01T00:00:00Z").await, (1, 1));
    assert_eq!(give(client, "bury?lane=main&reason=wrong").await, (1, 1));
    assert_eq!(give(client, "redrive?lane=main&id=b").await, (1, 1));
    assert_eq!(give(client, "replay?lane=main&type=order.placed").await, (1, 1));
    assert_eq!(give_for_good(client, "discard?lane=main&reason=left").await, (1, 1));
    assert_eq!(give_for_good(client, "erase?id=c").await, (1, 1));
    assert_eq!(look(client, "/v1/events/c").await["payload_bytes"], Value::Null);
    assert_eq!(give(client, "pause?lane=main").await, (1, 1));
    assert_eq!(look(client, "/v1/lanes/main").await["state"], "paused");
    assert_eq!(give(client, "resume?all=true").await, (1, 1));
    give_for_good(client, "seek?lane=main&to=end").await;
    let lane = look(client, "/v1/lanes/main").await;
    assert_eq!((&lane["waiting"], &lane["discarded"]), (&json!(2), &json!(1)), "{lane}");
    assert_eq!(give(client, "prune?older_than=0s").await, (0, 0), "everything is parked");
    assert_eq!(give_for_good(client, "prune?dead_older_than=0s").await, (1, 1));
    give_for_good(client, "remove?lane=main").await;
    client.get("/v1/lanes/main").await.problem(404);

    let record = look(client, "/v1/audit").await;
    let entries = record["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["actor"] == "first" && entry["via"] == "rest"), "{record:#}");
    let verbs: Vec<&str> = entries.iter().rev().map(|entry| entry["verb"].as_str().unwrap()).collect();
    assert_eq!(
        verbs,
        [
            "redrive", "schedule", "bury", "redrive", "replay", "discard", "erase", "pause", "resume",
            "seek", "prune", "remove"
        ],
        "{record:#}"
    );
    server.signal("TERM").await;
    assert!(server.ended().await.success());
}
