//! Publishing: the forms, the limits, all or nothing.

use serde_json::{Value, json};

use crate::http_api::client::{Answer, Client};
use crate::http_api::stand::{JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX, Stand};

async fn stored(client: &Client) -> usize {
    client.get("/v1/events").await.json()["events"].as_array().expect("a list").len()
}

async fn shown(client: &Client, id: &str) -> Answer {
    let answer = client.get(&format!("/v1/events/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

#[tokio::test]
async fn a_json_payload_comes_back_byte_for_byte() {
    let stand = Stand::start().await;
    for data in [r#"{"a":"q\"q"}"#, "{ \"b\" : 1.0,\n\t\"a\":[ ] }", "null", "\"é\\u00e9\"", "-0.0e+1"] {
        let answer = stand.client.publish(format!(r#"{{"type":"x", "data": {data} }}"#)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let text = shown(&stand.client, &id).await.text().to_owned();
        assert!(text.contains(&format!(r#""data":{data},"#)), "{data} is not in {text}");
    }
    stand.stopped().await;
}

#[tokio::test]
async fn every_member_is_kept() {
    let stand = Stand::start().await;
    let mut sent = json!({
        "type": "order.placed", "id": "o-1", "source": "/shop", "subject": "order 1", "time": "2026-11-15T21:52:03.5Z",
        "topic": "orders", "key": "1", "version": 3, "datacontenttype": "text/plain", "headers": {"traceparent": "00-ab"},
        "data": "plain \"text\"", "available_at": "2126-01-01T00:00:00Z", "expires_at": "2127-01-01T00:00:00Z",
    });
    let answer = stand.client.publish(sent.to_string()).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"id": "o-1"})));
    let shown = shown(&stand.client, "o-1").await.json();
    sent["data_base64"] = json!("cGxhaW4gInRleHQi");
    sent.as_object_mut().unwrap().remove("data");
    for (name, value) in sent.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert_eq!(shown["payload_bytes"], 12);
    assert_eq!(shown["lanes"], json!([]));
    stand.stopped().await;
}

#[tokio::test]
async fn an_event_may_be_published_again_but_not_changed() {
    let stand = Stand::start().await;
    let event = r#"{"type":"x","id":"1","data":{"n":1}}"#;
    let (first, again) = (stand.client.publish(event).await, stand.client.publish(event).await);
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json(), again.json());
    let changed = stand.client.publish(r#"{"type":"x","id":"1","data":{"n":2}}"#).await;
    assert!(changed.problem(409).contains("other contents"));
    let mixed = stand.client.publish(format!(r#"[{event},{{"type":"y","id":"2"}}]"#)).await;
    assert_eq!((mixed.status, mixed.json()), (201, json!({"ids": ["1", "2"]})));
    assert_eq!(stored(&stand.client).await, 2);
    stand.stopped().await;
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let stand = Stand::start().await;
    stand.client.publish(r#"{"type":"x","id":"taken"}"#).await;
    let detail = stand.client.publish(r#"[{"type":"a"},{"type":"b","kye":"1"}]"#).await.problem(422);
    assert!(detail.starts_with("event 2 of the batch") && detail.contains("\"kye\""), "{detail}");
    stand.client.publish(r#"[{"type":"a"},{"type":"other","id":"taken"}]"#).await.problem(409);
    let long = "k".repeat(256);
    let detail = stand.client.publish(json!([{"type": "a"}, {"type": "b", "key": long}]).to_string()).await;
    assert!(detail.problem(422).contains("key has 256 bytes, the limit is 255"));
    assert_eq!(stored(&stand.client).await, 1);
    let many: Vec<Value> = (0..1_000).map(|n| json!({"type": "a", "id": format!("many-{n}")})).collect();
    let answer = stand.client.publish(json!(many).to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["ids"].as_array().unwrap().len(), 1_000);
    assert_eq!(answer.json()["ids"][999], "many-999");
    stand.stopped().await;
}

#[tokio::test]
async fn limits_hold_exactly_at_their_boundary() {
    let stand = Stand::start().await;
    let at = |bytes: usize| format!(r#"{{"type":"x","data":"{}"}}"#, "a".repeat(bytes - 2));
    assert_eq!(stand.client.publish(at(PAYLOAD_BYTES_MAX)).await.status, 201);
    let over = stand.client.publish(at(PAYLOAD_BYTES_MAX + 1)).await;
    assert!(over.problem(413).contains("the limit is 4096"));

    let narrow = |bytes: usize| at(bytes).replace("{\"type\"", "{\"topic\":\"narrow.x\",\"type\"");
    assert_eq!(stand.client.publish(narrow(100)).await.status, 201);
    assert!(stand.client.publish(narrow(101)).await.problem(413).contains("the limit is 100"));

    let binary = [("ce-specversion", "1.0"), ("ce-type", "x"), ("ce-id", "b"), ("ce-source", "/s")];
    assert_eq!(stand.client.post(&binary, vec![7; PAYLOAD_BYTES_MAX]).await.status, 201);
    stand.client.post(&binary, vec![7; PAYLOAD_BYTES_MAX + 1]).await.problem(413);

    let keyed = |bytes: usize| json!({"type": "x", "key": "k".repeat(bytes)}).to_string();
    assert_eq!(stand.client.publish(keyed(255)).await.status, 201);
    stand.client.publish(keyed(256)).await.problem(422);

    let headed = |count: usize| {
        let headers: Value =
            (0..count).map(|n| (format!("h{n}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
        json!({"type": "x", "headers": headers}).to_string()
    };
    assert_eq!(stand.client.publish(headed(64)).await.status, 201);
    assert!(stand.client.publish(headed(65)).await.problem(422).contains("the limit is 64"));

    let heavy = |bytes: usize| json!({"type": "x", "headers": {"name": "v".repeat(bytes - 4)}}).to_string();
    assert_eq!(stand.client.publish(heavy(16 * 1024)).await.status, 201);
    assert!(stand.client.publish(heavy(16 * 1024 + 1)).await.problem(422).contains("the limit is 16384"));

    let many = |count: usize| json!(vec![json!({"type": "a"}); count]).to_string();
    assert!(stand.client.publish(many(1_001)).await.problem(413).contains("the limit is 1000"));
    stand.stopped().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_announced_or_not() {
    let stand = Stand::start().await;
    let huge = vec![b' '; 200_000];
    stand.client.publish(&huge).await.problem(413);
    let mut chunked =
        stand.client.head("POST", "/v1/events", &[("transfer-encoding", "chunked")]).into_bytes();
    chunked.extend_from_slice(format!("\r\n{:x}\r\n", huge.len()).as_bytes());
    chunked.extend_from_slice(&huge);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    let answer = stand.client.raw(&chunked).await;
    Answer::parse(&answer).expect("an answer").problem(413);
    assert_eq!(stored(&stand.client).await, 0);
    stand.stopped().await;
}

/// An array that is nested this deep.
fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[tokio::test]
async fn json_that_is_nested_too_deep_is_refused_in_every_form() {
    let stand = Stand::start().await;
    let client = &stand.client;
    let forms = |depth: usize| {
        let data = nested(depth);
        let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &data);
        let event = format!(r#"{{"type":"x","data":{data}}}"#);
        let structured =
            format!(r#"{{"specversion":"1.0","type":"x","id":"1","source":"/{depth}","data":{data}}}"#);
        [
            ("application/json", format!(r#"[{{"type":"x"}},{event}]"#)),
            ("application/json", event),
            ("application/json", format!(r#"{{"type":"x","data_base64":"{base64}"}}"#)),
            (
                "application/json",
                format!(r#"{{"type":"x","datacontenttype":"a/b+JSON; v=1","data":{data}}}"#),
            ),
            ("application/cloudevents+json", structured.clone()),
            ("application/cloudevents-batch+json", format!("[{structured}]")),
        ]
    };
    for (content_type, body) in forms(JSON_DEPTH_MAX + 1) {
        let detail = client.post(&[("content-type", content_type)], &body).await.problem(422);
        assert!(detail.contains("deeper than 128") && detail.contains("json_depth_max"), "{detail}");
        assert_eq!(detail.starts_with("event "), body.starts_with('['), "{detail}");
    }
    for (content_type, depth, status) in [
        ("application/json;charset=utf-8", JSON_DEPTH_MAX + 1, 422),
        ("application/json", JSON_DEPTH_MAX, 201),
        ("text/plain", JSON_DEPTH_MAX + 1, 201),
    ] {
        let attributes =
            [("ce-specversion", "1.0"), ("ce-type", "x"), ("ce-source", "/s"), ("ce-id", content_type)];
        let headers = [&attributes[..], &[("content-type", content_type)]].concat();
        let answer = client.post(&headers, nested(depth)).await;
        assert_eq!(answer.status, status, "{content_type} {depth}: {}", answer.text());
    }
    for (content_type, body) in forms(JSON_DEPTH_MAX) {
        let answer = client.post(&[("content-type", content_type)], &body).await;
        assert!([200, 201].contains(&answer.status), "{content_type}: {}", answer.text());
    }
    stand.stopped().await;
}

/// Our own reader neither recurses nor fails on them: what is wrong is told.
#[tokio::test]
async fn deep_json_outside_of_the_payload_is_told_as_what_is_wrong() {
    let stand = Stand::start().await;
    let deep = nested(30_000);
    for (content_type, body, status, part) in [
        ("application/json", deep.clone(), 422, "JSON object"),
        ("application/json", deep[..30_000].to_owned(), 400, "not JSON"),
        (
            "application/json",
            format!(r#"{{"type":"x","headers":{deep}}}"#),
            422,
            "an object whose values are strings",
        ),
        ("application/json", format!(r#"{{"type":{deep}}}"#), 422, "type must be a string"),
        ("application/json", format!(r#"{{"type":"x","other":{deep}}}"#), 422, "unknown members"),
        (
            "application/cloudevents+json",
            format!(r#"{{"type":"x","other":{deep}}}"#),
            422,
            "must be a string",
        ),
    ] {
        let detail = stand.client.post(&[("content-type", content_type)], body).await.problem(status);
        assert!(detail.contains(part), "{part:?} is not in {detail:?}");
    }
    assert_eq!(stored(&stand.client).await, 0);
    stand.stopped().await;
}

#[tokio::test]
async fn what_is_not_an_event_is_told_what_is_wrong() {
    let stand = Stand::start().await;
    let cases: [(&str, &[u8], u16, &str); 9] = [
        ("application/json", b"{\"type\":", 400, "not JSON"),
        ("application/json", b"", 400, "not JSON"),
        ("application/json", b"\xff", 400, "not JSON"),
        ("application/json", b"7", 422, "JSON object"),
        ("application/json", b"[]", 422, "empty"),
        ("application/json", br#"{"type":""}"#, 422, "the type is empty"),
        ("application/json", br#"{"type":"x","headers":{"ce-id":"1"}}"#, 422, "reserved prefix"),
        ("application/json", br#"{"type":"x","headers":["a"]}"#, 422, "an object whose values are strings"),
        ("application/x-www-form-urlencoded", br#"{"type":"x"}"#, 415, "application/json"),
    ];
    for (content_type, body, status, part) in cases {
        let answer = stand.client.post(&[("content-type", content_type)], body).await;
        let detail = answer.problem(status);
        assert!(detail.contains(part), "{part:?} is not in {detail:?}");
    }
    assert_eq!(stored(&stand.client).await, 0);
    stand.stopped().await;
}

#[tokio::test]
async fn cloudevents_come_in_all_three_modes() {
    let stand = Stand::start().await;
    let structured = r#"{"specversion":"1.0","type":"t","id":"s","source":"/s","partitionkey":"k","traceparent":"00","data":{ "a":1 }}"#;
    let answer = stand.client.post(&[("content-type", "application/cloudevents+json")], structured).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"id": "s"})));
    let event = shown(&stand.client, "s").await;
    assert!(event.text().contains(r#""data":{ "a":1 }"#), "{}", event.text());
    assert_eq!(
        (&event.json()["key"], &event.json()["headers"]),
        (&json!("k"), &json!({"traceparent": "00"}))
    );

    let batch = format!("[{structured},{}]", structured.replace(r#""id":"s""#, r#""id":"s2""#));
    let answer = stand.client.post(&[("content-type", "application/cloudevents-batch+json")], batch).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"ids": ["s", "s2"]})));

    let binary = [
        ("content-type", "image/png"),
        ("ce-specversion", "1.0"),
        ("ce-type", "t"),
        ("ce-id", "b"),
        ("ce-source", "/s"),
        ("ce-subject", "Euro%20%E2%82%AC"),
    ];
    assert_eq!(stand.client.post(&binary, [0, 255, 10]).await.status, 201);
    let event = shown(&stand.client, "b").await.json();
    assert_eq!((&event["data_base64"], &event["subject"]), (&json!("AP8K"), &json!("Euro €")));
    assert_eq!(event["datacontenttype"], "image/png");

    let detail = stand.client.post(&[("ce-type", "t")], "").await.problem(422);
    assert!(detail.contains("ce-specversion is missing"), "{detail}");
    stand.stopped().await;
}
