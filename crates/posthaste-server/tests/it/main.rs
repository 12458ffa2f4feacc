//! The integration tests of this crate, in one binary: each one would link every client by itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod brokers;
mod cli;
mod doctor;
mod http_api;
mod http_process;
#[cfg(feature = "amqp")]
mod incident;
mod postgres;
mod table;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod verbs;
