//! The binary in front of real brokers, and what others find there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod clients;
#[cfg(all(feature = "amqp", feature = "nats", feature = "redis"))]
mod dead;
mod environment;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
mod rows;
mod sdk;
#[cfg(all(feature = "amqp", feature = "nats", feature = "redis"))]
#[path = "../cli/serving.rs"]
mod serving;
#[path = "../http_process/skip.rs"]
mod skip;
