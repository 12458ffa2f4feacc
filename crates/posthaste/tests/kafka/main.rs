//! Kafka as a target and as a broker, against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod beginning;
mod behind;
#[cfg(feature = "kafka-tls")]
#[path = "../certificates/mod.rs"]
mod certificates;
mod consuming;
mod cut;
mod examined;
mod killed;
#[path = "../sending/mistyped.rs"]
mod mistyped;
mod own_topics;
#[cfg(feature = "kafka-tls")]
#[path = "../certificates/papers.rs"]
mod papers;
mod plain;
mod refused;
#[path = "../rabbitmq_consume/seen.rs"]
mod seen;
#[path = "../sending/mod.rs"]
mod sending;
mod sent;
mod stand;
#[cfg(feature = "kafka-tls")]
mod tls;
