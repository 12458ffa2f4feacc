//! A store that is away: the process lives, says so, and tells no secrets.

use std::sync::Arc;

use posthaste::memory::Memory;
use tokio::time::Instant;

use crate::client::{Answer, Client, DEADLINE};
use crate::faulty::{Faulty, Mood, Switch};
use crate::stand::{Stand, Times};

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
