//! What plain clients and the official CloudEvents SDKs find behind `posthaste relay`, in other languages: id, key, headers and
//! attributes as they were published, and the payload byte for byte.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posthaste::envelope::{Envelope, fresh_id};
use posthaste::time::Timestamp;
use serde_json::{Value, json};

use crate::brokers::{environment, sdk};
use crate::cli::folder::Folder;
use crate::http_process::skip;

/// Every one of them is a lane of its own.
const FORMATS: [&str; 3] = ["binary", "structured", "raw"];
pub(crate) const TOPIC: &str = "orders";
const MICROS_PER_MILLI: i64 = 1_000;

/// A broker, and what is its own about finding an event there. Another one is an entry here and a class in `clients.py`.
pub(crate) struct Broker {
    /// As in `clients.py`, and in the variable that has its URL.
    pub(crate) name: &'static str,
    /// What to write after the URL of the server so that events are found under a place.
    pub(crate) settings: fn(place: &str) -> String,
    /// What the names of headers begin with that are CloudEvents attributes.
    pub(crate) attributes: &'static str,
    /// Whether their values are encoded as in HTTP.
    pub(crate) is_percent_encoded: bool,
    /// The formats in which somebody who knows no CloudEvents finds the key.
    key_in: &'static [&'static str],
    /// Whether it may be missing where everything must run.
    is_optional: bool,
}

#[cfg(feature = "amqp")]
const RABBITMQ: Broker = Broker {
    name: "rabbitmq",
    settings: |place| format!("exchange={place}"),
    attributes: "cloudEvents_",
    is_percent_encoded: false,
    // AMQP has no place for it.
    key_in: &["binary"],
    is_optional: false,
};

#[cfg(feature = "nats")]
pub(crate) const NATS: Broker = Broker {
    name: "nats",
    settings: |place| format!("prefix={place}"),
    attributes: "ce-",
    is_percent_encoded: true,
    key_in: &FORMATS,
    is_optional: false,
};

#[cfg(feature = "redis")]
pub(crate) const REDIS: Broker = Broker {
    name: "redis",
    settings: |place| format!("prefix={place}:"),
    attributes: "ce_",
    is_percent_encoded: false,
    key_in: &FORMATS,
    is_optional: false,
};

#[cfg(feature = "kafka")]
pub(crate) const KAFKA: Broker = Broker {
    name: "kafka",
    settings: |place| format!("prefix={place}."),
    attributes: "ce_",
    is_percent_encoded: false,
    key_in: &FORMATS,
    is_optional: true,
};

#[cfg(feature = "amqp")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_and_sdks_find_everything_in_rabbitmq() {
    found_by_others(&RABBITMQ).await;
}

#[cfg(feature = "nats")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_and_sdks_find_everything_in_nats() {
    found_by_others(&NATS).await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_and_sdks_find_everything_in_redis() {
    found_by_others(&REDIS).await;
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_and_sdks_find_everything_in_kafka() {
    found_by_others(&KAFKA).await;
}

/// What is published: JSON, every byte that there is, and an event of which nothing is known but that it is there.
fn published() -> Vec<Envelope> {
    let mut full = Envelope::new("order.placed", r#"{"order": 7, "für": "日本 🦀", "price": 1.50}"#);
    full.id = "id-ünï-🦀".to_owned();
    full.source = "/shop".to_owned();
    full.key = Some("key-日本".to_owned());
    full.subject = Some("orders/7 ß".to_owned());
    full.headers.insert("Mixed-Case".to_owned(), "värde".to_owned());
    full.headers.insert(
        "traceparent".to_owned(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    );
    let mut bytes = Envelope::new("order.scanned", (0..=255).collect::<Vec<u8>>());
    bytes.content_type = "image/x-scan".to_owned();
    bytes.source = "urn:scanner:1".to_owned();
    bytes.key = Some("k".to_owned());
    let bare = Envelope::new("order.seen", "{}");
    let happened_at = 1_767_225_600_250 * MICROS_PER_MILLI;
    let mut events = vec![full, bytes, bare];
    for (number, event) in events.iter_mut().enumerate() {
        event.topic = TOPIC.to_owned();
        event.occurred_at = Some(Timestamp::from_micros(happened_at + number as i64 * MICROS_PER_MILLI));
    }
    events
}

/// The event as all SDKs are asked to tell it: bytes in hexadecimal, JSON as JSON, the time in milliseconds.
fn as_cloudevent(event: &Envelope) -> Value {
    let data = serde_json::from_slice(&event.payload).unwrap_or_else(|_| Value::from(hex(&event.payload)));
    json!({
        "id": event.id,
        "source": if event.source.is_empty() { "/" } else { event.source.as_str() },
        "type": event.event_type,
        "subject": event.subject,
        "partitionkey": event.key,
        "time": event.occurred_at.unwrap().as_micros() / MICROS_PER_MILLI,
        "datacontenttype": event.content_type,
        "data": data,
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The URL of the broker, and a Python with its client; `None`, said on stderr, where there is no such thing.
pub(crate) fn ground(broker: &Broker, trial: &str) -> Option<(String, PathBuf)> {
    let variable = format!("POSTHASTE_TEST_{}", broker.name.to_uppercase());
    let Some(server) = std::env::var_os(&variable).filter(|url| !url.is_empty()) else {
        let why = format!("{variable} is not set");
        if broker.is_optional {
            skip::say_of_optional(trial, &why);
        } else {
            skip::say(trial, &why);
        }
        return None;
    };
    match environment::python("python-clients", &beside("requirements.txt")) {
        Ok(python) => Some((server.into_string().unwrap(), python)),
        Err(why) => {
            skip::say(trial, &why);
            None
        }
    }
}

async fn found_by_others(broker: &Broker) {
    let trial = format!("clients_and_sdks_find_everything_in_{}", broker.name);
    let Some((server, python)) = ground(broker, &trial) else { return };
    let name = format!("t-{}", fresh_id());
    let places = FORMATS.map(|format| format!("{name}-{format}"));
    clients(&python, &["prepare", broker.name, &server], &places);
    let events = published();
    relay(broker, &server, &places, &events).await;
    let count = events.len().to_string();
    let printed = clients(&python, &["read", broker.name, &server, &count], &places);
    let found = in_order(&printed, &places, &events);
    for (format, messages) in FORMATS.iter().zip(found.chunks(events.len())) {
        for (event, message) in events.iter().zip(messages) {
            check_message(broker, format, event, message);
        }
    }
    let cloudevents = events.len() * 2;
    let expected: Vec<Value> = events.iter().chain(&events).map(as_cloudevent).collect();
    let by_python: Vec<Value> = found[..cloudevents].iter().map(|message| message["event"].clone()).collect();
    assert_eq!(by_python, expected, "by the SDK for Python");
    let by_rust: Vec<Value> =
        found[..cloudevents].iter().map(|message| sdk::event(broker, message)).collect();
    assert_eq!(by_rust, expected, "by the SDK for Rust");
    match environment::node("node-clients", &beside("package.json")) {
        Ok(folder) => {
            assert_eq!(by_node(&folder, &found[..cloudevents]), expected, "by the SDK for JavaScript")
        }
        Err(why) => skip::say(&format!("{trial} in JavaScript"), &why),
    }
}

/// The messages that were printed: those of the first place, then those of the next, as their events were published. The keys of
/// these events differ, so that nobody promises their order.
fn in_order(printed: &str, places: &[String], events: &[Envelope]) -> Vec<Value> {
    let found: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), places.len() * events.len(), "{found:#?}");
    let of = |place: &str, event: &Envelope| {
        let is_it = |message: &&Value| message["place"] == place && message["id"] == event.id.as_str();
        found.iter().find(is_it).unwrap_or_else(|| panic!("no {:?} in {place}: {found:#?}", event.id)).clone()
    };
    places.iter().flat_map(|place| events.iter().map(|event| of(place, event))).collect()
}

/// Publishes these, and lets the binary deliver them down a lane for each format.
async fn relay(broker: &Broker, server: &str, places: &[String], events: &[Envelope]) {
    let folder = Folder::new();
    let lane = |(format, place): (&&str, &String)| {
        let settings = (broker.settings)(place);
        format!("[lanes.{format}]\nto = \"{server}?{settings}&format={format}\"\n")
    };
    let lanes: String = FORMATS.iter().zip(places).map(lane).collect();
    folder.write("posthaste.toml", lanes);
    let url = format!("sqlite://{}", folder.path("posthaste.db").display());
    let store = posthaste::store::open(&url).await.unwrap();
    store.migrate().await.unwrap();
    store.publish(events.to_vec()).await.unwrap();
    drop(store);
    let report = folder.json(&["relay", "--once"]);
    assert_eq!(report["delivered"], events.len() * FORMATS.len(), "{report}");
}

/// What somebody finds who knows nothing of CloudEvents.
fn check_message(broker: &Broker, format: &str, event: &Envelope, message: &Value) {
    let headers = message["headers"].as_object().unwrap();
    assert_eq!(
        (message["id"].as_str(), &message["topic"]),
        (Some(event.id.as_str()), &Value::from(TOPIC)),
        "{message:#}"
    );
    for (name, value) in &event.headers {
        assert_eq!(headers.get(name).and_then(Value::as_str), Some(value.as_str()), "{name}: {message:#}");
    }
    if broker.key_in.contains(&format) {
        assert_eq!(message["key"].as_str(), event.key.as_deref(), "{message:#}");
    }
    if format == "structured" {
        assert_eq!(message["type"], "application/cloudevents+json", "{message:#}");
    } else {
        assert_eq!(message["payload"].as_str(), Some(hex(&event.payload).as_str()), "{message:#}");
    }
    let has_attributes = headers.keys().any(|name| name.starts_with(broker.attributes));
    assert_eq!(has_attributes, format == "binary", "{message:#}");
    assert_eq!(message["event"].is_null(), format == "raw", "{message:#}");
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/brokers").join(name)
}

/// Runs the clients and answers what they printed.
pub(crate) fn clients(python: &Path, arguments: &[&str], places: &[String]) -> String {
    let mut command = Command::new(python);
    // Nothing is left beside the sources.
    command.arg("-B").arg(beside("clients.py")).args(arguments).args(places);
    printed(command, "")
}

fn by_node(folder: &Path, messages: &[Value]) -> Vec<Value> {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let mut command = Command::new("node");
    command.arg(beside("clients.cjs")).env("NODE_PATH", folder.join("node_modules"));
    printed(command, &lines).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn printed(mut command: Command, stdin: &str) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It reads all of it before it prints anything, or nothing of it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
