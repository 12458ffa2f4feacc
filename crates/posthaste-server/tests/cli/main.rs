//! The command line as its users meet it: the real binary, in a folder of its own.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

mod audit;
#[cfg(feature = "postgres")]
mod bench;
mod config;
mod dead;
mod deploy;
#[path = "../http_process/disk.rs"]
mod disk;
#[path = "../brokers/environment.rs"]
#[expect(dead_code, reason = "shared with the tests of brokers, which need more languages")]
mod environment;
mod event;
mod folder;
mod jobs;
mod lane;
mod output;
mod produce;
mod relay;
mod server;
mod serving;
#[path = "../http_process/skip.rs"]
mod skip;
mod store;
