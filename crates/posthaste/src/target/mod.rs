//! Targets, and the one place where a target's URL is opened.

pub mod null;
pub mod stdout;

use std::sync::Arc;

use posthaste_core::{Error, Result};

pub use null::NullTarget;
pub use posthaste_core::target::*;
pub use stdout::StdoutTarget;

/// What this build can deliver to.
const SCHEMES: &[&str] = &[
    "null:",
    "stdout:",
    #[cfg(feature = "amqp")]
    "amqp:",
    #[cfg(feature = "amqp")]
    "amqps:",
    #[cfg(feature = "kafka")]
    "kafka:",
    #[cfg(feature = "kafka-tls")]
    "kafkas:",
    #[cfg(feature = "nats")]
    "nats:",
    #[cfg(feature = "nats")]
    "tls:",
    #[cfg(feature = "redis")]
    "redis:",
    #[cfg(feature = "redis")]
    "rediss:",
];
/// Of these, what needs nothing after the colon.
const BARE: [&str; 2] = ["null:", "stdout:"];

/// Opens the target that a URL names: `null:`, `stdout:`, with the feature `amqp` a RabbitMQ at `amqp://…` or `amqps://…`, with
/// the feature `kafka` a Kafka at `kafka://…`, with the feature `nats` a NATS with JetStream at `nats://…` or `tls://…`, and with
/// the feature `redis` a Redis at `redis://…` or `rediss://…`.
///
/// Connects to nothing by itself; [`Target::ping`] asks whether the target would take events.
///
/// # Errors
/// `Config` as [`check`] says; `Unavailable` when the machine cannot give what the target needs.
pub fn open(url: &str) -> Result<Arc<dyn Target>> {
    check(url)?;
    match url {
        #[cfg(feature = "amqp")]
        url if crate::broker::amqp::is_url(url) => Ok(Arc::new(crate::broker::amqp::AmqpBroker::at(url)?)),
        #[cfg(feature = "kafka")]
        url if crate::broker::kafka::is_url(url) => Ok(Arc::new(crate::broker::kafka::KafkaBroker::at(url)?)),
        #[cfg(feature = "nats")]
        url if crate::broker::nats::is_url(url) => Ok(Arc::new(crate::broker::nats::NatsBroker::at(url)?)),
        #[cfg(feature = "redis")]
        url if crate::broker::redis::is_url(url) => Ok(Arc::new(crate::broker::redis::RedisBroker::at(url)?)),
        "stdout:" => Ok(Arc::new(StdoutTarget::new()?)),
        _ => Ok(Arc::new(NullTarget::new())),
    }
}

/// Checks a target's URL without opening it.
///
/// # Errors
/// `Config` for a scheme that this build does not have, with those that it has, and for settings that cannot be. The URL itself is not repeated beyond its
/// scheme, because it may hold a password.
pub fn check(url: &str) -> Result<()> {
    if BARE.contains(&url) {
        return Ok(());
    }
    #[cfg(feature = "amqp")]
    if crate::broker::amqp::is_url(url) {
        return url.parse::<crate::broker::amqp::Settings>().map(drop);
    }
    #[cfg(feature = "kafka")]
    if crate::broker::kafka::is_url(url) {
        return url.parse::<crate::broker::kafka::Settings>().map(drop);
    }
    #[cfg(feature = "nats")]
    if crate::broker::nats::is_url(url) {
        return url.parse::<crate::broker::nats::Settings>().map(drop);
    }
    #[cfg(feature = "redis")]
    if crate::broker::redis::is_url(url) {
        return url.parse::<crate::broker::redis::Settings>().map(drop);
    }
    let scheme: String = url.split(':').next().unwrap_or_default().chars().take(20).collect();
    let known = SCHEMES.join(", ");
    if BARE.iter().any(|known| known.strip_suffix(':') == Some(&scheme)) {
        return Err(Error::config(format!("nothing may follow {scheme}: in the URL of this target")));
    }
    if let Some(error) = crate::broker::of_another_build(&scheme) {
        return Err(error);
    }
    Err(Error::config(format!("there is no target for {scheme}: in this build; it has {known}")))
}

/// What the settings of a target's URL allow that may lose events, or show secrets: nothing is wrong with them, and nobody should be
/// surprised.
pub fn doubts(url: &str) -> Vec<&'static str> {
    #[cfg(feature = "kafka")]
    if crate::broker::kafka::is_url(url) {
        let settings = url.parse::<crate::broker::kafka::Settings>();
        return settings.map_or_else(|_| Vec::new(), |settings| settings.doubts());
    }
    let _ = url;
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::ErrorKind;

    #[test]
    fn an_unknown_scheme_is_told_what_there_is_and_keeps_its_password() {
        let error = open("gopher://me:hunter2@host").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("null:, stdout:"), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        #[cfg(not(feature = "kafka"))]
        assert!(open("kafka://h").err().unwrap().to_string().contains("--features kafka, which needs make"));
        assert!(open("null:x").is_err() && open("").is_err());
        assert!(open("null:").is_ok() && open("stdout:").is_ok());
    }
}
