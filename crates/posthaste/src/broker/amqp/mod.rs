//! RabbitMQ, by AMQP 0-9-1: a target with pipelined confirms, and a broker.

mod link;
mod mapping;
mod settings;
mod url;
mod wire;

use std::sync::Arc;

use posthaste_core::Result;

use self::link::{Link, Role};
pub use self::mapping::{Mapping, Route};
pub use self::settings::{Format, QueueType, Settings, Unrouted};

/// RabbitMQ as a target and a broker.
///
/// One connection for publishing and one for consuming, made when they are first needed, and made anew when they are lost,
/// for ever. Clones share them.
#[derive(Clone, Debug)]
pub struct AmqpBroker {
    settings: Arc<Settings>,
    publishing: Link,
    consuming: Link,
}

impl AmqpBroker {
    /// With these settings; connects to nothing yet.
    ///
    /// # Errors
    /// `Config` for settings that cannot be, and certificates that cannot be used.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        let publishing = Link::new(&settings.link, Role::Publish)?;
        let consuming = Link::new(&settings.link, Role::Consume)?;
        Ok(Self { settings: Arc::new(settings), publishing, consuming })
    }
}
