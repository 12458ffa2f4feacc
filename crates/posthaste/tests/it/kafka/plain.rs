//! What a plain client finds, in another language: id, key, headers and the payload, byte for byte.

use std::process::Command;

use posthaste_testkit::harness::Settings;

use crate::kafka::stand::{Stand, blocking, event, send};

const CLIENT: &str = r#"
import json, sys
from confluent_kafka import Consumer
servers, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
message = consumer.poll(60)
assert message is not None and message.error() is None, message and message.error()
headers = {name: value.decode() for name, value in message.headers()}
print(json.dumps({"key": message.key().decode(), "payload": message.value().hex(), "headers": headers}))
consumer.close()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_in_python_finds_everything() {
    let trial = "a_plain_client_in_python_finds_everything";
    let Some(stand) = Stand::shared(trial) else { return };
    let packages = tempfile::tempdir().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target"])
        .arg(packages.path())
        .arg("confluent-kafka");
    if !blocking(|| pip.output()).is_ok_and(|ended| ended.status.success()) {
        assert!(!Settings::from_env().all_required, "confluent-kafka cannot be had");
        eprintln!("skipped: {trial}: confluent-kafka cannot be had");
        return;
    }
    let mut event = event("id-ünï", "orders");
    event.key = Some("key-日本".to_owned());
    event.payload = (0..=255).collect();
    event.headers.insert("Mixed-Case".to_owned(), "värde".to_owned());
    assert_eq!(send(&stand.open("create_topics=1"), vec![event.clone()]).await, [Ok(())]);
    let mut client = Command::new("python3");
    let servers = stand.url.strip_prefix("kafka://").unwrap();
    client.args(["-c", CLIENT, servers, &format!("{}orders", stand.prefix)]);
    let ended = blocking(|| client.env("PYTHONPATH", packages.path()).output().unwrap());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let seen: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let hex: String = event.payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((seen["key"].as_str(), seen["payload"].as_str()), (Some("key-日本"), Some(hex.as_str())));
    for (name, value) in [
        ("X-Event-ID", "id-ünï"),
        ("Mixed-Case", "värde"),
        ("ce_id", "id-ünï"),
        ("ce_type", "test.event"),
        ("ce_specversion", "1.0"),
        ("ce_partitionkey", "key-日本"),
    ] {
        assert_eq!(seen["headers"][name].as_str(), Some(value), "{name}");
    }
}
