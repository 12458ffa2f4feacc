//! The question that needs no key: whether the server knows a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::http_api::stand::Stand;

/// A question about an unknown key.
fn path(tag: u8, nonce: u8) -> String {
    format!("/v1/proof?key={}&nonce={}", BASE64.encode([tag; 8]), BASE64.encode([nonce; 32]))
}

#[tokio::test]
async fn an_unknown_key_is_answered_like_a_known_one() {
    let stand = Stand::start().await;
    for client in [stand.stranger(), stand.admin.clone()] {
        let first = client.get(&path(1, 1)).await;
        assert_eq!(first.status, 200, "{}", first.text());
        let members = first.json();
        for member in ["known", "proof"] {
            let text = members[member].as_str().unwrap();
            assert_eq!(BASE64.decode(text).unwrap().len(), 32, "{member}");
        }
        assert_eq!(first.header("cache-control"), Some("no-store"));
        assert_eq!(client.get(&path(1, 1)).await.json(), members, "the same question has the same answer");
        assert_ne!(client.get(&path(1, 2)).await.json(), members);
        assert_ne!(client.get(&path(2, 1)).await.json(), members);
    }
    stand.stopped().await;
}

#[tokio::test]
async fn what_is_not_a_question_is_refused() {
    let stand = Stand::start().await;
    let (good, long) = (path(1, 1), "A".repeat(30_000));
    for wrong in [
        "/v1/proof".to_owned(),
        "/v1/proof?key=AAAAAAAAAAA".to_owned(),
        format!("{good}A"),
        format!("{good}&more=1"),
        format!("{good}&nonce=AAAA"),
        good.replace("key=A", "key=*"),
        format!("/v1/proof?key={long}&nonce={long}"),
    ] {
        stand.stranger().get(&wrong).await.problem(400);
    }
    stand.stopped().await;
}

/// The hash of a key, and what is computed with it, do not authorise a client.
#[tokio::test]
async fn neither_hash_nor_proof_stands_in_for_the_key() {
    let stand = Stand::start().await;
    let key = stand.client.key.clone().unwrap();
    let hash = posthaste_server::keys::hash_of(&key);
    let proof = stand.stranger().get(&path(1, 1)).await.json()["proof"].as_str().unwrap().to_owned();
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    for wrong in [BASE64.encode(hash), hex, proof] {
        let mut client = stand.stranger();
        client.key = Some(wrong);
        client.get("/v1/events").await.problem(401);
    }
    assert_eq!(stand.client.get("/v1/events").await.status, 200);
    stand.stopped().await;
}
