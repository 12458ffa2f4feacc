//! Redis Streams: a target with pipelined `XADD`, a broker with consumer groups, and an idempotency store.
//!
//! `link.rs` is a connection, `wire.rs` an event as fields, `target.rs` what a relay delivers to, `consume/`
//! what consumers read from, and `dedup.rs` the idempotency store. The scripts are in `lua/`.

mod consume;
mod dedup;
mod examine;
mod link;
mod settings;
mod target;
mod wire;

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::target::Capabilities;

use self::consume::Consume;
pub use self::dedup::RedisDedup;
use self::link::Link;
pub use self::settings::{Beginning, Settings};
pub use crate::broker::cloudevents::Format;

/// Redis as a target and a broker.
///
/// One connection for publishing and one for consumers' answers, made when they are first needed and made anew when they are
/// lost; every feed waits for events on a connection of its own. Clones share them.
#[derive(Clone, Debug)]
pub struct RedisBroker {
    settings: Arc<Settings>,
    capabilities: Capabilities,
    publishing: Link,
    consume: Arc<Consume>,
}

/// Whether a URL is for this broker, by its scheme.
pub(crate) fn is_url(url: &str) -> bool {
    settings::URL.is_meant(url)
}

impl RedisBroker {
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
        let publishing = Link::new(&settings.link)?;
        let consume = Arc::new(Consume::new(&settings)?);
        let capabilities = target::capabilities(&settings);
        Ok(Self { settings: Arc::new(settings), capabilities, publishing, consume })
    }
}
