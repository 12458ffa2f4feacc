//! RabbitMQ, by AMQP 0-9-1: a target with pipelined confirms, and a broker.
//!
//! * `settings.rs` and `url.rs`: the URL is the configuration.
//! * `link.rs`: one connection per role.
//! * `publisher.rs`: the one task that publishes, with confirms.
//! * `wire.rs`: an event as a message. `mapping.rs` and `exchange.rs`: where it goes.
//! * `target.rs`: what the broker said, in the relay's words.
//! * `consume/`: groups as queues. `naming.rs` and `tiers.rs`: what these are called, and how a retry waits
//!   in them.

mod consume;
mod exchange;
mod link;
mod mapping;
mod naming;
mod publisher;
mod settings;
mod target;
mod tiers;
mod url;
mod wire;

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::target::Capabilities;

use self::consume::Consume;
use self::exchange::Exchanges;
use self::link::{Link, Role};
pub use self::mapping::{Mapping, Route};
use self::publisher::Publisher;
pub use self::settings::{Format, QueueType, Settings, Unrouted};

/// RabbitMQ as a target and a broker.
///
/// One connection for publishing, one for consuming and one for what consumers move, made when they are first needed, and made
/// anew when they are lost, for ever. Clones share them.
#[derive(Clone, Debug)]
pub struct AmqpBroker {
    settings: Arc<Settings>,
    capabilities: Capabilities,
    publishing: Link,
    publisher: Publisher,
    exchanges: Arc<Exchanges>,
    consume: Arc<Consume>,
}

/// Whether a URL is for this broker, by its scheme.
pub(crate) fn is_url(url: &str) -> bool {
    self::url::URL.is_meant(url)
}

impl AmqpBroker {
    /// At this URL, with the settings in it; connects to nothing yet.
    ///
    /// # Errors
    /// `Config` for a URL or settings that cannot be used; nothing secret is repeated.
    pub fn at(url: &str) -> Result<Self> {
        Self::new(url.parse()?)
    }

    /// With these settings; connects to nothing yet.
    ///
    /// # Errors
    /// `Config` for settings that cannot be, and certificates that cannot be used.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        let publishing = Link::new(&settings.link, Role::Publish)?;
        let consume = Arc::new(Consume::new(&settings)?);
        // What may be dropped need not come back.
        let mandatory = settings.publishing.unrouted != Unrouted::Drop;
        let publisher = Publisher::new(publishing.clone(), settings.publishing.confirm_timeout, mandatory);
        let capabilities = target::capabilities(&settings);
        let exchanges = Arc::default();
        Ok(Self { settings: Arc::new(settings), capabilities, publishing, publisher, exchanges, consume })
    }
}
