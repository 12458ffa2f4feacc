//! The record of who did what.

use posthaste_core::admin::{Actor, Command, Filter, Seek};
use serde_json::{Map, Value, json};

/// Who gave which command about what; how much it did is known at its last step.
#[derive(Clone, Debug)]
pub(in crate::store) struct Note {
    pub(in crate::store) actor: String,
    pub(in crate::store) via: String,
    pub(in crate::store) command: &'static str,
    pub(in crate::store) filter: String,
}

impl Note {
    pub(in crate::store) fn new(filter: &Filter, command: &Command, by: &Actor) -> Self {
        let mut fields = filter_fields(filter);
        fields.extend(command_fields(command));
        Self {
            actor: by.name.clone(),
            via: by.via.clone(),
            command: command.name(),
            filter: Value::Object(fields).to_string(),
        }
    }
}

fn filter_fields(filter: &Filter) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("lane", filter.lane.as_ref().map(|lane| lane.as_str().into()));
    put("state", filter.state.map(|state| state.name().into()));
    put("ids", (!filter.ids.is_empty()).then(|| filter.ids.clone().into()));
    put("type", filter.event_type.clone().map(Value::from));
    put("topic", filter.topic.as_ref().map(|topic| topic.as_str().into()));
    put("key", filter.key.clone().map(Value::from));
    put("since", filter.since.map(|since| since.to_string().into()));
    put("until", filter.until.map(|until| until.to_string().into()));
    put("code", filter.code.clone().map(Value::from));
    fields
}

fn command_fields(command: &Command) -> Map<String, Value> {
    let value = match command {
        Command::Discard { reason, .. } => json!({ "reason": reason }),
        Command::Seek { to, .. } => {
            let to = match to {
                Seek::Beginning => "beginning".to_owned(),
                Seek::Time(time) => time.to_string(),
                _ => "end".to_owned(),
            };
            json!({ "to": to })
        }
        Command::Prune { delivered_age, dead_age, .. } => {
            let seconds = |age: &Option<std::time::Duration>| age.map(|age| age.as_secs());
            json!({ "delivered_age_s": seconds(delivered_age), "dead_age_s": seconds(dead_age) })
        }
        Command::PruneInbox { age, .. } => json!({ "age_s": age.as_secs() }),
        Command::Skip { age, reason, .. } => json!({ "age_s": age.as_secs(), "reason": reason }),
        Command::Rebase { upgraded, .. } => json!({ "upgraded": upgraded }),
        _ => json!({}),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
