//! `posthaste doctor` on faults that somebody made: each is found by its check, mended by what that says, and gone after it.

pub(crate) mod embedded;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "amqp")]
pub(crate) mod rabbitmq;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod seen;
