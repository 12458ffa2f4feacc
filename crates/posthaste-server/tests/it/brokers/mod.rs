//! The binary in front of real brokers, and what others find there.

pub(crate) mod clients;
#[cfg(all(feature = "amqp", feature = "nats", feature = "redis"))]
pub(crate) mod dead;
pub(crate) mod environment;
pub(crate) mod rows;
pub(crate) mod sdk;
