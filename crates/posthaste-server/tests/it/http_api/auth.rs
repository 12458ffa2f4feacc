//! Who may ask what.

use crate::http_api::client::Client;
use crate::http_api::stand::Stand;

const KEYED: [(&str, &str); 10] = [
    ("POST", "/v1/commands/pause?all=true"),
    ("GET", "/stats"),
    ("POST", "/v1/events"),
    ("GET", "/v1/events"),
    ("GET", "/v1/events/1"),
    ("GET", "/v1/lanes"),
    ("GET", "/metrics"),
    ("GET", "/no/such/path"),
    ("DELETE", "/v1/events"),
    ("GET", "/"),
];
const OPEN: [&str; 5] = ["/healthz", "/readyz", "/startupz", "/version", "/openapi.json"];

#[tokio::test]
async fn every_route_but_health_and_version_needs_a_key() {
    let stand = Stand::start().await;
    let mut with_wrong_key = stand.stranger();
    with_wrong_key.key = Some("ph_0000000000000000000000000000000000000000000".to_owned());
    for client in [stand.stranger(), with_wrong_key] {
        for (method, path) in KEYED {
            let answer = client.ask(method, path, &[], b"").await;
            assert!(answer.problem(401).contains("API key"), "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
        for path in OPEN {
            assert_eq!(client.get(path).await.status, 200, "{path}");
        }
    }
    stand.stopped().await;
}

#[tokio::test]
async fn with_a_key_unknown_paths_are_404_and_wrong_methods_405() {
    let stand = Stand::start().await;
    assert!(stand.client.get("/no/such/path").await.problem(404).contains("/v1/events"));
    for (method, path, allowed) in [
        ("DELETE", "/v1/events", vec!["GET", "HEAD", "POST"]),
        ("PUT", "/v1/events/1", vec!["GET", "HEAD"]),
        ("POST", "/v1/lanes", vec!["GET", "HEAD"]),
        ("POST", "/metrics", vec!["GET", "HEAD"]),
        ("POST", "/healthz", vec!["GET", "HEAD"]),
    ] {
        let answer = stand.client.ask(method, path, &[], b"").await;
        assert!(answer.problem(405).contains("Allow"), "{method} {path}");
        let mut allow: Vec<&str> = answer.header("allow").expect("405 has Allow").split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow, allowed, "{method} {path}");
    }
    stand.stopped().await;
}

#[tokio::test]
async fn the_admin_address_has_health_and_metrics_for_anybody_and_looking_for_a_key_but_no_publishing() {
    let stand = Stand::start().await;
    for path in OPEN.into_iter().chain(["/metrics", "/stats"]) {
        assert_eq!(stand.admin.get(path).await.status, 200, "{path}");
    }
    let admin_with_key = Client { key: stand.client.key.clone(), ..stand.admin.clone() };
    stand.admin.get("/v1/events").await.problem(401);
    stand.admin.publish(r#"{"type":"x"}"#).await.problem(401);
    assert_eq!(admin_with_key.get("/v1/events").await.status, 200);
    admin_with_key.publish(r#"{"type":"x"}"#).await.problem(405);
    stand.stopped().await;
}
