//! A store that is away: the process lives, says so, and tells no secrets.

use std::sync::Arc;
use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::memory::Memory;
use posthaste::relay::{Lane, Relay};
use posthaste::store::{Owner, Store as _};
use posthaste_server::http::Watched;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::http_api::client::{Answer, Client, DEADLINE};
use crate::http_api::faulty::{Faulty, FaultyTarget, Held, Mood, Switch};
use crate::http_api::stand::{Stand, Times};

async fn faulty_stand() -> (Stand, Switch) {
    let switch = Switch::default();
    let shared = switch.clone();
    let wrap = |store| Arc::new(Faulty { store, switch: shared }) as Arc<dyn posthaste::schema::Backend>;
    (Stand::with(Memory::new(), wrap, Times::default()).await, switch)
}

/// Asks until the answer has this status.
async fn eventually(client: &Client, path: &str, status: u16) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = client.get(path).await;
        if answer.status == status {
            return answer;
        }
        assert!(begun.elapsed() < DEADLINE, "{path} never answered {status}: {}", answer.text());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_told_without_its_secrets() {
    let (stand, switch) = faulty_stand().await;
    assert_eq!(stand.client.get("/readyz").await.json()["status"], "ready");
    stand.client.publish(r#"{"type":"x"}"#).await;
    switch.set(Mood::Away);
    let not_ready = eventually(&stand.stranger(), "/readyz", 503).await;
    assert_eq!(not_ready.json()["checks"][0]["name"], "store");
    assert_eq!(stand.stranger().get("/healthz").await.status, 200);
    let refused = stand.client.publish(r#"{"type":"x"}"#).await;
    assert!(refused.problem(503).contains("same ids"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    for answer in [not_ready, refused, stand.client.get("/v1/lanes").await] {
        for secret in ["/secret/path", "db.internal", "disk I/O"] {
            assert!(!answer.text().contains(secret), "{}", answer.text());
        }
    }
    let scraped = stand.admin.get("/metrics").await;
    assert_eq!(scraped.status, 200);
    assert!(!scraped.text().contains("posthaste_lane_unread"), "no figure is better than a stale one");
    switch.set(Mood::Well);
    eventually(&stand.stranger(), "/readyz", 200).await;
    assert_eq!(stand.client.publish(r#"{"type":"x"}"#).await.status, 201);
    stand.stopped().await;
}

#[tokio::test]
async fn a_store_that_hangs_makes_the_server_unready_within_seconds() {
    let (stand, switch) = faulty_stand().await;
    switch.set(Mood::Hanging);
    let answer = stand.stranger().get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("within 2 s"), "{}", answer.text());
    assert_eq!(stand.stranger().get("/healthz").await.status, 200);
    stand.stopped().await;
}

/// A stand that watches a target, whose switch is answered.
async fn stand_with_target(are_needed: bool) -> (Stand, Switch) {
    let switch = Switch::default();
    let target: Arc<dyn posthaste::target::Target> = Arc::new(FaultyTarget::new(switch.clone()));
    let targets = vec![("target mail".to_owned(), target)];
    let watched = Watched { targets, are_needed, ..Watched::default() };
    let wrap = |memory| Arc::new(memory) as Arc<dyn posthaste::schema::Backend>;
    (Stand::watching(Memory::new(), wrap, Times::default(), watched).await, switch)
}

/// Asks until the check of the target has this status; the answer must not tell where it is.
async fn target_becomes(stand: &Stand, status: &str) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = stand.stranger().get("/readyz").await;
        for secret in ["hunter2", "mq.internal", "amqp:"] {
            assert!(!answer.text().contains(secret), "{}", answer.text());
        }
        let check = answer.json()["checks"][1].clone();
        assert_eq!(check["name"], "target mail");
        if check["status"] == status {
            return answer;
        }
        assert!(begun.elapsed() < DEADLINE, "the target never was {status}: {}", answer.text());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_relay_is_ready_while_its_targets_answer() {
    let (stand, switch) = stand_with_target(true).await;
    assert_eq!(target_becomes(&stand, "ok").await.status, 200);
    for mood in [Mood::Away, Mood::Hanging] {
        switch.set(mood);
        let answer = target_becomes(&stand, "failed").await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["checks"][0]["status"], "ok", "one hides no other");
        switch.set(Mood::Well);
        assert_eq!(target_becomes(&stand, "ok").await.status, 200);
    }
    stand.stopped().await;
}

#[tokio::test]
async fn whoever_takes_events_is_ready_without_its_targets() {
    let (stand, switch) = stand_with_target(false).await;
    switch.set(Mood::Away);
    let answer = target_becomes(&stand, "waiting").await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &"ready".into()));
    stand.stopped().await;
}

/// A relay whose target first does not answer, which is nobody's end, and then holds on to the thread, which is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_whose_loop_does_not_turn_is_not_alive() {
    let memory = Memory::new();
    let (held, let_go) = (Arc::new(Held::default()), Arc::new(Notify::new()));
    let target: Arc<dyn posthaste::target::Target> = Arc::<Held>::clone(&held);
    let lane = Lane::named("main").expect("a name").to(target).lease(Duration::from_millis(200));
    let relay = Relay::new(Arc::new(memory.clone())).lane(lane.timeout(Duration::from_millis(100)));
    // Nobody waits here for as long as the process would.
    let loops = relay.heartbeats().into_iter().map(|beat| beat.patience(Duration::from_secs(2))).collect();
    let watched = Watched { loops, ..Watched::default() };
    let wrap = |memory| Arc::new(memory) as Arc<dyn posthaste::schema::Backend>;
    let stand = Stand::watching(memory, wrap, Times::default(), watched).await;
    let mut relaying = JoinSet::new();
    let stop = Arc::clone(&let_go);
    relaying.spawn(relay.run(async move { stop.notified().await }));

    stand.client.publish(r#"{"type":"x"}"#).await;
    held.until_sent(3).await;
    assert_eq!(stand.stranger().get("/healthz").await.status, 200, "a target that is silent stops no loop");
    held.hold();
    stand.client.publish(r#"{"type":"y"}"#).await;
    let dead = eventually(&stand.stranger(), "/healthz", 503).await;
    assert!(dead.text().starts_with("lane main: its loop has not turned for "), "{}", dead.text());
    held.let_go();
    eventually(&stand.stranger(), "/healthz", 200).await;
    let_go.notify_one();
    tokio::time::timeout(DEADLINE, relaying.join_next()).await.expect("the relay ends");
    stand.stopped().await;
}

#[tokio::test]
async fn a_start_is_over_when_the_store_was_there_once() {
    let (stand, switch) = faulty_stand().await;
    switch.set(Mood::Away);
    let starting = stand.stranger().get("/startupz").await;
    assert_eq!((starting.status, &starting.json()["status"]), (503, &"starting".into()));
    switch.set(Mood::Well);
    assert_eq!(eventually(&stand.stranger(), "/startupz", 200).await.json()["status"], "started");
    switch.set(Mood::Away);
    eventually(&stand.stranger(), "/readyz", 503).await;
    assert_eq!(stand.stranger().get("/startupz").await.status, 200, "it stays over");
    stand.stopped().await;
}

#[tokio::test]
async fn what_is_to_be_done_is_counted_under_the_names_of_the_reference() {
    let memory = Memory::new();
    let lane = LaneSpec::new("main".parse().expect("a name"));
    memory.acquire(&lane, &Owner::new("test")).await.expect("memory answers").expect("nobody has it");
    let switch = Switch::default();
    let shared = switch.clone();
    let wrap = |store| Arc::new(Faulty { store, switch: shared }) as Arc<dyn posthaste::schema::Backend>;
    let stand = Stand::with(memory, wrap, Times::default()).await;
    stand.client.publish(r#"[{"type":"x"},{"type":"x"}]"#).await;
    for client in [&stand.client, &stand.admin] {
        let stats = client.get("/stats").await.json();
        assert_eq!((&stats["pending_count"], &stats["retrying_count"]), (&2.into(), &0.into()), "{stats}");
        assert!(stats["oldest_age_sec"].as_i64().is_some_and(|age| age < 3600), "{stats}");
        assert_eq!(stats["dead_count"], 0);
    }
    switch.set(Mood::Away);
    let away = eventually(&stand.admin, "/stats", 503).await;
    assert!(!away.text().contains("db.internal"), "{}", away.text());
    stand.stopped().await;
}

#[tokio::test]
async fn a_panic_ends_its_request_and_nothing_else() {
    let (stand, switch) = faulty_stand().await;
    assert_eq!(stand.client.get("/v1/lanes").await.status, 200);
    switch.set(Mood::Panicking);
    let answer = stand.client.get("/v1/lanes").await;
    assert!(!answer.problem(500).contains("SELECT"));
    switch.set(Mood::Well);
    assert_eq!(stand.client.get("/v1/lanes").await.status, 200);
    stand.stopped().await;
}
