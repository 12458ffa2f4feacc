//! The record of who did what.

use posthaste_core::admin::{Actor, Applied, Command, Filter, Seek};
use posthaste_core::sql::SqliteSql;
use posthaste_core::time::Timestamp;
use rusqlite::Connection;
use serde_json::{Map, Value, json};

/// Who gave which command about what; how much it did is known at its last step.
#[derive(Clone, Debug)]
pub(super) struct Note {
    actor: String,
    via: String,
    command: &'static str,
    filter: String,
}

impl Note {
    pub(super) fn new(filter: &Filter, command: &Command, by: &Actor) -> Self {
        let mut fields = filter_fields(filter);
        fields.extend(command_fields(command));
        Self {
            actor: by.name.clone(),
            via: by.via.clone(),
            command: command.name(),
            filter: Value::Object(fields).to_string(),
        }
    }

    /// Writes it, in the transaction of the last change.
    pub(super) fn write(
        &self,
        connection: &Connection,
        sql: &SqliteSql,
        applied: Applied,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        connection.prepare_cached(&sql.audit_insert)?.execute((
            now.as_micros(),
            &self.actor,
            &self.via,
            self.command,
            &self.filter,
            count(applied.matched),
            count(applied.changed),
        ))?;
        Ok(())
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
        _ => json!({}),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
