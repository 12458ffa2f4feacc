//! NATS as a target and a broker, against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod broken;
mod consuming;
mod dead;
mod killed;
mod line;
mod plain;
mod refused;
mod seen;
mod stand;
