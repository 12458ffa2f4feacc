//! What a message looks like in a queue.

use lapin::types::AMQPValue;
use serde_json::{Value, json};

use crate::rabbitmq_target::stand::{Stand, event, send};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_arrives_with_all_that_it_is() {
    let Some(stand) = Stand::shared("an_event_arrives_with_all_that_it_is").await else { return };
    let queue = stand.queue("orders", &[]).await;
    let mut sent = event("e-ü", "orders");
    sent.payload = vec![0, 255, 10];
    sent.content_type = "application/octet-stream".to_owned();
    sent.source = "/shop".to_owned();
    sent.key = Some("🗝".to_owned());
    sent.headers.insert(
        "traceparent".to_owned(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    );
    assert!(send(&stand.open("app_id=shop"), vec![sent]).await[0].is_ok());
    let message = stand.get(&queue).await.unwrap().delivery;
    let properties = &message.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().unwrap().to_string();
    assert_eq!(text(properties.message_id()), "e-ü");
    assert_eq!(text(properties.kind()), "test.event");
    assert_eq!(text(properties.app_id()), "shop");
    assert_eq!(text(properties.content_type()), "application/octet-stream");
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(message.data, [0, 255, 10]);
    let headers = properties.headers().as_ref().unwrap().inner();
    let header = |name: &str| match headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(header("cloudEvents_source"), "/shop");
    assert_eq!(header("cloudEvents_partitionkey"), "🗝");
    assert_eq!(header("cloudEvents_posthastetopic"), "orders");
    assert!(header("traceparent").starts_with("00-"));
    stand.clear(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_and_raw_events_are_a_choice() {
    let Some(stand) = Stand::shared("structured_and_raw_events_are_a_choice").await else { return };
    let queue = stand.queue("orders", &[]).await;
    assert!(send(&stand.open("format=structured"), vec![event("1", "orders")]).await[0].is_ok());
    let message = stand.get(&queue).await.unwrap().delivery;
    let body: Value = serde_json::from_slice(&message.data).unwrap();
    assert_eq!((&body["id"], &body["specversion"], &body["data"]), (&json!("1"), &json!("1.0"), &json!({})));
    assert!(send(&stand.open("format=raw"), vec![event("2", "orders")]).await[0].is_ok());
    let message = stand.get(&queue).await.unwrap().delivery;
    assert_eq!(
        (message.data.as_slice(), message.properties.headers().as_ref().unwrap().inner().len()),
        (&b"{}"[..], 0)
    );
    stand.clear(&queue).await;
}
