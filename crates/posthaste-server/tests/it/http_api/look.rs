//! Looking at events and lanes.

use posthaste::admin::{Actor, Admin as _, Command, Filter, Pace};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher as _;
use posthaste::store::{Outcome, Owner, Room, Settled, Store as _, Then};
use posthaste::target::{DeliverError, DeliverKind};
use serde_json::json;

use crate::http_api::stand::{Stand, Times};

#[tokio::test]
async fn events_are_listed_newest_first_and_in_pages() {
    let stand = Stand::start().await;
    for n in 0..5 {
        let event = json!({"type": format!("t{}", n % 2), "id": format!("e{n}"), "key": "k"});
        assert_eq!(stand.client.publish(event.to_string()).await.status, 201);
    }
    let mut ids = Vec::new();
    let mut path = "/v1/events?limit=2&key=k".to_owned();
    loop {
        let page = stand.client.get(&path).await.json();
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 2);
        ids.extend(events.iter().map(|event| event["id"].as_str().unwrap().to_owned()));
        assert!(events.iter().all(|event| event.get("data").is_none()), "a list has no payloads");
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/events?limit=2&key=k&after={next}");
    }
    assert_eq!(ids, ["e4", "e3", "e2", "e1", "e0"]);
    let odd = stand.client.get("/v1/events?type=t1&since=2000-01-01T00:00:00Z").await.json();
    assert_eq!(odd["events"].as_array().unwrap().len(), 2);
    let two = stand.client.get("/v1/events?id=e3&id=e1").await.json();
    assert_eq!(two["events"].as_array().map(Vec::len), Some(2), "{two}");
    let one = stand.client.get("/v1/events?id=e3").await.json();
    assert_eq!(one["events"][0]["type"], "t1");
    stand.stopped().await;
}

#[tokio::test]
async fn a_query_that_cannot_be_understood_says_why() {
    let stand = Stand::start().await;
    for (query, part) in [
        ("stat=dead", "unknown field `stat`"),
        ("state=sent", "pending, retrying"),
        ("limit=0", "between 1 and 1000"),
        ("limit=1001", "between 1 and 1000"),
        ("limit=many", "limit"),
        ("since=yesterday", "since: "),
        ("lane=a%20b", "lane: "),
        ("after=nonsense", "after must be"),
    ] {
        let detail = stand.client.get(&format!("/v1/events?{query}")).await.problem(400);
        assert!(detail.contains(part), "{part:?} is not in {detail:?}");
    }
    assert_eq!(stand.client.get("/v1/events?limit=1000").await.status, 200);
    stand.stopped().await;
}

#[tokio::test]
async fn an_id_is_found_or_is_not_or_needs_its_source() {
    let stand = Stand::start().await;
    assert!(stand.client.get("/v1/events/none").await.problem(404).contains("no event"));
    for source in ["/a", "/b"] {
        stand.client.publish(json!({"type": source, "id": "x y/z", "source": source}).to_string()).await;
    }
    assert!(stand.client.get("/v1/events/x%20y%2Fz").await.problem(409).contains("source"));
    let found = stand.client.get("/v1/events/x%20y%2Fz?source=/b").await;
    assert_eq!((found.status, &found.json()["type"]), (200, &json!("/b")));
    stand.stopped().await;
}

#[tokio::test]
async fn lanes_are_listed_with_totals_and_scraped_as_gauges() {
    let memory = Memory::new();
    let lane = LaneSpec::new("main".parse().unwrap());
    memory.acquire(&lane, &Owner::new("relay-1")).await.unwrap().expect("the lane is free");
    let stand = Stand::with(memory, |memory| std::sync::Arc::new(memory), Times::default()).await;
    stand.client.publish(r#"{"type":"x","id":"1"}"#).await;
    let lanes = stand.client.get("/v1/lanes").await.json();
    assert_eq!(lanes["lanes"][0]["lane"], "main");
    assert_eq!((&lanes["lanes"][0]["state"], &lanes["lanes"][0]["unread"]), (&json!("active"), &json!(1)));
    let event = stand.client.get("/v1/events/1").await.json();
    assert_eq!(
        (&event["lanes"][0]["lane"], &event["lanes"][0]["state"]),
        (&json!("main"), &json!("pending"))
    );
    let scraped = stand.client.get("/metrics").await;
    assert_eq!(scraped.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for part in [
        "posthaste_lane_unread{lane=\"main\"} 1\n",
        "posthaste_http_requests_total{route=\"/v1/events\",status=\"201\"}",
        "posthaste_http_seconds_bucket{route=\"/v1/events\",le=",
        "posthaste_published_total{via=\"rest\"}",
    ] {
        assert!(scraped.text().contains(part), "{part:?} is not in {}", scraped.text());
    }
    stand.stopped().await;
}

#[tokio::test]
async fn the_record_of_commands_is_listed_newest_first_and_in_pages() {
    let memory = Memory::new();
    let lane = LaneSpec::new("main".parse().unwrap());
    memory.acquire(&lane, &Owner::new("relay-1")).await.unwrap().expect("the lane is free");
    for (command, name) in [(Command::Pause, "eve"), (Command::Resume, "bob"), (Command::Pause, "bob")] {
        memory
            .apply(&Filter::default(), command, &Actor::new(name, "cli@desk"), &Pace::full())
            .await
            .unwrap();
    }
    let prune = Command::PruneInbox { age: std::time::Duration::ZERO, dry_run: false };
    memory.apply(&Filter::default(), prune, &Actor::new("posthaste", "serve"), &Pace::full()).await.unwrap();
    let stand = Stand::with(memory, |memory| std::sync::Arc::new(memory), Times::default()).await;
    let list = async |query: &str| stand.client.get(&format!("/v1/audit?{query}")).await.json();
    let page = list("limit=2").await;
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    let newest = &page["entries"][0];
    let expected = (&json!("pause"), &json!("bob"), &json!("cli@desk"), &json!(1));
    assert_eq!((&newest["verb"], &newest["actor"], &newest["via"], &newest["changed"]), expected);
    let rest = list(&format!("limit=2&after={}", page["next"].as_str().unwrap())).await;
    assert_eq!((rest["entries"].as_array().unwrap().len(), rest.get("next")), (1, None));
    for (query, count) in
        [("all=true", 4), ("actor=bob", 2), ("verb=pause", 2), ("since=2999-01-01T00:00:00Z", 0)]
    {
        assert_eq!(list(query).await["entries"].as_array().unwrap().len(), count, "{query}");
    }
    for (query, part) in [
        ("verb=sing", "none of redrive"),
        ("since=yesterday", "since: "),
        ("limit=0", "between 1 and 1000"),
        ("who=me", "unknown field `who`"),
        ("after=x", "after must be"),
    ] {
        let detail = stand.client.get(&format!("/v1/audit?{query}")).await.problem(400);
        assert!(detail.contains(part), "{part:?} is not in {detail:?}");
    }
    assert_eq!(stand.stranger().get("/v1/audit").await.status, 401);
    stand.stopped().await;
}

#[tokio::test]
async fn dead_events_are_counted_by_code_and_found_by_their_error() {
    let memory = Memory::new();
    for id in ["a", "b", "c"] {
        let mut event = Envelope::new("x", "{}");
        event.id = id.to_owned();
        memory.publish(vec![event]).await.unwrap();
    }
    let lane = LaneSpec::new("main".parse().unwrap());
    let lease = memory.acquire(&lane, &Owner::new("relay-1")).await.unwrap().expect("the lane is free");
    let claimed = memory.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
    let outcomes = claimed.iter().zip(["timeout", "http 400", "http 400"]).map(|(claimed, code)| {
        let error = DeliverError::new(DeliverKind::Failed, code, format!("Died of {code}"));
        Settled::new(claimed.ticket, Outcome::Dead { error })
    });
    memory.settle(&lease, outcomes.collect(), Then::Hold).await.unwrap();
    let stand = Stand::with(memory, |memory| std::sync::Arc::new(memory), Times::default()).await;
    let page = stand.client.get("/v1/dead/codes").await.json();
    let code =
        |n: usize| (&page["codes"][n]["code"], &page["codes"][n]["events"], &page["codes"][n]["example"]);
    assert_eq!(code(0), (&json!("http 400"), &json!(2), &json!("c")));
    assert_eq!(code(1), (&json!("timeout"), &json!(1), &json!("a")));
    for (query, count) in [("lane=main", 2), ("code=timeout", 1), ("error=died%20OF%20http", 1)] {
        let page = stand.client.get(&format!("/v1/dead/codes?{query}")).await.json();
        assert_eq!(page["codes"].as_array().unwrap().len(), count, "{query}");
    }
    for path in ["/v1/dead/codes?lane=other", "/v1/events?lane=other"] {
        stand.client.get(path).await.problem(404);
    }
    let found = stand.client.get("/v1/events?error=of%20TIMEOUT").await.json();
    assert_eq!((found["events"].as_array().unwrap().len(), &found["events"][0]["id"]), (1, &json!("a")));
    for path in
        ["/v1/dead/codes?type=x", "/v1/dead/codes?lane=a%20b", "/v1/dead/codes?error=", "/v1/events?error="]
    {
        stand.client.get(path).await.problem(400);
    }
    assert_eq!(stand.stranger().get("/v1/dead/codes").await.status, 401);
    stand.stopped().await;
}
