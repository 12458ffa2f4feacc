//! NATS with JetStream: a target with pipelined acknowledgements, and a broker.
//!
//! `naming.rs` draws the subjects. `link.rs` is a connection, `publisher.rs` its acknowledgements, `wire.rs`
//! an event as a message, `target.rs` what a relay delivers to, `duplicate.rs` what a stream calls a
//! duplicate, and `consume/` what consumers read from.

mod consume;
mod duplicate;
mod examine;
mod link;
mod naming;
mod publisher;
mod settings;
mod target;
mod wire;

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::target::Capabilities;

use self::consume::Consume;
use self::link::Link;
use self::settings::URL;
pub use self::settings::{Begin, Settings};
use super::missing::Missing;
pub use crate::broker::cloudevents::Format;

/// NATS with JetStream as a target and a broker.
///
/// One connection for publishing and one for consuming, made when they are first needed, and made anew when they are lost, for
/// ever. Clones share them.
#[derive(Clone, Debug)]
pub struct NatsBroker {
    settings: Arc<Settings>,
    capabilities: Capabilities,
    publishing: Link,
    /// The last subject that no stream took.
    untaken: Arc<Missing>,
    consume: Arc<Consume>,
}

/// Whether a URL is for this broker, by its scheme.
pub(crate) fn is_url(url: &str) -> bool {
    URL.is_meant(url)
}

impl NatsBroker {
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
    /// `Config` for settings that cannot be, and certificates or credentials that cannot be used.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        let publishing = Link::new(&settings.link, "publish")?;
        let consume = Arc::new(Consume::new(&settings)?);
        let capabilities = target::capabilities(&settings);
        let untaken = Arc::default();
        Ok(Self { settings: Arc::new(settings), capabilities, publishing, untaken, consume })
    }
}
