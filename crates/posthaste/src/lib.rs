//! Carries an application's events from the database transaction that caused them to everyone who must know.
//!
//! This is the crate to depend on: it re-exports [`posthaste_core`], the driver traits of [`posthaste_sql`] and
//! `#[derive(Event)]`, and adds the stores and targets, each behind a feature.

// So that the paths that `#[derive(Event)]` writes work in this crate's own tests and examples.
extern crate self as posthaste;

pub mod broker;
pub mod certificates;
pub mod store;
pub mod target;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis", feature = "postgres"))]
mod tls;
#[cfg(any(
    feature = "amqp",
    feature = "kafka",
    feature = "nats",
    feature = "redis",
    feature = "postgres",
    feature = "mysql"
))]
mod url;

#[cfg(feature = "derive")]
pub use posthaste_derive::Event;

pub use posthaste_core::bus::Bus;
pub use posthaste_core::consumer::{Consumer, Cx, Failure, NoDatabase};
pub use posthaste_core::event::Event;
pub use posthaste_core::*;
/// The seam to a caller's own transaction, and its implementations for known drivers.
pub use posthaste_sql as sql;

/// The examples of the pages, compiled with the documentation tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/publish.md")]
    struct Publish;
    #[doc = include_str!("../../../docs/handle-events.md")]
    struct HandleEvents;
    #[doc = include_str!("../../../docs/test-your-handlers.md")]
    struct TestYourHandlers;
    #[doc = include_str!("../../../docs/rabbitmq.md")]
    struct Rabbitmq;
    #[doc = include_str!("../../../docs/redis.md")]
    struct Redis;
}
