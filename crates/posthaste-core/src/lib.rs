//! The heart of Posthaste: its words, its seams, and everything that needs neither a driver, nor a broker client, nor HTTP.
//!
//! Follow an event along the line:
//!
//! 1. [`Event`](event::Event) and [`Registry`](registry::Registry) say what is published and where it goes.
//! 2. [`Outbox`](outbox::Outbox) turns it into a row in the caller's own transaction.
//! 3. A [`Store`](store::Store) keeps the log; a lane is one reader of it.
//! 4. The [`Relay`](relay::Relay) claims from the store, delivers to a [`Target`](target::Target) and settles.
//! 5. [`Admin`](admin::Admin) is the operator's side of the same store, and [`Review`](review::Review) looks back at what they did.
//!
//! The [memory backend](memory) is the executable model of the seams; the laws that every backend obeys live in the
//! crate `posthaste-testkit`.

pub mod admin;
mod as_text;
pub mod broker;
pub mod bus;
pub mod codec;
pub mod consumer;
pub mod crash;
pub mod envelope;
pub mod error;
pub mod event;
pub mod findings;
pub mod heartbeat;
pub mod lane;
pub mod limits;
pub mod local;
pub mod log;
pub mod memory;
mod outage;
pub mod outbox;
pub mod pattern;
pub mod prefix;
pub mod publish;
pub mod publisher;
pub mod redact;
pub mod registry;
pub mod relay;
pub mod retry;
pub mod review;
pub mod schema;
pub mod signal;
pub mod sql;
pub mod store;
pub mod table;
pub mod target;
pub mod telemetry;
pub mod time;
pub mod trace;

pub use error::{Error, ErrorKind, Result};
pub use posthaste_sql::BoxFuture;

/// A boxed stream that can move between threads.
pub type BoxStream<'a, T> = std::pin::Pin<Box<dyn futures_core::Stream<Item = T> + Send + 'a>>;

/// Says that every seam can be a trait object; it fails to compile when one cannot.
#[cfg(test)]
struct _Dyn<'a> {
    _store: &'a dyn store::Store,
    _admin: &'a dyn admin::Admin,
    _publisher: &'a dyn publisher::Publisher,
    _review: &'a dyn review::Review,
    _schema: &'a dyn schema::Schema,
    _backend: &'a dyn schema::Backend,
    _target: &'a dyn target::Target,
    _broker: &'a dyn broker::Broker,
    _feed: &'a dyn broker::Feed,
    _receipt: Box<dyn broker::Receipt>,
    _middleware: &'a dyn consumer::Middleware,
    _dedup: &'a dyn consumer::Dedup,
    _policy: &'a dyn retry::RetryPolicy,
    _tx: &'a dyn posthaste_sql::Tx,
}
