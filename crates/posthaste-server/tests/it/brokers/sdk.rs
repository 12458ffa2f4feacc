//! What the CloudEvents SDK for Rust makes of a message that a client found.

use cloudevents::event::{Data, ExtensionValue};
use cloudevents::{AttributesReader as _, Event, EventBuilder as _, EventBuilderV10};
use serde_json::{Value, json};

use crate::brokers::clients::Broker;

/// The event in a message, as all SDKs are asked to tell it. Binary attributes are handed over one by one: the SDK's bindings are
/// for other clients than ours.
pub(crate) fn event(broker: &Broker, message: &Value) -> Value {
    let (payload, kind) = (bytes(message["payload"].as_str().unwrap()), message["type"].as_str().unwrap());
    let event = if kind.starts_with("application/cloudevents") {
        serde_json::from_slice(&payload).unwrap()
    } else {
        binary(broker, message, kind, payload)
    };
    document(&event)
}

fn binary(broker: &Broker, message: &Value, kind: &str, payload: Vec<u8>) -> Event {
    let mut builder = EventBuilderV10::new().data(kind, payload);
    for (name, value) in message["headers"].as_object().unwrap() {
        let Some(name) = name.strip_prefix(broker.attributes) else { continue };
        let value = value.as_str().unwrap();
        let value = if broker.is_percent_encoded { decoded(value) } else { value.to_owned() };
        builder = match name {
            "id" => builder.id(value),
            "source" => builder.source(value),
            "type" => builder.ty(value),
            "subject" => builder.subject(value),
            "time" => builder.time(value),
            "specversion" => {
                assert_eq!(value, "1.0");
                builder
            }
            "datacontenttype" => {
                assert_eq!(value, kind);
                builder
            }
            _ => builder.extension(name, value),
        };
    }
    builder.build().unwrap()
}

fn document(event: &Event) -> Value {
    let data = match event.data().unwrap() {
        Data::Json(value) => value.clone(),
        Data::String(text) => Value::from(text.as_str()),
        Data::Binary(bytes) => serde_json::from_slice(bytes).unwrap_or_else(|_| {
            Value::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }),
    };
    let key = event.extension("partitionkey").map(|key| match key {
        ExtensionValue::String(key) => key.clone(),
        other => panic!("{other:?} is no key"),
    });
    json!({
        "id": event.id(),
        "source": event.source().to_string(),
        "type": event.ty(),
        "subject": event.subject(),
        "partitionkey": key,
        "time": event.time().unwrap().timestamp_millis(),
        "datacontenttype": event.datacontenttype(),
        "data": data,
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// As in the HTTP binding: `%C3%BC`.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        out.extend(bytes(&part[..2]));
        out.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(out).unwrap()
}
