//! Kafka: a target with idempotent, pipelined delivery, and a broker with consumer groups.
//!
//! `link.rs` is what every client of the cluster shares: its configuration and what errors mean.
//! `producer.rs` is the producer and its reports, `lookup.rs` which topics exist, `naming.rs` what a topic
//! may be called, `wire.rs` an event as a message, `target.rs` what a relay delivers to, and `consume/` what
//! consumers read from.

mod consume;
mod examine;
mod link;
mod lookup;
mod naming;
mod producer;
mod settings;
mod target;
mod wire;

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::target::Capabilities;

pub use self::consume::Beginning;
use self::consume::Consume;
use self::producer::Link;
use self::settings::URL;
pub use self::settings::{Acks, Compression, Sasl, Settings};
pub use crate::broker::cloudevents::Format;

/// Kafka as a target and a broker.
///
/// One producer for the relay and one for what consumers move, each made when it is first needed. A producer
/// keeps its own connections to the cluster's brokers; a new one takes its place when it cannot go on. Clones
/// share them.
#[derive(Clone, Debug)]
pub struct KafkaBroker {
    settings: Arc<Settings>,
    capabilities: Capabilities,
    publishing: Link,
    consume: Arc<Consume>,
}

/// Whether a URL is for this broker, by its scheme.
pub(crate) fn is_url(url: &str) -> bool {
    URL.is_meant(url)
}

impl KafkaBroker {
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
    /// `Config` for settings that cannot be, and for files that cannot be read.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        settings.link.look_at_files()?;
        let capabilities = target::capabilities(&settings);
        let settings = Arc::new(settings);
        let publishing = Link::new(Arc::clone(&settings));
        let consume = Arc::new(Consume::new(&settings));
        Ok(Self { settings, capabilities, publishing, consume })
    }
}
