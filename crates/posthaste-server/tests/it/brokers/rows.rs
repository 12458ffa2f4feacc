//! Rows of an outbox table of the open-outbox specification, and what those find who read behind the reference relay: id, key, every
//! header of the row, whatever it is called, and the payload byte for byte.

use posthaste::envelope::fresh_id;
use serde_json::{Value, json};

use crate::brokers::clients::{Broker, TOPIC, clients, ground, hex};
use crate::cli::folder::Folder;

const KEY: &str = "key-日本";

#[cfg(feature = "nats")]
#[test]
fn a_row_is_found_in_nats_as_the_reference_relay_sends_it() {
    found(&crate::brokers::clients::NATS);
}

#[cfg(feature = "redis")]
#[test]
fn a_row_is_found_in_redis_as_the_reference_relay_sends_it() {
    found(&crate::brokers::clients::REDIS);
}

#[cfg(feature = "kafka")]
#[test]
fn a_row_is_found_in_kafka_as_the_reference_relay_sends_it() {
    found(&crate::brokers::clients::KAFKA);
}

fn found(broker: &Broker) {
    let trial = format!("a_row_is_found_in_{}_as_the_reference_relay_sends_it", broker.name);
    let Some((server, python)) = ground(broker, &trial) else { return };
    let (id, places) = (fresh_id(), [format!("t-{}", fresh_id())]);
    clients(&python, &["prepare", broker.name, &server], &places);
    let headers = json!({
        "Mixed-Case": "värde",
        "content-type": "image/x-scan",
        "ce_tenant": "7",
        "ce-tenant": "8",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    });
    let payload: Vec<u8> = (0..=255).collect();
    let folder = with_row(&id, &headers, &payload);
    let to = format!("{server}?{}&format=raw", (broker.settings)(&places[0]));
    let report =
        folder.json(&["relay", "--storage-url", "sqlite://shop.db", "--publisher", to.as_str(), "--once"]);
    assert_eq!(report["delivered"], 1, "{report}");
    let printed = clients(&python, &["read", broker.name, &server, "1"], &places);
    let message: Value = serde_json::from_str(printed.trim()).unwrap();
    assert_eq!(
        (message["id"].as_str(), message["key"].as_str()),
        (Some(id.as_str()), Some(KEY)),
        "{message:#}"
    );
    assert_eq!(message["payload"], hex(&payload), "{message:#}");
    for (name, value) in headers.as_object().unwrap() {
        assert_eq!(&message["headers"][name], value, "{name}: {message:#}");
    }
}

/// A folder with a database of somebody's own, in which a row waits.
fn with_row(id: &str, headers: &Value, payload: &[u8]) -> Folder {
    let folder = Folder::new();
    let ddl = folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", "sqlite://shop.db"]);
    let shop = rusqlite::Connection::open(folder.path("shop.db")).unwrap();
    shop.execute_batch(ddl.text()).unwrap();
    let insert = "INSERT INTO openoutbox_events (event_id, event_type, partition_key, headers, payload) VALUES (?, ?, ?, ?, ?)";
    shop.execute(insert, (id, TOPIC, KEY, headers.to_string(), payload)).unwrap();
    folder
}
