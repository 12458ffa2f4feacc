//! The same over REST, by a server as a program.

use serde_json::{Value, json};

use crate::http_api::client::{Client, DEADLINE};
use crate::http_process::process::Process;
use crate::verbs::ground::Ground;

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
    let and = if command.contains('?') { '&' } else { '?' };
    give(client, &format!("{command}{and}yes=true")).await
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

/// The same words on the command line, through the server.
fn by_the_command_line(ground: &Ground, server: &Client) {
    let two = ground.json_through(server, &["event", "list", "--id", "a", "--id", "b"]);
    assert_eq!(crate::verbs::ids(&two), ["b", "a"]);
    let counted =
        ground.json_through(server, &["dead", "redrive", "--lane", "main", "--id", "c", "--dry-run"]);
    assert_eq!(
        (&counted["matched"], crate::verbs::sample(&counted)),
        (&json!(1), vec!["c".to_owned()]),
        "{counted}"
    );
    for verb in ["pause", "resume"] {
        assert_eq!(ground.json_through(server, &["lane", verb, "main"])["changed"], 1);
    }
}

/// Every verb of a table, by a relay's admin address; what a table has no place for is refused with why.
pub(crate) async fn every_verb_of_a_table(ground: &Ground) {
    ground.publish_for_later("d").await;
    let (mut relay, client) = ground.relay_with_rest();
    let client = &client;
    let id = |name: &str| ground.id(name);
    let stranger = Client { key: None, ..client.clone() };
    stranger.get("/v1/events").await.problem(401);
    assert_eq!(stranger.get("/stats").await.json()["dead_count"], 2);
    let dead = look(client, &format!("/v1/events?state=dead&id={}&id={}", id("a"), id("c"))).await;
    assert_eq!(crate::verbs::ids(&dead), [id("c")]);
    assert_eq!(look(client, &format!("/v1/events/{}", id("b"))).await["data"], json!({"n": 2}));
    every_dead_event(ground, client).await;
    assert_eq!(look(client, "/v1/lanes").await["lanes"], json!([look(client, "/v1/lanes/main").await]));
    looks_through(ground, client);
    let two = ["event", "list", "--id", &id("a"), "--id", &id("b")];
    assert_eq!(crate::verbs::ids(&ground.json_through(client, &two)), [id("b"), id("a")]);

    let counted = ground.json_through(client, &["dead", "redrive", "--lane", "main", "--dry-run"]);
    assert_eq!(
        (&counted["matched"], crate::verbs::sample(&counted)),
        (&json!(2), vec![id("c"), id("b")]),
        "{counted}"
    );
    assert_eq!(give(client, &format!("redrive?lane=main&id={}", id("b"))).await, (1, 1));
    until_delivered(client, 2).await;
    assert_eq!(give(client, &format!("replay?lane=main&id={}", id("a"))).await, (1, 1));
    until_delivered(client, 2).await;
    let later = format!("schedule?lane=main&id={}&at=2126-01-01T00:00:00Z", id("d"));
    assert_eq!(give(client, &later).await, (1, 1));
    let d = look(client, &format!("/v1/events/{}", id("d"))).await;
    assert_eq!(d["lanes"][0]["available_at"], "2126-01-01T00:00:00Z", "{d}");
    assert_eq!(give(client, &format!("bury?lane=main&id={}&reason=wrong", id("d"))).await, (1, 1));
    assert_eq!(give_for_good(client, &format!("discard?lane=main&reason=left&id={}", id("c"))).await, (1, 1));
    let lane = look(client, "/v1/lanes/main").await;
    let totals = ["delivered", "waiting", "dead", "discarded"].map(|name| lane[name].as_u64().unwrap());
    assert_eq!(totals, [2, 0, 1, 1], "{lane}");

    let erase = format!("erase?id={}&yes=true", id("a"));
    for refused in [
        &*erase,
        "pause?lane=main",
        "resume?all=true",
        "seek?lane=main&to=end&yes=true",
        "remove?lane=main&yes=true",
        "rebase?yes=true",
        "prune-inbox?older_than=1h&yes=true",
    ] {
        let answer = client.ask("POST", &format!("/v1/commands/{refused}"), &[], b"").await;
        assert!(answer.problem(400).contains("table"), "{refused}");
    }
    assert!(client.get("/v1/audit").await.problem(404).contains("table"));
    ground.keep_record().await;
    assert_eq!(give_for_good(client, "prune?older_than=0s").await, (2, 2));
    let record = look(client, "/v1/audit").await;
    let newest = &record["entries"][0];
    assert_eq!(
        (&newest["verb"], &newest["changed"], &newest["actor"]),
        (&json!("prune"), &json!(2), &json!("first")),
        "{record:#}"
    );
    assert_eq!(give_for_good(client, "prune?dead_older_than=0s").await, (2, 2));
    assert_eq!(crate::verbs::ids(&look(client, "/v1/events").await).len(), 0);
    relay.signal("TERM");
    assert_eq!(relay.code(), 0);
}

/// What shows and changes nothing, on the command line and through the server.
fn looks_through(ground: &Ground, server: &Client) {
    let tail = ground.tail_through(server, 3);
    assert!(["a", "b", "c"].iter().all(|name| tail.contains(&ground.id(name))), "{tail}");
    assert_eq!(ground.json_through(server, &["stats"])["total"]["dead"], 2);
    assert_eq!(ground.json_through(server, &["lane", "show", "main"])["dead"], 2);
    let dead = ground.json_through(server, &["dead", "list", "--lane", "main"]);
    assert_eq!(crate::verbs::ids(&dead), ["c", "b"].map(|name| ground.id(name)));
    assert_eq!(ground.json_through(server, &["dead", "list", "--by", "code"])["codes"][0]["events"], 2);
    assert_eq!(ground.json_through(server, &["event", "show", &ground.id("b")])["data"], json!({"n": 2}));
}

/// A redrive at one event a second goes on as a job until somebody stops it.
pub(crate) async fn stops_when_asked(ground: &Ground) {
    ground.add_dead(58).await;
    if ground.is_table() {
        let (mut relay, client) = ground.relay_with_rest();
        job_is_stopped(&client).await;
        relay.signal("TERM");
        assert_eq!(relay.code(), 0);
        return;
    }
    ground.configure("[server]\noperators = [\"first\"]\nrequest_timeout = \"3s\"\n");
    let server = Process::start(&ground.folder()).await;
    job_is_stopped(&server.client).await;
    let newest = look(&server.client, "/v1/audit?limit=1").await["entries"][0].clone();
    assert_eq!(
        (&newest["verb"], &newest["filter"]["stopped"]),
        (&json!("redrive"), &json!(true)),
        "{newest}"
    );
    server.signal("TERM").await;
    assert!(server.ended().await.success());
}

async fn job_is_stopped(client: &Client) {
    let dead = async || look(client, "/v1/lanes/main").await["dead"].as_u64().unwrap();
    let before = dead().await;
    let given = client.ask("POST", "/v1/commands/redrive?lane=main&rate=1/s", &[], b"").await;
    assert_eq!(given.status, 202, "{}", given.text());
    let job = given.header("location").unwrap().to_owned();
    let stopped = client.ask("DELETE", &job, &[], b"").await.json();
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let changed = stopped["applied"]["changed"].as_u64().unwrap();
    assert!((1..before).contains(&changed), "{stopped}");
    assert_eq!(dead().await, before - changed, "what it says it did is what it did: {stopped}");
}

/// What `posthaste dead list` shows, by filters, page by page, and counted.
async fn every_dead_event(ground: &Ground, client: &Client) {
    let dead = look(client, "/v1/dead?lane=main").await;
    assert_eq!(crate::verbs::ids(&dead), ["c", "b"].map(|name| ground.id(name)));
    let first = &dead["events"][0]["lanes"][0];
    assert_eq!((&first["state"], &first["code"]), (&json!("dead"), &json!("http 400")), "{dead}");
    let page = look(client, "/v1/dead?limit=1").await;
    assert_eq!(crate::verbs::ids(&page), [ground.id("c")]);
    let next = page["next"].as_str().unwrap();
    assert_eq!(
        crate::verbs::ids(&look(client, &format!("/v1/dead?limit=1&after={next}")).await),
        [ground.id("b")]
    );
    assert_eq!(crate::verbs::ids(&look(client, "/v1/dead?code=http%20400&error=CUSTOMER").await).len(), 2);
    assert_eq!(crate::verbs::ids(&look(client, "/v1/dead?code=timeout").await).len(), 0);
    assert_eq!(crate::verbs::ids(&look(client, "/v1/dead?type=stock.moved").await).len(), 0);
    assert_eq!(look(client, "/v1/dead/codes?lane=main").await["codes"][0]["events"], 2);
}

/// A database that was copied is taken over where it is now; a file means the same wherever it is.
async fn rebased(ground: &Ground, client: &Client) {
    let refused = client.ask("POST", "/v1/commands/rebase?yes=true", &[], b"").await.problem(400);
    assert!(refused.contains("nothing to rebase"), "{refused}");
    if ground.is_embedded() {
        return;
    }
    // What `CREATE DATABASE … TEMPLATE` leaves: the tables of another database.
    ground.sql("UPDATE posthaste_meta SET database_oid = database_oid + 1").await;
    let would = give(client, "rebase?dry_run=true").await;
    assert_eq!(would.1, 0);
    assert_eq!(give_for_good(client, "rebase").await, (would.0, would.0));
    let again = client.ask("POST", "/v1/commands/rebase?yes=true", &[], b"").await.problem(400);
    assert!(again.contains("nothing to rebase"), "it is where it was filled now: {again}");
    let newest = look(client, "/v1/audit?limit=1").await["entries"][0].clone();
    assert_eq!((&newest["verb"], &newest["actor"]), (&json!("rebase"), &json!("first")), "{newest}");
}

/// Waits until nothing is pending but what is for later, and so many are delivered.
async fn until_delivered(client: &Client, count: u64) {
    let end = std::time::Instant::now() + DEADLINE;
    loop {
        let lane = look(client, "/v1/lanes/main").await;
        if lane["delivered"] == count && lane["unread"] == 0 {
            return;
        }
        assert!(std::time::Instant::now() < end, "waited too long: {lane}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Every verb of a log, on a store with `a` delivered and `b` and `c` dead.
pub(crate) async fn every_verb(ground: &Ground) {
    ground.configure("[server]\noperators = [\"first\", \"grafana:read\"]\n");
    ground.refused(&["key", "add", "grafana"], 2, "posthaste serve");
    let server = Process::start(&ground.folder()).await;
    let client = &server.client;
    let key = ground.ok(&["key", "add", "grafana"]).trim().to_owned();
    let grafana = Client { key: Some(key), ..client.clone() };
    assert_eq!(grafana.get("/v1/lanes").await.status, 200);
    grafana.publish(r#"{"type":"x"}"#).await.problem(403);
    grafana.ask("POST", "/v1/commands/pause?lane=main", &[], b"").await.problem(403);
    let events = look(client, "/v1/events?lane=main&state=dead&code=http%20400&error=CUSTOMER").await;
    assert_eq!(crate::verbs::ids(&events), ["c", "b"]);
    assert_eq!(look(client, "/v1/events/b").await["data"], json!({"n": 2}));
    every_dead_event(ground, client).await;
    assert_eq!(look(client, "/v1/lanes").await["lanes"], json!([look(client, "/v1/lanes/main").await]));
    assert_eq!(look(client, "/stats").await["dead_count"], 2);
    looks_through(ground, client);
    by_the_command_line(ground, client);

    assert_eq!(give(client, "redrive?lane=main&dry_run=true").await, (2, 0));
    assert_eq!(give(client, "redrive?lane=main&id=b").await, (1, 1));
    assert_eq!(give(client, "schedule?lane=main&at=2126-01-01T00:00:00Z").await, (1, 1));
    assert_eq!(give(client, "bury?lane=main&reason=wrong").await, (1, 1));
    assert_eq!(give(client, "redrive?lane=main&id=b").await, (1, 1));
    assert_eq!(give(client, "replay?lane=main&type=order.placed&dry_run=true").await, (1, 0));
    assert_eq!(give(client, "replay?lane=main&type=order.placed").await, (1, 1));
    assert_eq!(give_for_good(client, "discard?lane=main&reason=left").await, (1, 1));
    assert_eq!(give_for_good(client, "erase?id=c").await, (1, 1));
    assert_eq!(look(client, "/v1/events/c").await["payload_bytes"], Value::Null);
    assert_eq!(give(client, "pause?lane=main").await, (1, 1));
    assert_eq!(look(client, "/v1/lanes/main").await["state"], "paused");
    assert_eq!(give(client, "resume?all=true").await, (1, 1));
    assert_eq!(client.publish(r#"{"type":"order.placed","id":"d"}"#).await.status, 201);
    assert_eq!(give_for_good(client, "seek?lane=main&to=end").await, (1, 1), "what it passes is given up");
    let lane = look(client, "/v1/lanes/main").await;
    assert_eq!((&lane["waiting"], &lane["discarded"]), (&json!(2), &json!(2)), "{lane}");
    assert_eq!(give(client, "prune?older_than=0s&dry_run=true").await, (1, 0), "the others are parked");
    assert_eq!(give_for_good(client, "prune?older_than=0s").await, (1, 1));
    assert_eq!(give_for_good(client, "prune?dead_older_than=0s").await, (1, 1));
    give_for_good(client, "remove?lane=main").await;
    client.get("/v1/lanes/main").await.problem(404);

    let record = look(client, "/v1/audit").await;
    let entries = record["entries"].as_array().unwrap();
    let [rest @ .., first] = &entries[..] else { panic!("{record:#}") };
    assert_eq!(
        (&first["verb"], &first["filter"]),
        (&json!("key-add"), &json!({"name": "grafana"})),
        "{first}"
    );
    assert!(
        rest.iter().all(|entry| entry["actor"] == "first" && entry["via"] == "rest 127.0.0.1"),
        "{record:#}"
    );
    let verbs: Vec<&str> = rest.iter().rev().map(|entry| entry["verb"].as_str().unwrap()).collect();
    assert_eq!(
        verbs,
        [
            "pause", "resume", "redrive", "schedule", "bury", "redrive", "replay", "discard", "erase",
            "pause", "resume", "seek", "prune", "prune", "remove"
        ],
        "{record:#}"
    );
    ground.remember().await;
    assert_eq!(give(client, "prune-inbox?older_than=1h&dry_run=true").await, (2, 0));
    assert_eq!(give_for_good(client, "prune-inbox?older_than=1h").await, (2, 2));
    assert_eq!(give(client, "prune-inbox?older_than=1h&yes=true").await, (0, 0), "the young one stays");
    rebased(ground, client).await;
    server.signal("TERM").await;
    assert!(server.ended().await.success());
}
