//! What is written on a message when it is moved: how often it failed, since when, where it came from, and why it is dead.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_core::broker::{Count, Reason};
use posthaste_core::time::{Clock as _, SystemClock, Timestamp};

/// How many attempts have failed.
const ATTEMPTS: &str = "posthaste-attempts";
/// What is left of a pause that was longer than the longest tier, in milliseconds.
const WAIT_MS: &str = "posthaste-wait-ms";
const FIRST_FAILED_AT: &str = "posthaste-first-failed-at";
/// Where it was published to.
const EXCHANGE: &str = "posthaste-exchange";
const ROUTING_KEY: &str = "posthaste-routing-key";
/// Why it is dead, since when, and from which queue.
const CODE: &str = "posthaste-code";
const ERROR: &str = "posthaste-error";
const DEAD_AT: &str = "posthaste-dead-at";
const QUEUE: &str = "posthaste-queue";
/// It was dead and was sent again.
const REDRIVEN: &str = "posthaste-redriven";

/// Counted by a quorum queue.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// What the broker writes on a message that it moves itself; old stories, and longer with every move.
const BROKERS_OWN: [&str; 4] = [DELIVERY_COUNT, "x-death", "x-first-death-", "x-last-death-"];

/// The most of an error's text that a dead message carries.
const ERROR_BYTES_MAX: usize = 4 * 1024;
const PERSISTENT: u8 = 2;

/// What is known of a message beside the event itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) attempts: u32,
    pub(super) wait: Duration,
    pub(super) first_failed_at: Option<Timestamp>,
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) redriven: bool,
    pub(super) dead: Option<Dead>,
}

/// Why a message is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) reason: Reason,
    pub(super) at: Option<Timestamp>,
    /// Whose queue it comes from, and where a redrive brings it.
    pub(super) queue: Option<String>,
}

impl Label {
    /// Reads what is on a message, as it came by this exchange and routing key.
    pub(super) fn read(properties: &BasicProperties, exchange: &str, routing_key: &str) -> Self {
        let text = |name: &str| text(properties, name);
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        let code = text(CODE);
        Self {
            attempts: number(ATTEMPTS).map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)),
            wait: Duration::from_millis(number(WAIT_MS).unwrap_or(0)),
            first_failed_at: text(FIRST_FAILED_AT).and_then(|time| time.parse().ok()),
            exchange: text(EXCHANGE).unwrap_or_else(|| exchange.to_owned()),
            routing_key: text(ROUTING_KEY).unwrap_or_else(|| routing_key.to_owned()),
            redriven: text(REDRIVEN).is_some(),
            dead: code.map(|code| Dead {
                reason: Reason::new(code, text(ERROR).unwrap_or_default()),
                at: text(DEAD_AT).and_then(|time| time.parse().ok()),
                queue: text(QUEUE),
            }),
        }
    }

    /// It was tried once more, or not: so often has it failed by now.
    pub(super) fn failed(&mut self, delivery: u32, count: Count) {
        self.attempts = delivery.saturating_sub(u32::from(count == Count::Nothing));
        if count == Count::Attempt {
            self.first_failed_at.get_or_insert_with(|| SystemClock.now());
        }
    }

    /// It is dead, and this queue had it.
    pub(super) fn died(&mut self, queue: &str, reason: Reason) {
        let now = SystemClock.now();
        self.attempts = reason.attempts.unwrap_or(self.attempts);
        self.first_failed_at.get_or_insert(now.before(reason.held.unwrap_or_default()));
        let reason = Reason::new(reason.code, reason.message);
        self.dead = Some(Dead { reason, at: Some(now), queue: Some(queue.to_owned()) });
    }

    /// It is to be tried again as if it had never failed.
    pub(super) fn redriven(mut self) -> Self {
        self = Self {
            exchange: self.exchange,
            routing_key: self.routing_key,
            redriven: true,
            ..Self::default()
        };
        self
    }

    /// The message's properties with this label, and without what must not travel on: a time to live that would end it in a
    /// retry queue, and the name of a user who is not us.
    pub(super) fn on(&self, properties: &BasicProperties) -> BasicProperties {
        let mut headers: BTreeMap<ShortString, AMQPValue> =
            properties.headers().as_ref().map(|table| table.inner().clone()).unwrap_or_default();
        headers.retain(|name, _| {
            let name = name.as_str();
            !name.starts_with("posthaste-") && !BROKERS_OWN.iter().any(|own| name.starts_with(own))
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
        let mut entries = vec![
            (ATTEMPTS, AMQPValue::LongLongInt(i64::from(self.attempts))),
            (EXCHANGE, text(&self.exchange)),
            (ROUTING_KEY, text(&self.routing_key)),
        ];
        if !self.wait.is_zero() {
            let millis = i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX);
            entries.push((WAIT_MS, AMQPValue::LongLongInt(millis)));
        }
        if let Some(at) = self.first_failed_at {
            entries.push((FIRST_FAILED_AT, text(&at.to_string())));
        }
        if self.redriven {
            entries.push((REDRIVEN, AMQPValue::Boolean(true)));
        }
        if let Some(dead) = &self.dead {
            entries.push((CODE, text(&dead.reason.code)));
            entries.push((ERROR, text(cut(&dead.reason.message))));
            entries.extend(dead.at.map(|at| (DEAD_AT, text(&at.to_string()))));
            entries.extend(dead.queue.as_deref().map(|queue| (QUEUE, text(queue))));
        }
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

fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
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
        assert_eq!((label.attempts, label.routing_key.as_str()), (0, "orders"));
        label.failed(3, Count::Attempt);
        label.wait = Duration::from_millis(1_500);
        label.died("g.orders", Reason::new("smell", "it smells").tried(4, None));
        assert_eq!(label.attempts, 4, "the consumer knows best");
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
    fn attempts_are_those_that_failed() {
        let mut label = Label::default();
        label.failed(1, Count::Nothing);
        assert_eq!((label.attempts, label.first_failed_at), (0, None));
        label.failed(1, Count::Attempt);
        assert_eq!(label.attempts, 1);
        let first = label.first_failed_at;
        label.failed(2, Count::Attempt);
        assert_eq!((label.attempts, label.first_failed_at), (2, first), "the first failure stays the first");
        label.died("q", Reason::new("c", "m"));
        let again = label.redriven();
        assert_eq!(
            (again.attempts, again.first_failed_at, again.dead, again.redriven),
            (0, None, None, true)
        );
    }

    #[test]
    fn returns_are_known_where_the_queue_counts() {
        assert_eq!(returns(&came()), Some(2));
        assert_eq!(returns(&BasicProperties::default()), None);
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        assert_eq!(cut(&"ü".repeat(4_000)).len(), ERROR_BYTES_MAX);
        assert_eq!(cut("short"), "short");
    }
}
