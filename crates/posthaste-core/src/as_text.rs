//! JSON of what operators write: texts as in a query, a setting or on a command line, and objects of them.

use serde::Serialize;
use serde_json::{Map, Value};

/// The fields of something whose JSON is an object.
pub(crate) fn as_fields(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of).expect("texts, numbers and flags are JSON") {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Makes JSON strings of these types by their `Display` and `FromStr`.
macro_rules! json_as_text {
    ($($type:ty),+) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

pub(crate) use json_as_text;
