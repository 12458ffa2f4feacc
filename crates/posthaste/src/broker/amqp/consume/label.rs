//! What is written on a message when it is moved: how often it failed, since when, where it came from, and why it is dead.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::broker::story::{ATTEMPTS, OURS, REDRIVEN, Story};

/// What is left of a pause that was longer than the longest tier, in milliseconds.
const WAIT_MS: &str = "posthaste-wait-ms";
/// Where it was published to.
const EXCHANGE: &str = "posthaste-exchange";
const ROUTING_KEY: &str = "posthaste-routing-key";

/// Counted by a quorum queue.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// What the broker writes on a message that it moves itself; old stories, and longer with every move.
const BROKERS_OWN: [&str; 4] = [DELIVERY_COUNT, "x-death", "x-first-death-", "x-last-death-"];

const PERSISTENT: u8 = 2;

/// What is known of a message beside the event itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) story: Story,
    pub(super) wait: Duration,
    pub(super) exchange: String,
    pub(super) routing_key: String,
}

impl Label {
    /// Reads what is on a message, as it came by this exchange and routing key.
    pub(super) fn read(properties: &BasicProperties, exchange: &str, routing_key: &str) -> Self {
        let text = |name: &str| text(properties, name);
        let wait = text(WAIT_MS).and_then(|text| text.parse::<u64>().ok());
        Self {
            story: Story::read(text),
            wait: Duration::from_millis(wait.unwrap_or(0)),
            exchange: text(EXCHANGE).unwrap_or_else(|| exchange.to_owned()),
            routing_key: text(ROUTING_KEY).unwrap_or_else(|| routing_key.to_owned()),
        }
    }

    /// It is to be tried again as if it had never failed.
    pub(super) fn redriven(self) -> Self {
        Self { story: Story::anew(), wait: Duration::ZERO, ..self }
    }

    /// The message's properties with this label, and without what must not travel on: a time to live that would end it in a
    /// retry queue, and the name of a user who is not us.
    pub(super) fn on(&self, properties: &BasicProperties) -> BasicProperties {
        let mut headers: BTreeMap<ShortString, AMQPValue> =
            properties.headers().as_ref().map(|table| table.inner().clone()).unwrap_or_default();
        headers.retain(|name, _| {
            let name = name.as_str();
            !name.starts_with(OURS) && !BROKERS_OWN.iter().any(|own| name.starts_with(own))
        });
        for (name, value) in self.entries() {
            headers.insert(name.into(), value);
        }
        let mut moved =
            BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(FieldTable::from(headers));
        macro_rules! keep {
            ($($get:ident => $set:ident),*) => {
                $(if let Some(value) = properties.$get().clone() { moved = moved.$set(value); })*
            };
        }
        keep!(content_type => with_content_type, content_encoding => with_content_encoding, priority => with_priority,
            correlation_id => with_correlation_id, reply_to => with_reply_to, message_id => with_message_id,
            timestamp => with_timestamp, kind => with_type, app_id => with_app_id);
        moved
    }

    fn entries(&self) -> Vec<(&'static str, AMQPValue)> {
        let text = |text: &str| AMQPValue::LongString(text.into());
        let mut entries = vec![(EXCHANGE, text(&self.exchange)), (ROUTING_KEY, text(&self.routing_key))];
        if !self.wait.is_zero() {
            let millis = i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX);
            entries.push((WAIT_MS, AMQPValue::LongLongInt(millis)));
        }
        entries.extend(self.story.entries().into_iter().map(|(name, value)| match name {
            ATTEMPTS => (name, AMQPValue::LongLongInt(i64::from(self.story.attempts))),
            REDRIVEN => (name, AMQPValue::Boolean(true)),
            _ => (name, text(&value)),
        }));
        entries
    }
}

/// How often the queue has handed this message out and got it back without an answer, where it counts: a classic one does not.
pub(super) fn returns(properties: &BasicProperties) -> Option<u32> {
    text(properties, DELIVERY_COUNT).and_then(|count| count.parse().ok())
}

fn text(properties: &BasicProperties, name: &str) -> Option<String> {
    match properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::LongLongInt(number) => Some(number.to_string()),
        AMQPValue::LongInt(number) => Some(number.to_string()),
        AMQPValue::LongUInt(number) => Some(number.to_string()),
        AMQPValue::ShortInt(number) => Some(number.to_string()),
        AMQPValue::ShortShortInt(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::broker::{Count, Reason};

    use super::*;

    fn came() -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert("own".into(), AMQPValue::LongString("kept".into()));
        headers.insert("x-death".into(), AMQPValue::LongString("of old".into()));
        headers.insert(DELIVERY_COUNT.into(), AMQPValue::LongLongInt(2));
        BasicProperties::default()
            .with_headers(headers)
            .with_message_id("7".into())
            .with_expiration("100".into())
            .with_user_id("somebody".into())
    }

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let mut label = Label::read(&came(), "events", "orders");
        assert_eq!((label.story.attempts, label.routing_key.as_str()), (0, "orders"));
        label.story.failed(3, Count::Attempt);
        label.wait = Duration::from_millis(1_500);
        label.story.died("g.orders", Reason::new("smell", "it smells").tried(4, None));
        assert_eq!(label.story.attempts, 4, "the consumer knows best");
        let moved = label.on(&came());
        assert_eq!(
            Label::read(&moved, "", "g.orders.retry.0"),
            label,
            "also after the routing key has changed"
        );
        assert_eq!((moved.expiration(), moved.user_id()), (&None, &None), "these would do harm");
        assert_eq!(moved.message_id().as_ref().map(ShortString::as_str), Some("7"));
        let headers = moved.headers().clone().unwrap_or_default();
        assert!(headers.contains_key("own") && !headers.contains_key("x-death"));
        assert!(!headers.contains_key(DELIVERY_COUNT), "the next queue counts anew");
    }

    #[test]
    fn returns_are_known_where_the_queue_counts() {
        assert_eq!(returns(&came()), Some(2));
        assert_eq!(returns(&BasicProperties::default()), None);
    }
}
