//! Brokers, and the one place where a broker's URL is opened.
//!
//! Each broker has a folder. Its `target.rs` is what a relay delivers to, and its `consume/` what a consumer
//! reads from. The files beside the folders hold what brokers share:
//!
//! * `address.rs`: URLs, and how a setting in one is read.
//! * `cloudevents.rs`: attributes by name, and the structured form. How attributes become headers is each
//!   broker's own.
//! * `fits.rs`: whether an event will be small enough, before it is stored.
//! * `story.rs`: what is written on a message that is moved.
//! * `letter.rs`: a dead letter as an operator sees it.
//! * `missing.rs`: topics and streams that do not exist.
//! * `topics.rs`: the topics of a group, where each has a queue or a consumer of its own.
//!
//! A broker keeps its own connections and reconnects by itself. The relay and the consumer decide about
//! retries and log failed events. A broker logs only what has no caller: the state of a connection, or a
//! message that it could not move. Its tasks and threads end by themselves when the broker, its feeds and
//! their deliveries are gone.

#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod address;
#[cfg(feature = "amqp")]
pub mod amqp;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod cloudevents;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod fits;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod letter;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod missing;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod story;
#[cfg(any(feature = "amqp", feature = "nats"))]
mod topics;

use std::sync::Arc;

use posthaste_core::admin::Admin;
use posthaste_core::{Error, Result};

pub use posthaste_core::broker::*;
pub use posthaste_core::bus::Bus;
pub use posthaste_core::local::LocalBroker;

/// What this build can consume from.
const SCHEMES: &[&str] = &[
    "local:",
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

/// A broker in this process: no dependency, no server.
pub fn local() -> LocalBroker {
    LocalBroker::new()
}

/// A bus on the broker that a URL names; none is `local:`, a broker in this process, so that a program runs without a server
/// until somebody gives it one.
///
/// # Errors
/// As [`open`].
pub async fn bus(url: Option<&str>) -> Result<Bus> {
    Ok(Bus::on(open(url.unwrap_or("local:")).await?))
}

/// Opens the broker that a URL names: `local:`, a new one in this process, with the feature `amqp` a RabbitMQ at `amqp://…` or
/// `amqps://…`, with the feature `nats` a NATS with JetStream at `nats://…` or `tls://…`, and with the feature `redis` a Redis at
/// `redis://…` or `rediss://…`. A server is connected to when it is needed first.
///
/// # Errors
/// `Config` for a scheme that this build does not have, with those that it has. The URL itself is not repeated beyond its
/// scheme, because it may hold a password.
pub async fn open(url: &str) -> Result<Arc<dyn Broker>> {
    if url == "local:" {
        return Ok(Arc::new(local()));
    }
    #[cfg(feature = "amqp")]
    if amqp::is_url(url) {
        return Ok(Arc::new(amqp::AmqpBroker::at(url)?));
    }
    #[cfg(feature = "kafka")]
    if kafka::is_url(url) {
        return Ok(Arc::new(kafka::KafkaBroker::at(url)?));
    }
    #[cfg(feature = "nats")]
    if nats::is_url(url) {
        return Ok(Arc::new(nats::NatsBroker::at(url)?));
    }
    #[cfg(feature = "redis")]
    if redis::is_url(url) {
        return Ok(Arc::new(redis::RedisBroker::at(url)?));
    }
    let scheme: String = url.split(':').next().unwrap_or_default().chars().take(20).collect();
    if scheme == "local" {
        return Err(Error::config("nothing may follow local: in the URL of this broker"));
    }
    if let Some(error) = of_another_build(&scheme) {
        return Err(error);
    }
    Err(Error::config(format!(
        "there is no broker for {scheme}: in this build; it has {}",
        SCHEMES.join(", ")
    )))
}

/// What to do about a scheme that another build has, if it is one.
pub(crate) fn of_another_build(scheme: &str) -> Option<Error> {
    let is_lacking = (scheme == "kafka" && !cfg!(feature = "kafka"))
        || (scheme == "kafkas" && !cfg!(feature = "kafka-tls"));
    is_lacking.then(|| {
        let (feature, also) = if scheme == "kafka" { ("kafka", "") } else { ("kafka-tls", ", and OpenSSL") };
        Error::config(format!(
            "this build has no {scheme}:; build it with --features {feature}, which needs make and a C++ compiler{also}"
        ))
    })
}

/// Opens the dead letters of the broker that a URL names, listed by group as lanes; connects when they are needed first.
///
/// # Errors
/// `Config` for a scheme whose broker has none in this build. The URL itself is not repeated beyond its scheme.
pub fn dead_letters(url: &str) -> Result<Arc<dyn Admin>> {
    #[cfg(feature = "amqp")]
    if amqp::is_url(url) {
        return Ok(Arc::new(amqp::AmqpBroker::at(url)?));
    }
    #[cfg(feature = "kafka")]
    if kafka::is_url(url) {
        return Ok(Arc::new(kafka::KafkaBroker::at(url)?));
    }
    #[cfg(feature = "nats")]
    if nats::is_url(url) {
        return Ok(Arc::new(nats::NatsBroker::at(url)?));
    }
    #[cfg(feature = "redis")]
    if redis::is_url(url) {
        return Ok(Arc::new(redis::RedisBroker::at(url)?));
    }
    let scheme: String = url.split(':').next().unwrap_or_default().chars().take(20).collect();
    if let Some(error) = of_another_build(&scheme) {
        return Err(error);
    }
    Err(Error::config(format!(
        "no broker of this build has dead letters at {scheme}:; it has {}",
        SCHEMES[1..].join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_scheme_is_told_what_there_is_and_keeps_its_password() {
        let error = open("gopher://me:hunter2@host").await.err().unwrap().to_string();
        assert!(error.contains("local:") && !error.contains("hunter2"), "{error}");
        assert!(open("local:x").await.is_err() && open("").await.is_err());
        assert!(open("local:").await.is_ok());
        #[cfg(feature = "amqp")]
        assert!(open("amqp://me:hunter2@host").await.is_ok() && open("amqp://me@host?no=1").await.is_err());
        #[cfg(not(feature = "kafka"))]
        assert!(
            open("kafka://h").await.err().unwrap().to_string().contains("--features kafka, which needs make")
        );
        #[cfg(feature = "nats")]
        assert!(open("nats://me:hunter2@host").await.is_ok() && open("tls://me@host?no=1").await.is_err());
        #[cfg(feature = "redis")]
        assert!(open("redis://me:hunter2@host").await.is_ok() && open("redis://me@host?no=1").await.is_err());
    }
}
