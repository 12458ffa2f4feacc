//! Where an event goes: to which exchange, with which routing key.

use std::fmt;
use std::sync::Arc;

use posthaste_core::envelope::Envelope;

/// An exchange and a routing key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// The exchange.
    pub exchange: String,
    /// The routing key, at most 255 bytes.
    pub routing_key: String,
}

impl Route {
    /// To this exchange with this routing key.
    pub fn new(exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        Self { exchange: exchange.into(), routing_key: routing_key.into() }
    }
}

/// Says where an event goes.
#[derive(Clone)]
#[non_exhaustive]
pub enum Mapping {
    /// To the one exchange of the settings, routed by the topic. Consumers bind their queues to it by topics.
    Topic,
    /// To the exchange that is named as the topic, routed by the key, or by the topic where there is no key.
    Key,
    /// As this function says.
    Custom(Arc<dyn Fn(&Envelope) -> Route + Send + Sync>),
}

impl Mapping {
    /// As a function says.
    pub fn custom(route: impl Fn(&Envelope) -> Route + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(route))
    }

    /// Where this event goes; `exchange` is that of the settings.
    pub(super) fn route(&self, envelope: &Envelope, exchange: &str) -> Route {
        match self {
            Self::Topic => Route::new(exchange, &envelope.topic),
            Self::Key => {
                // An empty key routes nowhere in particular; it counts as none.
                let key = envelope.key.as_deref().filter(|key| !key.is_empty());
                Route::new(&envelope.topic, key.unwrap_or(&envelope.topic))
            }
            Self::Custom(route) => route(envelope),
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Topic => "Topic",
            Self::Key => "Key",
            Self::Custom(_) => "Custom",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_where_the_mapping_says() {
        let mut envelope = Envelope::new("order.placed", "{}");
        assert_eq!(Mapping::Topic.route(&envelope, "events"), Route::new("events", "order.placed"));
        assert_eq!(Mapping::Key.route(&envelope, "events"), Route::new("order.placed", "order.placed"));
        envelope.key = Some("7".to_owned());
        assert_eq!(Mapping::Topic.route(&envelope, "events"), Route::new("events", "order.placed"));
        assert_eq!(Mapping::Key.route(&envelope, "events"), Route::new("order.placed", "7"));
        let custom = Mapping::custom(|envelope| Route::new("x", &envelope.id));
        assert_eq!(custom.route(&envelope, "events"), Route::new("x", &envelope.id));
    }
}
