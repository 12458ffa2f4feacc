//! What a plain client finds, in another language: id, key, headers and the payload, byte for byte.

use std::process::Command;

use posthaste_testkit::harness::Settings;

use crate::stand::{Stand, blocking, event, send};

const CLIENT: &str = r#"
import asyncio, json, sys, nats
async def main(url, stream, subject):
    client = await nats.connect(url)
    js = client.jetstream()
    subscription = await js.subscribe(subject, stream=stream, ordered_consumer=True)
    message = await subscription.next_msg(timeout=30)
    await client.close()
    # Names that the client knows itself are members of an enum.
    text = lambda one: str(getattr(one, "value", one))
    headers = {text(name): text(value) for name, value in message.headers.items()}
    print(json.dumps({"subject": message.subject, "payload": message.data.hex(), "headers": headers}))
asyncio.run(main(*sys.argv[1:]))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_in_python_finds_everything() {
    let trial = "a_plain_client_in_python_finds_everything";
    let packages = tempfile::tempdir().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(packages.path())
        .arg("nats-py");
    if !blocking(|| pip.output()).is_ok_and(|ended| ended.status.success()) {
        assert!(!Settings::from_env().all_required, "nats-py cannot be had");
        eprintln!("skipped: {trial}: nats-py cannot be had");
        return;
    }
    let Some(stand) = Stand::shared(trial).await else { return };
    let mut event = event("id-ünï", "orders");
    event.key = Some("key-日本".to_owned());
    event.payload = (0..=255).collect();
    event.headers.insert("Mixed-Case".to_owned(), "värde".to_owned());
    assert!(send(&stand.open(""), vec![event.clone()]).await[0].is_ok());
    let subject = format!("{}.orders", stand.name);
    let mut client = Command::new("python3");
    client.args(["-c", CLIENT, &stand.url, &stand.name, &subject]).env("PYTHONPATH", packages.path());
    let ended = blocking(|| client.output().unwrap());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let seen: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let hex: String = event.payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (seen["subject"].as_str(), seen["payload"].as_str()),
        (Some(subject.as_str()), Some(hex.as_str()))
    );
    for (name, value) in [
        ("Nats-Msg-Id", "id-ünï"),
        ("X-Partition-Key", "key-日本"),
        ("Mixed-Case", "värde"),
        ("ce-id", "id-%C3%BCn%C3%AF"),
        ("ce-type", "test.event"),
    ] {
        assert_eq!(seen["headers"][name].as_str(), Some(value), "{name}");
    }
}
