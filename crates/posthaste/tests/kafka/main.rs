//! Kafka as a target, against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod killed;
mod plain;
mod refused;
mod sent;
mod stand;
