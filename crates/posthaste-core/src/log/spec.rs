//! A lane's settings as its row keeps them: what operators see, and what commands need without a running relay.

use crate::lane::{LaneSpec, OnDead, Order};
use crate::pattern::Pattern;
use serde_json::json;

/// What the row of a lane with these settings says.
pub fn column(spec: &LaneSpec) -> String {
    let topics: Vec<&str> = spec.topics.iter().map(|pattern| pattern.as_str()).collect();
    let order = if spec.order == Order::PerKey { "key" } else { "none" };
    let on_dead = if spec.on_dead == OnDead::Block { "block" } else { "go on" };
    json!({ "topics": topics, "order": order, "on_dead": on_dead }).to_string()
}

/// The settings in a lane's row.
#[derive(Clone, Debug)]
pub struct StoredSpec {
    /// Whether events of one key come in their order.
    pub is_ordered: bool,
    /// Whether a dead event holds up later events of its key.
    pub blocks_on_dead: bool,
    topics: Vec<Pattern>,
}

impl StoredSpec {
    /// Reads the column; what is not understood is as if it were not there.
    pub fn read(column: &str) -> Self {
        let spec: serde_json::Value = serde_json::from_str(column).unwrap_or_default();
        let is = |field: &str, word: &str| spec.get(field).and_then(|value| value.as_str()) == Some(word);
        let topics = spec.get("topics").and_then(|topics| topics.as_array()).cloned().unwrap_or_default();
        Self {
            is_ordered: is("order", "key"),
            blocks_on_dead: is("on_dead", "block"),
            topics: topics.iter().filter_map(|topic| topic.as_str()?.parse().ok()).collect(),
        }
    }

    /// Whether the lane wants events of this topic.
    pub fn wants(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(topic))
    }
}
