//! Commands over REST: the words of the command line, and who may say them.

use std::sync::Arc;

use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher as _;
use posthaste::schema::Backend;
use posthaste::store::{Outcome, Owner, Room, Settled, Store as _, Then};
use posthaste::target::{DeliverError, DeliverKind};
use serde_json::Value;

use crate::http_api::client::{Answer, Client};
use crate::http_api::stand::{Stand, Times};

/// A server whose lane `main` has delivered one event, `a`, and has two dead ones, `b` and `c`.
async fn stand() -> Stand {
    let memory = Memory::new();
    let events = ["a", "b", "c"].map(|id| {
        let mut event = Envelope::new("order.placed", "{}");
        event.id = id.to_owned();
        event
    });
    memory.publish(events.to_vec()).await.expect("memory takes events");
    let lane = LaneSpec::new("main".parse().expect("a name"));
    let lease = memory.acquire(&lane, &Owner::new("test")).await.expect("it answers").expect("it is free");
    let claimed = memory.claim(&lease, Room { events: 3, bytes: 1 << 20 }).await.expect("it answers");
    let error = DeliverError::new(DeliverKind::Rejected, "poison", "no such customer");
    let outcomes = [Outcome::Delivered, Outcome::Dead { error: error.clone() }, Outcome::Dead { error }];
    let settled =
        claimed.iter().zip(outcomes).map(|(claimed, outcome)| Settled::new(claimed.ticket, outcome));
    memory.settle(&lease, settled.collect(), Then::GiveUp).await.expect("it answers");
    Stand::with(memory, |memory| Arc::new(memory) as Arc<dyn Backend>, Times::default()).await
}

async fn give(client: &Client, command: &str) -> Answer {
    client.ask("POST", &format!("/v1/commands/{command}"), &[], b"").await
}

/// Gives it; it must match and change so many.
async fn done(stand: &Stand, command: &str, matched: u64, changed: u64) {
    let answer = give(&stand.operator, command).await;
    assert_eq!(answer.status, 200, "{command}: {}", answer.text());
    let applied = answer.json();
    assert_eq!((&applied["matched"], &applied["changed"]), (&matched.into(), &changed.into()), "{command}");
}

async fn main_lane(stand: &Stand) -> Value {
    let lane = stand.client.get("/v1/lanes/main").await.json();
    let number = |name: &str| lane[name].as_u64().expect("a number");
    let sum = ["delivered", "waiting", "dead", "discarded"].map(number).iter().sum::<u64>();
    assert_eq!(number("accepted"), sum, "totals add up: {lane}");
    lane
}

#[tokio::test]
async fn only_the_key_of_an_operator_gives_commands() {
    let stand = stand().await;
    give(&stand.stranger(), "redrive?lane=main").await.problem(401);
    assert!(give(&stand.client, "redrive?lane=main").await.problem(403).contains("server.operators"));
    give(&stand.admin, "redrive?lane=main").await.problem(401);
    assert_eq!(main_lane(&stand).await["dead"], 2, "nothing was done");
    assert_eq!(stand.client.get("/v1/audit").await.json()["entries"], Value::Array(Vec::new()));
    stand.stopped().await;
}

#[tokio::test]
async fn every_verb_does_what_it_says_and_is_in_the_record() {
    let stand = stand().await;
    done(&stand, "redrive?lane=main&code=poison&dry_run=true", 2, 0).await;
    let counted = give(&stand.operator, "redrive?lane=main&id=c&id=a&dry_run=true").await.json();
    assert_eq!((&counted["matched"], &counted["sample"][0]["id"]), (&1.into(), &"c".into()), "{counted}");
    assert_eq!(counted["stopped"], false);
    // The admin address takes commands too, with the same key.
    let there = Client { key: stand.operator.key.clone(), ..stand.admin.clone() };
    assert_eq!(give(&there, "redrive?lane=main&id=b&rate=100/s").await.json()["changed"], 1);
    assert_eq!(main_lane(&stand).await["waiting"], 1);
    done(&stand, "schedule?lane=main&id=b&at=2126-01-01T00:00:00Z", 1, 1).await;
    let b = stand.client.get("/v1/events/b").await.json();
    assert_eq!(b["lanes"][0]["available_at"], "2126-01-01T00:00:00Z", "{b}");
    done(&stand, "bury?lane=main&id=b&reason=wrong", 1, 1).await;
    assert_eq!(main_lane(&stand).await["dead"], 2);
    done(&stand, "redrive?lane=main&code=buried", 1, 1).await;
    done(&stand, "replay?lane=main&type=order.placed", 1, 1).await;
    assert!(give(&stand.operator, "discard?lane=main").await.problem(428).contains("yes=true"));
    assert_eq!(main_lane(&stand).await["dead"], 1, "without consent nothing is done");
    done(&stand, "discard?lane=main&error=CUSTOMER&reason=left&yes=true", 1, 1).await;
    assert_eq!(main_lane(&stand).await["discarded"], 1);
    done(&stand, "erase?id=c&yes=true", 1, 1).await;
    assert_eq!(stand.client.get("/v1/events/c").await.json()["payload_bytes"], Value::Null);
    done(&stand, "pause?lane=main", 1, 1).await;
    assert_eq!(main_lane(&stand).await["state"], "paused");
    let metrics = stand.admin.get("/metrics").await;
    assert!(metrics.text().contains("posthaste_lane_state{lane=\"main\"} 2\n"), "{}", metrics.text());
    done(&stand, "resume?all=true", 1, 1).await;
    done(&stand, "seek?lane=main&to=beginning&dry_run=true", 0, 0).await; // all are parked, and stay so
    give(&stand.operator, "seek?lane=main&to=beginning").await.problem(428);
    assert_eq!(give(&stand.operator, "seek?lane=main&to=beginning&yes=true").await.status, 200);
    assert_eq!(main_lane(&stand).await["unread"], 3);
    for prune in ["prune?older_than=1d", "prune?dead_older_than=1d", "prune-inbox?older_than=1d"] {
        assert!(give(&stand.operator, prune).await.problem(428).contains("yes=true"), "{prune}");
    }
    done(&stand, "prune?older_than=1d&yes=true", 0, 0).await;
    done(&stand, "prune-inbox?older_than=1d&yes=true", 0, 0).await;
    assert_eq!(give(&stand.operator, "remove?lane=main&yes=true").await.status, 200);
    stand.client.get("/v1/lanes/main").await.problem(404);

    let entries = stand.client.get("/v1/audit").await.json()["entries"].clone();
    let entries = entries.as_array().expect("entries");
    let is_known = |entry: &Value| entry["actor"] == "ops" && entry["via"] == "rest 127.0.0.1";
    assert!(entries.iter().all(is_known), "{entries:?}");
    let verbs: Vec<_> = entries.iter().rev().filter_map(|entry| entry["verb"].as_str()).collect();
    for verb in
        ["redrive", "schedule", "bury", "replay", "discard", "erase", "pause", "resume", "seek", "remove"]
    {
        assert!(verbs.contains(&verb), "{verb} is not in {verbs:?}");
    }
    stand.stopped().await;
}

#[tokio::test]
async fn what_is_not_understood_is_refused_and_nothing_is_done() {
    let stand = stand().await;
    for (command, status, says) in [
        ("redrive", 400, "lane"),
        ("pause", 400, "lane"),
        ("redrive?lane=main&reason=x", 400, "reason does not belong"),
        ("pause?lane=main&code=x", 400, "code does not belong"),
        ("pause?lane=main&dry_run=true", 400, "dry_run does not belong"),
        ("resume?all=true&dry_run=true", 400, "dry_run does not belong"),
        ("pause?lane=main&broker=mail&group=g", 400, "broker does not belong"),
        ("redrive?broker=mail", 400, "broker and group belong together"),
        ("redrive?broker=mail&group=g&lane=main&yes=true", 400, "a lane is in the store"),
        ("redrive?broker=amqp%3A%2F%2Flocalhost&group=g&yes=true", 404, "no target of this name"),
        ("prune?lane=main&older_than=1d", 400, "lane does not belong"),
        ("prune", 400, "older_than"),
        ("prune?older_than=soon", 400, "duration"),
        ("pause?lane=main&rate=1/s", 400, "rate does not belong"),
        ("redrive?lane=main&rate=0", 400, "rate"),
        ("seek?lane=main&yes=true", 400, "beginning"),
        ("schedule?lane=main", 400, "at"),
        ("bury?id=b", 400, "lane"),
        ("erase?yes=true", 400, "which events"),
        ("redrive?lane=main&nonsense=1", 400, "nonsense"),
        ("redrive?lane=other", 404, "no such lane"),
        ("explode?lane=main", 404, "no such command"),
    ] {
        let answer = give(&stand.operator, command).await;
        assert!(answer.problem(status).contains(says), "{command}: {}", answer.text());
    }
    let lane = main_lane(&stand).await;
    assert_eq!((&lane["dead"], &lane["state"]), (&2.into(), &"active".into()), "not even paused");
    stand.stopped().await;
}
