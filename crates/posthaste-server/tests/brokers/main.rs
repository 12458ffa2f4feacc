//! The binary in front of real brokers, and what others find there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod clients;
#[cfg(feature = "amqp")]
mod dead;
mod environment;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
mod rows;
mod sdk;
#[path = "../http_process/skip.rs"]
mod skip;
